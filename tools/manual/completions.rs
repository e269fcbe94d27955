//! The completions of pyhost: the scripts beside this file, with the options filled in. clap_complete's would offer the host's
//! options after the script's name, and `--stats json`, which the host refuses. The words from the first that is not the
//! host's on are completed as those of `python3`.

use crate::values::{Parts, Value};
use clap::{Arg, Command};
use clap_complete::Shell;

pub fn of_pyhost(shell: Shell, command: &Command) -> String {
    let (template, row): (_, fn(&Option_) -> String) = match shell {
        Shell::Bash => (include_str!("pyhost.bash"), in_bash),
        Shell::Zsh => (include_str!("pyhost.zsh"), in_zsh),
        _ => (include_str!("pyhost.fish"), in_fish),
    };
    let options: Vec<_> = command.get_arguments().map(Option_::of).collect();
    let names = |filter: fn(&Option_) -> bool, between: &str| {
        let names = options.iter().filter(|option| filter(option));
        names
            .map(|option| format!("--{}", option.name))
            .collect::<Vec<_>>()
            .join(between)
    };
    let between = if shell == Shell::Fish { " " } else { "|" };
    template
        .replace(
            "@NEXT@",
            &names(|option| option.form == Form::Next, between),
        )
        .replace(
            "@OTHER@",
            &names(|option| option.form != Form::Next, between),
        )
        .replace("@ALL@", &names(|_| true, " "))
        .replace(
            "@WITH_VALUE@",
            &names(|option| option.form == Form::Optional, "= "),
        )
        .replace(
            "@ROWS@",
            options.iter().map(row).collect::<String>().trim_end(),
        )
        .replace(
            "@STATES@",
            options
                .iter()
                .map(state_in_zsh)
                .collect::<String>()
                .trim_end(),
        )
}

#[derive(PartialEq, Eq)]
enum Form {
    Alone,
    Next,
    Optional,
}

struct Option_ {
    name: String,
    form: Form,
    value_name: String,
    help: String,
    values: Vec<Value>,
}

impl Option_ {
    fn of(argument: &Arg) -> Self {
        let parts = Parts::of(
            &argument
                .get_help()
                .map(ToString::to_string)
                .unwrap_or_default(),
        );
        let value_name = argument.get_value_names().and_then(|names| names.first());
        let value_name = value_name.map(ToString::to_string).unwrap_or_default();
        let form = match (
            argument.get_action().takes_values(),
            argument.is_require_equals_set(),
        ) {
            (false, _) => Form::Alone,
            (true, true) => Form::Optional,
            (true, false) => Form::Next,
        };
        let mut values = parts.values;
        values.retain(|value| value.word().is_some());
        // `--help=all` says its value by the name alone.
        if form != Form::Alone && value_name.chars().all(char::is_lowercase) {
            values.push(Value {
                form: value_name.clone(),
                help: String::new(),
            });
        }
        Self {
            name: argument.get_long().unwrap_or_default().to_owned(),
            form,
            value_name,
            help: parts.line,
            values,
        }
    }

    /// Whether its value is a path.
    fn is_path(&self) -> bool {
        ["PATH", "FILE", "DIR"]
            .iter()
            .any(|name| self.value_name.starts_with(name))
    }

    fn words(&self) -> impl Iterator<Item = (&str, &Value)> {
        self.values
            .iter()
            .filter_map(|value| Some((value.word()?, value)))
    }
}

/// A pattern of `case`, and what it sets.
fn in_bash(option: &Option_) -> String {
    let words: Vec<_> = option.words().map(|(word, _)| word).collect();
    if words.is_empty() && !option.is_path() {
        return String::new();
    }
    let path = if option.is_path() { " path=1" } else { "" };
    format!(
        "        --{}) values=\"{}\"{path} ;;\n",
        option.name,
        words.join(" ")
    )
}

/// A specification of `_arguments`.
fn in_zsh(option: &Option_) -> String {
    let (sign, name) = match option.form {
        Form::Alone => ("", String::new()),
        Form::Next => (
            "=",
            format!(":{}:->{}", for_zsh(&option.value_name), option.name),
        ),
        Form::Optional => (
            "=-",
            format!("::{}:->{}", for_zsh(&option.value_name), option.name),
        ),
    };
    let row = quoted(
        "    ",
        &format!("*--{}{sign}[{}]{name}", option.name, for_zsh(&option.help)),
    );
    row.replace('\n', " \\\n")
}

/// What zsh completes in the value of an option.
fn state_in_zsh(option: &Option_) -> String {
    let files = if option.is_path() {
        "_files && ret=0; "
    } else {
        ""
    };
    let values: String = option
        .words()
        .map(|(word, value)| {
            let (name, action) = match word.strip_suffix(['=', ':']) {
                Some(name) if value.is_file() => (name, ":path:_files"),
                Some(name) => (name, ":value: "),
                None => (word, ""),
            };
            quoted(
                "      ",
                &format!("{name}[{}]{action}", for_zsh(&value.help)),
            )
            .trim_end()
            .to_owned()
                + " \\\n"
        })
        .collect();
    match (values.is_empty(), files.is_empty()) {
        (true, true) => String::new(),
        (true, false) => format!("    ({}) {files};;\n", option.name),
        (false, _) => format!(
            "    ({}) {files}_values -s , value \\\n{values}      && ret=0 ;;\n",
            option.name
        ),
    }
}

fn for_zsh(text: &str) -> String {
    let mut out = String::new();
    for letter in text.chars() {
        if "[]:\\".contains(letter) {
            out.push('\\');
        }
        out.push(letter);
    }
    out
}

fn in_fish(option: &Option_) -> String {
    let described = |(word, value): (&str, &Value)| {
        let help = value.help.replace(['\'', '$', '"', '\\'], "");
        format!("{word}\\t'{help}'")
    };
    let words: Vec<_> = option.words().map(described).collect();
    let takes = match (&option.form, option.is_path()) {
        (Form::Next, true) => " -r -F",
        (Form::Next, false) => " -x",
        (Form::Optional, true) => " -F",
        (Form::Optional, false) => " -f",
        (Form::Alone, _) => "",
    };
    let words = match words.is_empty() {
        true => String::new(),
        false => format!(" -a \"(__pyhost_values {})\"", words.join(" ")),
    };
    quoted(
        &format!(
            "complete -c pyhost -n __pyhost_at_host -l {}{takes}{words} -d ",
            option.name
        ),
        &option.help,
    )
}

/// A line that ends with a word in single quotes.
fn quoted(before: &str, text: &str) -> String {
    format!("{before}'{}'\n", text.replace('\'', "'\\''"))
}
