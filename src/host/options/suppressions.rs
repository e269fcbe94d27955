//! The rules of `--leak-suppressions`, from the command line or the variable.

use super::table::Given;
use crate::check::leaks::{Source, Suppressions};
use crate::error::Error;

/// Reads the files. One that a parent process named and that cannot be read is left out, with a notice.
///
/// # Errors
/// A file of the command line that cannot be read, or a wrong rule.
pub fn read(
    cli: &Given,
    variables: &Given,
    is_inherited: bool,
    notices: &mut Vec<String>,
) -> Result<Suppressions, Error> {
    let named = cli.leak_suppressions.as_ref();
    let option = match named {
        Some(_) => "--leak-suppressions",
        None => "PYHOST_LEAK_SUPPRESSIONS",
    };
    let sources = named.or(variables.leak_suppressions.as_ref());
    let sources = sources.map(Vec::as_slice).unwrap_or_default();
    let mut rules = Suppressions::default();
    rules.names_unused = sources.contains(&Source::Unused);
    for source in sources {
        let Source::File(path) = source else {
            continue;
        };
        let text = std::fs::read_to_string(path);
        let path = path.display().to_string();
        match text {
            Ok(text) => rules
                .add(&path, &text)
                .map_err(|reason| Error::option(format!("{option}: '{path}' {reason}")))?,
            Err(error) => {
                let text = format!("{option}: '{path}' cannot be read ({error})");
                if named.is_some() || !is_inherited {
                    return Err(Error::option(text));
                }
                notices.push(format!("{text}; the script runs without its rules"));
            }
        }
    }
    Ok(rules)
}
