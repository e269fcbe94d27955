//! The result of the leak check.

use super::figures::{bytes, count, list};
use super::text;
use crate::model::Leaks;
use maud::{Markup, html};

pub fn leaks(leaks: &Leaks) -> Markup {
    html! {
        @if leaks.blocks == 0 {
            p { "No block was lost." }
        } @else {
            p {
                strong { (count(leaks.blocks)) @if leaks.blocks == 1 { " block, " } @else { " blocks, " } (bytes(leaks.bytes)) }
                ": allocated since the script\u{2019}s start, live after finalisation, and nothing points there."
            }
            (list("Table of lost blocks", &leaks.groups))
        }
        @if leaks.threads > 0 { p.note { (text::count(leaks.threads)) @if leaks.threads == 1 { " thread" } @else { " threads" } " of Python still ran, of which CPython itself loses blocks." } }
        @if leaks.interpreters { p.note { "There were further interpreters, of which CPython itself loses blocks." } }
        @if !leaks.sure && leaks.blocks > 0 { p.note { "So the exit status stays the script\u{2019}s." } }
    }
}
