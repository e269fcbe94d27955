//! The system for the host and `pyhostctl`, and how they write text: nothing here knows of
//! accounts, Python, mimalloc or options.
//!
//! If a function allocates, its comment says so; every other one may be called from inside an
//! allocation or a signal handler.

pub mod bytes;
pub mod calls;
pub mod cell;
pub mod clock;
pub mod descriptor;
pub mod duration;
pub mod errno;
pub mod file;
pub mod forks;
pub mod format;
pub mod mapping;
pub mod mmap_vec;
pub mod named;
pub mod path_template;
pub mod process;
pub mod reserve;
pub mod sanitizers;
pub mod semicolon_list;
pub mod signals;
pub mod socket;
pub mod strings;
pub mod system_call;
pub mod terminal_text;

/// The state of a module: a struct, and the one static value of it, each field with what it begins with. With `thread static` each
/// thread has a value of its own.
#[macro_export]
macro_rules! state {
    (
        $(#[$doc:meta])* $vis:vis static $name:ident: $type:ident {
            $($(#[$field_doc:meta])* $field_vis:vis $field:ident: $kind:ty = $value:expr,)*
        }
    ) => {
        $(#[$doc])*
        $vis struct $type { $($(#[$field_doc])* $field_vis $field: $kind,)* }

        $(#[$doc])*
        $vis static $name: $type = $type { $($field: $value,)* };
    };
    (
        $(#[$doc:meta])* thread static $name:ident: $type:ident {
            $($(#[$field_doc:meta])* $field:ident: $kind:ty = $value:expr,)*
        }
    ) => {
        $(#[$doc])*
        struct $type { $($(#[$field_doc])* $field: $kind,)* }

        ::std::thread_local! { static $name: $type = const { $type { $($field: $value,)* } }; }
    };
}
