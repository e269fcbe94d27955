//! The rules of `--leak-check suppressions=FILE`.

use super::outputs::Outputs;
use super::table::Values;
use crate::check::leaks::Suppressions;
use crate::error::{Error, Result};

/// Reads the files. One that a parent process named and that cannot be read is left out, with a notice.
pub fn read(values: &Values, outputs: &mut Outputs) -> Result<Suppressions> {
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
                if !outputs.is_inherited("--leak-check", values) {
                    return Err(Error::option(text));
                }
                let notice = format!("{text}; the script runs without its rules");
                outputs.notices.push(notice);
            }
        }
    }
    Ok(rules)
}
