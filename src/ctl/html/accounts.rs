//! The table of accounts: live and peak bytes, with bars, and what was refused.

use super::figures::{self, bytes, count, scroll, swatch, trouble};
use super::{chart::account_class, text};
use crate::model::{Account, Report};
use maud::{Markup, html};

/// The memory that an account counts, in a few words.
fn about(name: &str) -> &'static str {
    match name {
        "raw" => "PyMem_RawMalloc: without the GIL",
        "mem" => "PyMem_Malloc: buffers of the interpreter",
        "obj" => "PyObject_Malloc: Python objects",
        "arena" => "arenas of pymalloc, frame stacks",
        "numpy" => "data of NumPy\u{2019}s arrays",
        "native" => "malloc of C libraries",
        "mapped" => "mmap of C libraries: beside the total",
        _ => "",
    }
}

pub fn section(report: &Report) -> Markup {
    let accounts = &report.accounts;
    let most = accounts.values().map(|account| account.peak_bytes).max();
    let most = most.unwrap_or(0);
    let bar = |account: &Account, class: &str| {
        figures::bar(class, [account.peak_bytes, account.live_bytes], most)
    };
    let mut all = accounts.values();
    let has_finalized = all.any(|account| account.finalized_live_bytes.is_some());
    let cap = |scope: &str| match report.caps.of(scope) {
        Some(cap) => bytes(cap),
        None => html! { span.unknown { "none" } },
    };
    let sum = |figure: fn(&Account) -> i64| text::sum(accounts.values().map(figure));
    let titles = "live|peak|live blocks|allocations|refused|failed|injected|cap".split('|');
    let titles = titles.chain(has_finalized.then_some("live, finalised"));
    let table = html! {
        table #accounts-table {
            thead { tr {
                th scope="col" { "account" }
                th scope="col" .wide-only { "peak, and live in it" }
                @for title in titles { th scope="col" .number { (title) } }
            } }
            tbody {
                @for (name, account) in accounts {
                    @let class = account_class(name);
                    tr data-account=(name) .inactive[!account.active] {
                        th scope="row" title=(about(name)) {
                            (swatch(class)) (text::clean(name))
                            @if !account.active { span.unknown { " not in use" } }
                        }
                        td.wide-only { (bar(account, class)) }
                        td.number data-field="live_bytes" { (bytes(account.live_bytes)) }
                        td.number data-field="peak_bytes" { (bytes(account.peak_bytes)) }
                        td.number data-field="live_blocks" { (count(account.live_blocks)) }
                        td.number data-field="total_blocks" { (count(account.total_blocks)) }
                        td.number data-field="refused" { (trouble(account.refused)) }
                        td.number data-field="failed" { (trouble(account.failed)) }
                        td.number data-field="injected" { (trouble(account.injected)) }
                        td.number { (cap(name)) }
                        @if has_finalized {
                            td.number { @if let Some(left) = account.finalized_live_bytes { (bytes(left)) } }
                        }
                    }
                }
            }
            tfoot { tr data-account="total" {
                th scope="row" { "total" }
                td.wide-only {}
                td.number data-field="live_bytes" { (bytes(report.total.live_bytes)) }
                td.number data-field="peak_bytes" { (bytes(report.total.peak_bytes)) }
                td.number { (count(sum(|account| account.live_blocks))) }
                td.number { (count(sum(|account| account.total_blocks))) }
                td.number { (trouble(sum(|account| account.refused))) }
                td.number { (trouble(sum(|account| account.failed))) }
                td.number { (trouble(sum(|account| account.injected))) }
                td.number { (cap("total")) }
                @if has_finalized {
                    td.number { @if let Some(left) = report.total.finalized_live_bytes { (bytes(left)) } }
                }
            } }
        }
    };
    html! {
        p.note {
            "Bytes are what blocks take from the heap. Accounts reach their peaks at different moments, so \
             the total\u{2019}s peak is less than their sum; what lies in another account counts once. \
             What libraries have mapped is beside the total."
        }
        ul.bars aria-hidden="true" {
            @for (name, account) in accounts.iter().filter(|(_, account)| account.active) {
                @let class = account_class(name);
                li { span { (text::clean(name)) } (bar(account, class)) span { (text::bytes(account.live_bytes)) } }
            }
        }
        (scroll("Table of accounts", &table))
    }
}
