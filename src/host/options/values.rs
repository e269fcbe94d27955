//! The values of all options, as they were given, and as children inherit them.

use super::kinds::{COMMA, SEMICOLON};
use super::reader::Given;
use super::table::{ROWS, Row, Values, row_of};
use crate::error::{Error, Result};
use pyhost_os::semicolon_list;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

impl Values {
    /// Reads the parts of an option's values.
    pub fn read<'a>(
        &mut self,
        row: &'static Row,
        given: impl Iterator<Item = Given<'a>>,
    ) -> Result<()> {
        let mut seen = Vec::new();
        for given in given {
            let (part, by_variable) = (given.part, given.by_variable);
            let name = match by_variable {
                true => row.variable,
                false => row.option,
            };
            let name = format!("{name} {}", part.name());
            let name = name.trim_end();
            let bad = |reason: &str| Error::option(format!("{name}: {reason}"));
            if seen.contains(&part.key) && !part.is_list {
                return Err(bad("given more than once"));
            }
            seen.push(part.key);
            let text = match (given.text, part.takes_value()) {
                (Some(text), true) => text,
                (None, false) => b"1",
                (None, true) => return Err(bad(&format!("expected a value, {}", part.key))),
                (Some(_), false) => return Err(bad("takes no value")),
            };
            let text = match by_variable && row.is_list() {
                true => semicolon_list::read(text, SEMICOLON).unwrap_or_default(),
                false => text.to_vec(),
            };
            self.add(row, part.key, OsStr::from_bytes(&text))
                .map_err(|reason| match part.key.is_empty() && row.parts.len() > 1 {
                    true => bad(&format!("{reason}; or {}", row.keys())),
                    false => bad(&reason),
                })?;
            self.given.push((row.option, by_variable));
        }
        Ok(())
    }

    /// Whether the command line gave an option.
    pub fn is_given(&self, option: &str) -> bool {
        self.given.contains(&(option, false))
    }

    /// Whether an option has a value, its variable's included.
    pub fn has(&self, option: &str) -> bool {
        self.given.iter().any(|(given, _)| *given == option)
    }

    /// The name of the option, or of its variable if that gave the value.
    pub fn name(&self, option: &'static str) -> &'static str {
        match row_of(option.as_bytes()) {
            Some(row) if self.given.contains(&(option, true)) => row.variable,
            _ => option,
        }
    }

    /// The value of an option's variable, for child processes; empty if the option has no value.
    fn variable(&self, row: &Row) -> OsString {
        let separator = if row.is_list() { SEMICOLON } else { COMMA };
        let mut text = Vec::new();
        for (key, value) in self.parts(row) {
            let part = match key.split_once('=') {
                Some((name, _)) => [name.as_bytes(), b"=", value.as_bytes()].concat(),
                None if key.is_empty() => value.into_vec(),
                None => key.as_bytes().to_vec(),
            };
            if !text.is_empty() {
                text.push(separator);
            }
            text.extend(match row.is_list() {
                true => semicolon_list::written(&part, SEMICOLON),
                false => part,
            });
        }
        OsString::from_vec(text)
    }

    /// The variables that give child processes what the command line gave, without the outputs of the options
    /// `missing`. An empty variable is none.
    pub fn exports(&self, missing: &[&str]) -> Vec<(String, OsString)> {
        let rows = ROWS.iter().filter(|row| {
            let is_changed = self.is_given(row.option) || missing.contains(&row.option);
            is_changed && !row.variable.is_empty()
        });
        rows.map(|row| (row.variable.to_owned(), self.variable(row)))
            .filter(|(name, value)| !value.is_empty() || std::env::var_os(name).is_some())
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::reader::parts_of;

    #[test]
    fn children_inherit_what_was_given() {
        for line in [
            "--fail=obj=every=2,log=/a,,b;c -> obj=every=2;log=/a,,b;;c",
            "--cap=64M -> 67108864",
            "--timeline=/tmp/a,interval=10ms -> /tmp/a,interval=0.01s",
            "--guard=off -> off",
            "--guard=all -> min=1024B,every=1",
            "--guard=min=64K -> min=65536B,every=8",
            "--guard=every=3,min=1M -> min=1048576B,every=3",
            "--guard=library=/a=b.so,every=2 -> min=1B,every=2,library=/a=b.so",
            "--guard=align=4 -> min=4096B,every=8,align=4",
            "--leak-check=native,suppressions=/a,unused,suppressions=/b,status=3 -> native;status=3;suppressions=/a;suppressions=/b;unused",
            "--lines=64K,seed=7,native -> 65536,seed=7,native",
            "--lines=native -> native",
            "--lines=off -> off",
            "--lines=on,seed=0 -> 131072,seed=0",
            "--timeline=/a,interval=1m -> /a,interval=60s",
            "--numpy=limit=auto,region=100 -> limit=auto,region=100B:100B",
            "--numpy=limit=1KiB -> limit=1024B",
            "--live=/tmp/a,b -> /tmp/a,b",
            "--brief=/tmp/a,b;c -> /tmp/a,b;c",
            "--stats=file=/a,,b;c,json -> json,file=/a,,b;c",
            "--numpy=bfc,region=64M:1G -> bfc,region=67108864B:1073741824B",
            "--numpy=limit=10,numa=1,align=64,huge-pages=never -> align=64,huge-pages=never,numa=1,limit=10",
            "--region=64M,huge-pages,lock -> 67108864,lock,huge-pages",
            "--region=8M -> 8388608",
            "--region=24MiB -> 25165824",
            "--region=1.5G -> 1610612736",
            "--debug-hooks=1 -> 1",
        ] {
            let (word, variable) = line.split_once(" -> ").unwrap();
            let row = row_of(word.split('=').next().unwrap().as_bytes()).unwrap();
            let mut values = Values::default();
            let arguments = std::iter::once(word.as_bytes());
            values.read(row, parts_of(row, arguments, None)).unwrap();
            assert_eq!(values.variable(row), variable, "{line}");
            let mut again = Values::default();
            let inherited = Some(variable.as_bytes());
            let nothing = std::iter::empty();
            again.read(row, parts_of(row, nothing, inherited)).unwrap();
            assert_eq!(again.variable(row), variable, "{line}");
            assert_eq!(values.exports(&[]).len(), 1);
            assert_eq!(again.exports(&[]).len(), 0);
        }
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        for (words, texts) in [
            ("--lines=", " 0 -1 2T yes 64K, 64K,seed= off,seed=1"),
            ("--lines=", "64K,seed=1,seed=2"),
            (
                "--guard=",
                " on min min= min=0 every=0 every=-1 min=4K, all,min=4K min=4K,min=4K min=4K;every=2",
            ),
            (
                "--guard=",
                "align=3 align=0 align=32 size=4K library= library=a,library=b",
            ),
            ("--region=", " 8388607 1K 24 x -8M 25%"),
            ("--numpy=align=", " 0 8 48 8192 x"),
            ("--numpy=region=", " 0 2M:1M 1M: :1M M 1M:2M:3M 1M,2M -1"),
            ("--numpy=limit=", " M -1 1.5X 99999999999999999999G"),
            ("--timeline=T,interval=", " 10 ms 0.5ms 2h -1s nans 10msx"),
        ] {
            let (option, _) = words.split_once('=').unwrap();
            let row = row_of(option.as_bytes()).unwrap();
            for text in texts.split(' ') {
                let word = format!("{words}{text}");
                let given = parts_of(row, std::iter::once(word.as_bytes()), None);
                assert!(Values::default().read(row, given).is_err(), "{word}");
            }
        }
    }
}
