//! Messages of protobuf, a row a field: its number, its kind as prost names it, its name and its type.

/// Messages with the fields that are written here; names and numbers are those of the public files.
macro_rules! messages {
    ($($(#[$doc:meta])* $message:ident { $($tag:tt [$($kind:tt)+] $field:ident: $type:ty,)* })+) => {
        $(
            $(#[$doc])*
            #[derive(Clone, PartialEq, Eq, Hash, prost::Message)]
            pub struct $message {
                $(#[prost($($kind)+, tag = $tag)] pub $field: $type,)*
            }
        )+
    };
}

pub(super) use messages;
