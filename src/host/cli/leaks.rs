//! The options of the leak check, as clap reads them.

use crate::bytes::Expected;
use crate::leaks::Scope;
use clap::builder::PossibleValue;
use clap::{Args, ValueEnum};

impl ValueEnum for Scope {
    fn value_variants<'a>() -> &'a [Self] {
        &[Scope::Python, Scope::Native, Scope::Off]
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        let help = match self {
            Scope::Python => "CPython's domains and array data",
            Scope::Native => "those and malloc's",
            Scope::Off => "nothing",
        };
        Some(PossibleValue::new(self.name()).help(help))
    }
}

fn exit_status(text: &str) -> Result<u8, Expected> {
    text.parse().map_err(|_| Expected("a number from 0 to 255"))
}

/// The leak check.
#[derive(Debug, Default, Args)]
pub struct LeakOptions {
    /// Look for lost blocks when Python has been finalised
    #[arg(
        long,
        value_name = "WHAT",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "python",
        hide_possible_values = true,
        help = "\
When Python has been finalised, look for blocks that the script allocated
and that nothing points at any more; a leak is printed on stderr and makes
the exit status 23 where it would be 0
  python  in CPython's domains and array data [default]
  native  in malloc's blocks, too
  off     not at all"
    )]
    pub leak_check: Option<Scope>,

    /// The exit status of a leak
    #[arg(
        long,
        value_name = "N",
        value_parser = exit_status,
        help = "\
The exit status of a leak, 0 to 255; 0 leaves the script's [default: 23]"
    )]
    pub leak_exit_status: Option<u8>,
}
