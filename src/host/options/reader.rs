//! The one reader of options: what the command line and the variables give to each. It allocates nothing, since
//! [`super::early`] reads before `main`, too.

use super::kinds::{COMMA, SEMICOLON};
use super::table::{Form, Part, Row, row_of};
use pyhost_os::semicolon_list;
use std::{ffi::OsStr, os::unix::ffi::OsStrExt, path::Path};

/// Python's own long options: where one appears, Python's arguments begin.
const PYTHON_OPTIONS: [&[u8]; 5] = [
    b"--version",
    b"--help-all",
    b"--help-env",
    b"--help-xoptions",
    b"--check-hash-based-pycs",
];

/// Whether the program is called by a name of Python's: then all arguments are Python's.
pub fn is_python_name(argv0: &[u8]) -> bool {
    let name = Path::new(OsStr::from_bytes(argv0)).file_name();
    name.is_some_and(|name| name.as_bytes().starts_with(b"python"))
}

/// An option of the host among the arguments.
pub struct Found<'a> {
    pub name: &'a [u8],
    /// Its value, in the same word or the next.
    pub value: Option<&'a [u8]>,
    /// The words that it takes, one or two.
    pub words: usize,
}

/// The host's options, with which the arguments after the program's name begin.
pub fn host_options<'a>(
    mut rest: impl Iterator<Item = &'a [u8]> + Clone,
) -> impl Iterator<Item = Found<'a>> + Clone {
    std::iter::from_fn(move || {
        let word = rest.next()?;
        let mut parts = word.splitn(2, |&byte| byte == b'=');
        let (name, mut value) = (parts.next().unwrap_or_default(), parts.next());
        if !word.starts_with(b"--") || word == b"--" || PYTHON_OPTIONS.contains(&name) {
            return None;
        }
        let mut words = 1;
        if value.is_none() && row_of(name).is_some_and(|row| matches!(row.form, Form::Next(_))) {
            value = rest.clone().next().filter(|next| !next.starts_with(b"-"));
            if value.is_some() {
                rest.next();
                words = 2;
            }
        }
        Some(Found { name, value, words })
    })
}

#[derive(Clone, Copy, Debug)]
pub struct Given<'a> {
    pub part: &'static Part,
    /// Its text, in which commas are written twice if the option has keys. `None` for a key without `=`.
    pub text: Option<&'a [u8]>,
    pub by_variable: bool,
}

/// The parts of an option's values: those of the command line, else those of its variable.
///
/// `arguments` follow the program's name.
pub fn parts_of<'a>(
    row: &'static Row,
    arguments: impl Iterator<Item = &'a [u8]> + Clone,
    variable: Option<&'a [u8]>,
) -> impl Iterator<Item = Given<'a>> + Clone {
    let own = host_options(arguments).filter(move |found| found.name == row.option.as_bytes());
    let variable = match own.clone().next() {
        None => variable.filter(|text| !text.is_empty()),
        Some(_) => None,
    };
    let values = variable.into_iter().flat_map(move |text| {
        let whole = Some(text).filter(|_| !row.is_list());
        let list = Some(text).filter(|_| row.is_list());
        let items = list
            .into_iter()
            .flat_map(|text| semicolon_list::items(text, SEMICOLON));
        whole.into_iter().chain(items)
    });
    let missing = match row.form {
        Form::Alone => "1",
        Form::Optional(_, missing) => missing,
        Form::Next(_) => "",
    };
    let texts = own.map(move |found| found.value.unwrap_or(missing.as_bytes()));
    let texts = texts.map(|text| (text, false));
    texts
        .chain(values.map(|text| (text, true)))
        .flat_map(move |(text, by_variable)| parts(row, text, by_variable))
}

/// The parts of one value. Neighbours that have no key are one part: some values have commas of their own.
fn parts<'a>(
    row: &'static Row,
    text: &'a [u8],
    by_variable: bool,
) -> impl Iterator<Item = Given<'a>> + Clone {
    let given = move |part, text| Given {
        part,
        text,
        by_variable,
    };
    let (main, keys) = (&row.parts[0], &row.parts[1..]);
    let keyed = move |item: &'a [u8]| {
        let mut halves = item.splitn(2, |&byte| byte == b'=');
        let name = halves.next().unwrap_or_default();
        let part = keys.iter().find(|part| part.name().as_bytes() == name)?;
        Some(given(part, halves.next()))
    };
    let mut rest = Some(text);
    std::iter::from_fn(move || {
        let text = rest.take()?;
        if keys.is_empty() {
            return Some(given(main, Some(text)));
        }
        let mut end = 0;
        for item in semicolon_list::items(text, COMMA) {
            match keyed(item) {
                Some(found) if end == 0 => {
                    rest = text.get(item.len() + 1..);
                    return Some(found);
                }
                Some(_) => {
                    rest = Some(&text[end..]);
                    break;
                }
                None => end += item.len() + 1,
            }
        }
        Some(given(main, Some(&text[..end - 1])))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn host_options_end_where_pythons_begin() {
        let lines = [
            "|script.py --stats|--check-hash-based-pycs always s.py|-V|-- --stats",
            "--stats script.py|--brief=R --version|--wrong s.py|--allocator",
            "--timeline T s.py",
            "--stats=json --brief R -c pass",
        ];
        for (count, lines) in lines.iter().enumerate() {
            for words in lines.split('|') {
                let found = host_options(words.split_ascii_whitespace().map(str::as_bytes));
                let found: usize = found.map(|found| found.words).sum();
                assert_eq!(found, count, "{words}");
            }
        }
    }
}
