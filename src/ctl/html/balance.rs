//! The balance sheet: what the resident size is made of.

use super::figures::{bytes, head, list, scroll, swatch, words};
use super::{chart::account_class, text};
use crate::model::{Balance, BalanceRow, MappedBy};
use maud::{Markup, html};
use serde_json::json;
use std::cmp::Reverse;

/// The class of the style sheet that colours a row.
fn class(row: &BalanceRow) -> &'static str {
    match row.kind.as_str() {
        "account" => account_class(&row.name),
        "heap" => "heap",
        "file" => "file",
        "stack" => "stack",
        "anonymous" => "anonymous",
        _ => "other",
    }
}

/// The explanation of a row: by its name if it has one of its own, else by its kind.
fn about(row: &BalanceRow) -> &str {
    match (row.name.as_str(), row.kind.as_str()) {
        ("heap_slack", _) => "free blocks between live ones",
        ("python_arena", _) => "CPython's own heap, beside live objects",
        ("heap_kept", _) => "pages without a live block",
        ("uncounted", _) => "live blocks that the ledger does not count",
        ("heap_own", _) => "mimalloc\u{2019}s own tables",
        ("host_tables", _) => "the host\u{2019}s own tables",
        ("library_maps", _) => "work space of libraries",
        ("jit_code", _) => "machine code made at run time",
        ("shared_memory", _) => "shared with other processes",
        ("brk", _) => "libc\u{2019}s own heap",
        (_, "account") => "live blocks of the account",
        (_, "heap") => "kept by the heap",
        (_, "file") => "mapped files",
        (_, "stack") => "stacks",
        (_, "anonymous") => "other memory",
        (_, other) => other,
    }
}

/// The rows and what remains, side by side: the name, class and bytes of each, and the sum of those before it.
fn parts(balance: &Balance) -> Vec<(String, &'static str, i64, f64)> {
    let rows = balance.rows.iter();
    let rows = rows.map(|row| (words(&row.name), class(row), row.resident_bytes));
    let rest = ("remainder".to_owned(), "remainder", balance.remainder_bytes);
    let parts = rows.chain([rest]).filter(|(_, _, bytes)| *bytes > 0);
    let with_sum = |sum: &mut f64, (name, class, bytes)| {
        let from = std::mem::replace(sum, *sum + bytes as f64);
        Some((name, class, bytes, from))
    };
    parts.scan(0.0, with_sum).collect()
}

/// The sheet; `id` and `label` are those of its table.
pub fn section(balance: &Balance, id: &str, label: &str) -> Markup {
    let resident = balance.resident_bytes;
    let parts = parts(balance);
    let last = parts.last();
    let sum = last.map_or(0.0, |(.., bytes, from)| from + *bytes as f64);
    let table = html! {
        table #(id) {
            (head([&["part"], &["resident", "share"], &["what it is"]]))
            tbody {
                @for row in &balance.rows {
                    tr {
                        th scope="row" { (swatch(class(row))) (words(&row.name)) }
                        td.number { (bytes(row.resident_bytes)) }
                        td.number { (text::share(row.resident_bytes, resident)) }
                        td.line { (text::clean(about(row))) }
                    }
                }
                tr.remainder {
                    th scope="row" { (swatch("remainder")) "remainder" }
                    td.number { (bytes(balance.remainder_bytes)) }
                    td.number { (text::share(balance.remainder_bytes, resident)) }
                    td { "not explained" }
                }
            }
            tfoot { tr {
                th scope="row" { "resident" }
                td.number { (bytes(resident)) }
                td.number { (text::share(resident, resident)) }
                td {}
            } }
        }
    };
    html! {
        p.note { "Pages that are in memory, by what they are for. Live bytes that were never touched have none." }
        @if sum > 0.0 {
            svg.whole aria-hidden="true" width="100%" height="34" {
                @for (name, class, bytes, from) in &parts {
                    rect class=(class) height="34"
                        x=(format!("{:.3}%", from * 100.0 / sum))
                        width=(format!("{:.3}%", *bytes as f64 * 100.0 / sum)) {
                        title { (name) ": " (text::bytes(*bytes)) ", " (text::share(*bytes, resident)) }
                    }
                }
            }
        }
        (scroll(label, &table))
        @if !balance.mapped.is_empty() {
            p.note { "Memory that libraries have mapped themselves, past malloc, by the file that asked for it." }
            (mapped(&balance.mapped, "Table of what libraries have mapped"))
        }
    }
}

/// The table of what libraries have mapped, the largest first.
pub fn mapped(libraries: &[MappedBy], label: &str) -> Markup {
    let mut libraries: Vec<_> = libraries.iter().collect();
    libraries.sort_by_key(|it| Reverse((it.resident_bytes, it.mapped_bytes)));
    list(label, json!(libraries).as_array().unwrap_or(&Vec::new()))
}
