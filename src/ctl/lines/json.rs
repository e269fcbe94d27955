//! The table as JSON, schema `pyhost-lines/1`.

use super::rows::{By, Row, Subject, Table};
use crate::model::escaped;
use crate::stacks::Frame;
use serde_json::{Value, json};

const SCHEMA: &str = "pyhost-lines/1";

/// A line of JSON with the first `top` rows.
pub fn text(table: &Table, top: usize) -> String {
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
