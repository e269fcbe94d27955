//! The peak: the highest moment that the host saw, with its big blocks and its balance sheet.

use super::figures::{Titles, bytes, count, facts, list, maybe_bytes, swatch, table};
use super::{balance, chart::account_class, heaps, text};
use crate::model::{AtPeak, AtResidentPeak, BigBlocks};
use crate::stacks::is_in_total;
use maud::{Markup, html};

pub fn big_blocks(found: &BigBlocks, label: &str) -> Markup {
    html! {
        @if found.blocks > 0 {
            h3 { "Big blocks" }
            p.note { (count(found.blocks)) " of 1 MiB and more, " (bytes(found.bytes)) " together; the largest:" }
            (list(label, &found.largest))
        }
    }
}

/// `peak` of the report whose accounts had `most` bytes, and whose process had `most_resident`.
pub fn section(peak: &AtPeak, most: i64, most_resident: Option<i64>) -> Markup {
    let moment = vec![
        ("after", html! { (text::seconds(peak.seconds)) }),
        ("live", bytes(peak.live_bytes)),
        ("resident", maybe_bytes(peak.resident_bytes)),
    ];
    let row = |(name, live): (&String, &i64)| {
        html! {
            th scope="row" { (swatch(account_class(name))) (text::clean(name)) }
            td.number { (bytes(*live)) }
            td.number { @if is_in_total(name) { (text::share(*live, peak.live_bytes)) } }
        }
    };
    let titles: Titles = [&["account"], &["live then", "share"], &[]];
    html! {
        p.note {
            "The highest moment that the host saw. The accounts\u{2019} peak, which is exact, is "
            (bytes(most.saturating_sub(peak.live_bytes).max(0))) " higher."
        }
        (facts(&moment))
        (table("Table of accounts at the peak", titles, peak.accounts.iter().map(row)))
        (big_blocks(&peak.big_blocks, "Table of the big blocks at the peak"))
        @if let Some(sheet) = &peak.balance {
            h3 { "Balance sheet after " (text::seconds(sheet.seconds)) ", with " (bytes(sheet.live_bytes)) " live" }
            @if let Some(most) = most_resident {
                p.note {
                    "The kernel\u{2019}s resident peak (VmHWM) is " (bytes(most.saturating_sub(sheet.balance.resident_bytes).max(0)))
                    " higher than what was resident then."
                }
            }
            (balance::section(&sheet.balance, "peak-balance-table", "Table of the balance sheet at the peak"))
        }
    }
}

pub fn resident_section(peak: &AtResidentPeak) -> Markup {
    let moment = serde_json::to_value(peak).unwrap_or_default();
    let moment = moment.as_object().into_iter().flatten();
    let moment = moment.filter(|(name, _)| !["accounts", "mapped"].contains(&name.as_str()));
    html! {
        p.note {
            "The moment with the most resident memory that the host saw. \u{201c}Missed\u{201d} is by how much the kernel's peak \
             is higher."
        }
        (heaps::members(moment))
        @if let Some(mapped) = peak.mapped.as_ref().filter(|it| !it.is_empty()) {
            (balance::mapped(mapped, "Table of what libraries had mapped then"))
        }
    }
}
