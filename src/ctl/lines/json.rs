//! The table as JSON, schema `pyhost-lines/1`.

use super::rows::{By, Row, Subject, Table};
use crate::stacks::{Amount, Frame};
use pyhost_record::describe::Sink;
use pyhost_record::json::Json;

/// The schema's name, the first field.
const SCHEMA: &str = "pyhost-lines/1";

/// A line of JSON with the first `top` rows.
pub fn text(table: &Table, top: usize) -> String {
    let mut text = String::new();
    let mut sink = Json::new(&mut text);
    sink.text("schema", SCHEMA);
    sink.text("command", &table.stacks.command);
    sink.text("view", table.view.name());
    sink.text("by", table.by.name());
    optional("account", table.account, &mut sink);
    sink.int("interval_bytes", table.stacks.interval);
    sink.int("samples", table.stacks.samples);
    sink.int("dropped", table.stacks.dropped);
    sink.int("total_bytes", table.total);
    sink.int("left_out_bytes", table.left_out);
    let (shown, others) = table.rows.split_at(top.min(table.rows.len()));
    sink.begin_list("rows");
    for row in shown {
        describe(table, row, &mut sink);
    }
    sink.end();
    sink.begin("more");
    sink.int("rows", others.len() as i64);
    figures(table, Table::sum_of(others), &mut sink);
    sink.end();
    sink.finish();
    text
}

fn describe(table: &Table, row: &Row, sink: &mut impl Sink) {
    sink.begin("");
    sink.text("name", &row.subject.to_string());
    match row.subject {
        Subject::Line {
            file,
            line,
            function,
        } => {
            place(file, line, function, sink);
            optional("package", table.package_of(row), sink);
        }
        Subject::Function { file, function } => {
            sink.text("file", file);
            sink.text("function", function);
        }
        _ if table.by == By::Stack => stack(table, row, sink),
        _ => {}
    }
    sink.text("account", row.account());
    sink.begin_list("accounts");
    row.accounts.iter().for_each(|name| sink.text("", name));
    sink.end();
    figures(table, row.sum, sink);
    if table.has_ages() {
        match row.sum.age.seconds() {
            Some(seconds) => sink.fraction("age_seconds", seconds),
            None => sink.null("age_seconds"),
        }
    }
    sink.fraction("share", row.sum.bytes as f64 / table.total.max(1) as f64);
    sink.end();
}

fn stack(table: &Table, row: &Row, sink: &mut impl Sink) {
    sink.begin_list("stack");
    for Frame {
        name,
        place: at,
        library,
    } in table.stacks.calls_of(row.sites[0])
    {
        let (file, line) = at.as_ref().map_or(("", 0), |(file, line)| (file, *line));
        sink.begin("");
        place(file, line, name, sink);
        if let Some(library) = library {
            sink.text("library", library);
        }
        sink.end();
    }
    sink.end();
}

fn place(file: &str, line: u32, function: &str, sink: &mut impl Sink) {
    sink.text("file", file);
    sink.int("line", line.into());
    sink.text("function", function);
}

fn figures(table: &Table, sum: Amount, sink: &mut impl Sink) {
    sink.int("bytes", sum.bytes);
    sink.int("error_bytes", table.stacks.error_bytes(sum));
    sink.int("blocks", sum.blocks);
}

fn optional(key: &str, text: Option<&str>, sink: &mut impl Sink) {
    match text {
        Some(text) => sink.text(key, text),
        None => sink.null(key),
    }
}
