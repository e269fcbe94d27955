//! Which allocators this run uses: the options, `PYTHONMALLOC` and the process's tools together.

use super::Options;
use crate::error::{Error, Result};
use crate::libc_exports::native::{self, Mode};
use crate::python::{hooks::domains::Asked, numpy};
use crate::{allocator::Allocator, cpython::IS_FREE_THREADED, descriptor::notice};

pub struct Allocators {
    pub python: Allocator,
    /// Whether CPython's debug hooks lie over them.
    pub debug_hooks: bool,
    pub numpy: numpy::ArraySettings,
}

impl Allocators {
    /// Decides, when malloc's mode `native` is known and pre-initialisation has left `asked`.
    ///
    /// # Errors
    /// A region is asked for, and a variable of Python's leaves nothing to put there.
    pub fn choose(options: &Options, native: Mode, asked: Asked) -> Result<Self> {
        if asked.is_taken {
            leave_to_preloaded();
        }
        let python = match native == Mode::Off || asked.is_taken {
            true => Allocator::System,
            false => (options.given.allocator.or(asked.allocator)).unwrap_or(Allocator::Mimalloc),
        };
        if python == Allocator::System && options.region.is_some() {
            return Err(Error::option(
                "--region: nothing is in it where PYTHONMALLOC takes CPython's allocators from the \
                 system; expected PYTHONMALLOC unset, mimalloc's or pymalloc",
            ));
        }
        if python == Allocator::System {
            native::set_mode(Mode::Off);
        } else if let (true, Some(asked)) = (IS_FREE_THREADED, options.given.allocator) {
            notice(format_args!(
                "--allocator {}: a free-threaded Python keeps OBJ on its own mimalloc, where it is counted",
                asked.name()
            ));
        }
        Ok(Allocators {
            python,
            debug_hooks: asked.debug_hooks || options.asks_for_hooks() && !asked.is_taken,
            // Beneath a tool that must see every block, array data is left to it as well.
            numpy: match native {
                Mode::Off => numpy::ArraySettings::default(),
                _ => options.numpy,
            },
        })
    }
}

/// Says that CPython's allocators are a preloaded library's, unless the tool was named already.
fn leave_to_preloaded() {
    if native::left_to().is_none() {
        native::leave_to("a preloaded library");
        notice(format_args!(
            "a preloaded library has put its own allocators in place of CPython's: they are left to it \
             (--malloc off)"
        ));
    }
}
