//! The table for people, and as JSON, schema `pyhost-lines/1`.

use super::rows::{By, Row, Subject, Table};
use crate::model::escaped;
use crate::stacks::{Amount, Frame};
use pyhost_os::bytes::Bytes;
use serde_json::{Value, json};
use std::fmt::{Display, Write};

const CALLS: usize = 20;

/// The first `top` rows, the sum of the others, and the facts of the samples.
pub fn text(table: &Table, top: usize) -> String {
    let stacks = table.stacks;
    let (command, title, by) = (&stacks.command, table.view.title(), table.by.name());
    let mut text = format!("{command}: {title}, by {by}");
    if let Some(account) = table.account {
        let _ = write!(text, ", of account {account}");
    }
    let _ = write!(text, "\n{:>11}", "bytes");
    if stacks.interval > 1 {
        let _ = write!(text, "{:>12}", "\u{b1} error");
    }
    let _ = write!(text, "{:>8}{:>12}", "share", "blocks");
    if table.has_ages() {
        let _ = write!(text, "{:>8}", "age");
    }
    text += "  ";
    let name = table.by.name();
    write_names(&mut text, table, "account", &name);
    let (shown, others) = table.rows.split_at(top.min(table.rows.len()));
    for row in shown {
        text += &figures(table, row.sum);
        match table.package_of(row) {
            Some(package) => {
                let name = format_args!("{}, by {package}", row.subject);
                write_names(&mut text, table, &row.accounts.join("+"), name);
            }
            None => write_names(&mut text, table, &row.accounts.join("+"), row.subject),
        }
        if table.by == By::Stack {
            write_calls(&mut text, table, row);
        }
    }
    if !others.is_empty() {
        text += &figures(table, Table::sum_of(others));
        write_names(&mut text, table, "", format_args!("{} more", others.len()));
    }
    if table.rows.is_empty() {
        let _ = writeln!(text, "{}", table.view.nothing());
    }
    text + &facts(table)
}

/// Bytes, error, share and blocks.
fn figures(table: &Table, sum: Amount) -> String {
    let mut text = format!("{:>11}", shown(sum.bytes));
    if table.stacks.interval > 1 {
        let _ = write!(text, "{:>12}", shown(table.stacks.error_bytes(sum)));
    }
    let share = 100.0 * sum.bytes as f64 / table.total.max(1) as f64;
    let _ = write!(text, "{share:>7.1}%{:>12}", sum.blocks);
    if table.has_ages() {
        let _ = write!(text, "{:>8}", sum.age);
    }
    text + "  "
}

/// The last columns: the accounts, unless each row is one, and the name.
fn write_names(text: &mut String, table: &Table, account: &str, name: impl Display) {
    let _ = match table.by {
        By::Account => writeln!(text, "{name}"),
        _ => writeln!(text, "{account:<8} {name}"),
    };
}

fn write_calls(text: &mut String, table: &Table, row: &Row) {
    let mut calls = table.stacks.calls_of(row.sites[0]);
    for call in calls.by_ref().take(CALLS) {
        let _ = writeln!(text, "{:>11}  {}", "", Subject::of_call(call));
    }
    let more = calls.count();
    if more > 0 {
        let _ = writeln!(text, "{:>11}  {more} more", "");
    }
}

fn facts(table: &Table) -> String {
    let (stacks, total, left_out) = (table.stacks, table.total, table.left_out);
    let how = match stacks.interval {
        ..=1 => "every allocation was sampled".to_owned(),
        interval => format!("one sample in {}", shown(interval)),
    };
    let rest = match left_out {
        0 => "the rows have all bytes".to_owned(),
        _ => {
            let (part, all) = (shown(left_out), shown(total));
            format!("the stacks that the report leaves out have {part} of {all}")
        }
    };
    let (samples, dropped) = (stacks.samples, stacks.dropped);
    format!("{how}, {samples} samples, {dropped} dropped; {rest}\n")
}

fn shown(bytes: i64) -> String {
    let sign = if bytes < 0 { "-" } else { "" };
    format!("{sign}{}", Bytes(bytes.unsigned_abs()))
}

const SCHEMA: &str = "pyhost-lines/1";

/// A line of JSON with the first `top` rows.
pub fn json(table: &Table, top: usize) -> String {
    let (shown, others) = table.rows.split_at(top.min(table.rows.len()));
    let more = Table::sum_of(others);
    let value = json!({
        "schema": SCHEMA,
        "command": table.stacks.command,
        "view": table.view.name(),
        "by": table.by.name(),
        "account": table.account,
        "interval_bytes": table.stacks.interval,
        "samples": table.stacks.samples,
        "dropped": table.stacks.dropped,
        "total_bytes": table.total,
        "left_out_bytes": table.left_out,
        "rows": shown.iter().map(|row| described(table, row)).collect::<Vec<_>>(),
        "more": {
            "rows": others.len(),
            "bytes": more.bytes,
            "error_bytes": table.stacks.error_bytes(more),
            "blocks": more.blocks,
        },
    });
    escaped(&value.to_string())
}

fn described(table: &Table, row: &Row) -> Value {
    let mut value = row.subject.to_json();
    if let Subject::Line { .. } = row.subject {
        value["package"] = table.package_of(row).into();
    } else if table.by == By::Stack {
        let calls = table.stacks.calls_of(row.sites[0]);
        value["stack"] = calls.map(call).collect();
    }
    value["account"] = row.account().into();
    value["accounts"] = json!(row.accounts);
    value["bytes"] = row.sum.bytes.into();
    value["error_bytes"] = table.stacks.error_bytes(row.sum).into();
    value["blocks"] = row.sum.blocks.into();
    if table.has_ages() {
        value["age_seconds"] = row.sum.age.seconds().into();
    }
    value["share"] = (row.sum.bytes as f64 / table.total.max(1) as f64).into();
    value
}

fn call(frame: &Frame) -> Value {
    let place = frame.place.as_ref();
    let (file, line) = place.map_or(("", 0), |(file, line)| (file, *line));
    let mut value = json!({"file": file, "line": line, "function": frame.name});
    if let Some(library) = &frame.library {
        value["library"] = library.as_str().into();
    }
    value
}
