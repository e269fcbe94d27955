//! The rules of `--leak-check suppressions=FILE`.

use super::table::Values;
use crate::check::leaks::Suppressions;
use crate::error::Error;

/// Reads the files. One that a parent process named and that cannot be read is left out, with a notice.
pub fn read(
    values: &Values,
    is_inherited: bool,
    notices: &mut Vec<String>,
) -> Result<Suppressions, Error> {
    let name = format!("{} suppressions", values.name("--leak-check"));
    let mut rules = Suppressions::default();
    rules.names_unused = values.leak_unused.unwrap_or_default();
    for path in values.leak_suppressions.iter().flatten() {
        let text = std::fs::read_to_string(path);
        let path = path.display().to_string();
        match text {
            Ok(text) => rules
                .add(&path, &text)
                .map_err(|reason| Error::option(format!("{name}: '{path}' {reason}")))?,
            Err(error) => {
                let text = format!("{name}: '{path}' cannot be read ({error})");
                if values.is_given("--leak-check") || !is_inherited {
                    return Err(Error::option(text));
                }
                notices.push(format!("{text}; the script runs without its rules"));
            }
        }
    }
    Ok(rules)
}
