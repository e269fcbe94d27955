//! The manual pages. clap_mangen would fill the lists of values in pyhost's help into paragraphs, and make a page of each
//! command of pyhostctl: they are written here, by the crate that it uses.

use crate::values::Parts;
use clap::builder::StyledStr;
use clap::{Arg, Command};
use roff::{Inline, Roff, bold, italic, roman};
use std::io::{Result, Write};

/// Writes the page of pyhost.
pub fn write(command: &Command, out: &mut impl Write) -> Result<()> {
    let mut page = begin(command, out)?;
    let after = text_of(command.get_after_help());
    let (paragraphs, statuses) = after.split_once("Exit status:").expect("the statuses");
    for text in paragraphs.trim().split("\n\n") {
        page.control("PP", []);
        paragraph(&mut page, &sentence(text));
    }
    page.control("SH", ["OPTIONS"]);
    let mut group = "";
    for argument in command.get_arguments() {
        let heading = argument.get_help_heading().unwrap_or_default();
        if heading != group {
            page.control("SS", [heading]);
            group = heading;
        }
        option(&mut page, argument);
    }
    page.control("SH", ["EXAMPLES"]);
    for (command, what) in EXAMPLES {
        item(&mut page, vec![bold(command)], what);
    }
    page.control("SH", ["EXIT STATUS"]);
    paragraph(&mut page, "The script's own, but");
    let statuses = statuses
        .lines()
        .filter_map(|line| line.trim().split_once("  "));
    for (status, when) in statuses {
        item(&mut page, vec![bold(status)], when);
    }
    see_also(&mut page, &["pyhostctl", "python3"]);
    page.to_writer(out)
}

/// Commands to begin with, and what each does.
const EXAMPLES: [(&str, &str); 5] = [
    (
        "pyhost --lines script.py",
        "Which lines hold the memory, as a table at the end.",
    ),
    (
        "pyhost --stats=html,file=run.html script.py",
        "The whole report as a page for a browser.",
    ),
    (
        "pyhost --cap 512M server.py",
        "A MemoryError that the script can catch, at 512 MiB.",
    ),
    (
        "pyhost --live -m gunicorn app:app",
        "Workers that pyhostctl top shows while they run.",
    ),
    (
        "pyhost -m pytest -p pyhost_pytest",
        "Tests with their memory, and limits of it.",
    ),
];

/// Writes the page of pyhostctl.
pub fn write_of_commands(mut command: Command, out: &mut impl Write) -> Result<()> {
    // The usages of commands are made from their arguments.
    command.build();
    let mut page = begin(&command, out)?;
    page.control("SH", ["OPTIONS"]);
    for argument in command.get_arguments() {
        option(&mut page, argument);
    }
    page.control("SH", ["COMMANDS"]);
    for each in command.get_subcommands_mut() {
        page.control("SS", [usage(each).as_str()]);
        paragraph(
            &mut page,
            &sentence(&text_of(each.get_long_about().or(each.get_about()))),
        );
        let is_own = |argument: &&Arg| {
            !argument.is_global_set() && !["help", "version"].contains(&argument.get_id().as_str())
        };
        for argument in each.get_arguments().filter(is_own) {
            option(&mut page, argument);
        }
        let after = text_of(each.get_after_help());
        if !after.is_empty() {
            page.control("PP", []).control("nf", []);
            page.text([roman(after)]).control("fi", []);
        }
    }
    page.control("SH", ["EXIT STATUS"]);
    let statuses = text_of(command.get_after_help());
    paragraph(&mut page, statuses.trim_start_matches("Exit status: "));
    see_also(&mut page, &["pyhost"]);
    page.to_writer(out)
}

/// The title, and a page with the name, the usage and a sentence.
fn begin(command: &Command, out: &mut impl Write) -> Result<Roff> {
    let (name, title) = (command.get_name(), command.get_name().to_uppercase());
    let version = command.get_version().unwrap_or_default();
    // The crate would leave the empty date out.
    writeln!(
        out,
        ".TH {title} 1 \"\" \"{name} {version}\" \"User Commands\""
    )?;
    let about = text_of(command.get_about());
    let mut page = Roff::new();
    // No hyphens in the names of variables and functions.
    page.control("nh", []).control("ad", ["l"]);
    page.control("SH", ["NAME"]);
    page.text([roman(format!("{name} - {about}"))]);
    page.control("SH", ["SYNOPSIS"]);
    page.text([roman(usage(&mut command.clone()))]);
    page.control("SH", ["DESCRIPTION"]);
    paragraph(&mut page, &sentence(&about));
    Ok(page)
}

/// An option or an argument, with its values and keys.
fn option(page: &mut Roff, argument: &Arg) {
    let short = argument.get_short().map(|short| format!("-{short}"));
    let long = argument.get_long().map(|long| format!("--{long}"));
    let names: Vec<_> = short.into_iter().chain(long).collect();
    let value_names = argument.get_value_names().unwrap_or_default().join(" ");
    let takes_value = argument.get_action().takes_values();
    let mut head = vec![bold(names.join(", "))];
    if takes_value {
        let (before, after) = match (names.is_empty(), argument.is_require_equals_set()) {
            (true, _) => ("", ""),
            (_, true) => ("[=", "]"),
            _ => (" ", ""),
        };
        head.extend([roman(before), italic(value_names), roman(after)]);
    }
    let parts = Parts::of(&text_of(argument.get_long_help().or(argument.get_help())));
    item(page, head, &sentence(&parts.line));
    let mut rest = parts.paragraph;
    if takes_value && parts.values.is_empty() {
        let possible = argument.get_possible_values();
        if !possible.is_empty() {
            let names: Vec<_> = possible.iter().map(|value| value.get_name()).collect();
            rest = format!("{rest} One of {}.", names.join(", "));
        }
        if let [default] = argument.get_default_values() {
            rest = format!("{rest} [default: {}]", default.display());
        }
    }
    if !rest.is_empty() {
        page.control("br", []);
        paragraph(page, &sentence(&rest));
    }
    if !parts.values.is_empty() {
        page.control("RS", []);
        for value in parts.values {
            item(page, vec![bold(value.form)], &value.help);
        }
        page.control("RE", []);
    }
}

fn item(page: &mut Roff, head: Vec<Inline>, text: &str) {
    page.control("TP", []);
    page.text(head);
    paragraph(page, text);
}

/// A text whose lines man breaks.
fn paragraph(page: &mut Roff, text: &str) {
    page.text([roman(text.replace('\n', " "))]);
}

fn see_also(page: &mut Roff, programs: &[&str]) {
    page.control("SH", ["SEE ALSO"]);
    let programs: Vec<_> = programs
        .iter()
        .map(|program| format!("{program}(1)"))
        .collect();
    paragraph(page, &programs.join(", "));
}

fn usage(command: &mut Command) -> String {
    command
        .render_usage()
        .to_string()
        .trim_start_matches("Usage: ")
        .to_owned()
}

fn text_of(text: Option<&StyledStr>) -> String {
    text.map(ToString::to_string).unwrap_or_default()
}

/// A text that ends with a full stop.
fn sentence(text: &str) -> String {
    let end = if text.ends_with(['.', ']', ')']) {
        ""
    } else {
        "."
    };
    format!("{}{end}", text.trim())
}
