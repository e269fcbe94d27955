//! The heaps: the allocator of array data, the bounded heap, lost blocks, and blocks by size, a histogram an account: live bytes
//! against what the heap has room for.

use super::figures::{self, bar, bytes, count, facts, swatch, table, value, words};
use super::{chart::account_class, text};
use crate::model::{Leaks, Ordered, SizeClass};
use maud::{Markup, html};
use serde_json::Value;

/// The members of a section by their own names, but for those that are null; an object or a list of objects below its name.
pub fn members<'a>(members: impl IntoIterator<Item = (&'a String, &'a Value)>) -> Markup {
    let known = members.into_iter().filter(|(_, member)| !member.is_null());
    let is_part = |member: &Value| member.is_object() || member[0].is_object();
    let (parts, others): (Vec<_>, Vec<_>) = known.partition(|(_, member)| is_part(member));
    let member = |(name, member): (&String, &Value)| (words(name), value(name, member));
    let rows: Vec<(String, Markup)> = others.into_iter().map(member).collect();
    html! {
        @if !rows.is_empty() { (facts(&rows)) }
        @for (name, part) in parts {
            h3 { (words(name)) }
            @match part.as_array() {
                Some(list) => (figures::list(&format!("Table of {}", words(name)), list)),
                None => (self::members(part.as_object().into_iter().flatten())),
            }
        }
    }
}

pub fn region(region: &Ordered<Value>) -> Markup {
    let bytes = |name: &str| region.get(name).and_then(Value::as_i64).unwrap_or(0);
    let filled = ["peak_committed_bytes", "committed_bytes"].map(bytes);
    html! { (bar("obj", filled, bytes("size_bytes"))) (members(region)) }
}

/// The result of the leak check.
pub fn leaks(leaks: &Leaks) -> Markup {
    html! {
        @if leaks.blocks == 0 {
            p { "No block was lost." }
        } @else {
            p {
                strong { (count(leaks.blocks)) @if leaks.blocks == 1 { " block, " } @else { " blocks, " } (bytes(leaks.bytes)) }
                ": allocated since the script\u{2019}s start, live after finalisation, and nothing points there."
            }
            (figures::list("Table of lost blocks", &leaks.groups))
        }
        @if leaks.threads > 0 { p.note { (text::count(leaks.threads)) @if leaks.threads == 1 { " thread" } @else { " threads" } " of Python still ran, of which CPython itself loses blocks." } }
        @if leaks.interpreters { p.note { "There were further interpreters, of which CPython itself loses blocks." } }
        @if !leaks.sure && leaks.blocks > 0 { p.note { "So the exit status stays the script\u{2019}s." } }
    }
}

/// Heights of a histogram, in units of its picture.
const HEIGHT: f64 = 100.0;

/// The part of the room that is not live, of 1; None if there is no room.
fn fragmentation(live: i64, capacity: i64) -> Option<f64> {
    (capacity > 0).then(|| 1.0 - (live as f64 / capacity as f64).clamp(0.0, 1.0))
}

fn shown(fragmentation: Option<f64>) -> String {
    fragmentation.map_or(String::new(), |part| format!("{:.1}\u{a0}%", part * 100.0))
}

/// The histogram: a column a class, of its capacity, filled as far as it is live.
fn histogram(classes: &[SizeClass], class: &str) -> Markup {
    let height = |class: &SizeClass| class.capacity_bytes.max(class.live_bytes);
    let most = classes.iter().map(height).max();
    let most = most.unwrap_or(0).max(1) as f64;
    let column = |index: usize, name: &str, bytes: i64| {
        let height = bytes.max(0) as f64 * HEIGHT / most;
        html! {
            rect class=(name) x=(index * 10 + 1) width="8" y=(format!("{:.2}", HEIGHT - height))
                height=(format!("{height:.2}")) {}
        }
    };
    html! {
        svg class={ "histogram " (class) } aria-hidden="true" preserveAspectRatio="none"
            viewBox=(format!("0 0 {} {HEIGHT}", classes.len() * 10)) {
            @for (index, class) in classes.iter().enumerate() {
                g {
                    title {
                        (text::bytes(class.block_bytes)) ": " (text::bytes(class.live_bytes)) " live of "
                        (text::bytes(class.capacity_bytes))
                    }
                    rect.hit x=(index * 10) width="10" height=(HEIGHT) {}
                    (column(index, "room", class.capacity_bytes))
                    (column(index, "live", class.live_bytes))
                }
            }
        }
        @let labelled = [0, classes.len() / 4, classes.len() / 2, classes.len() * 3 / 4, classes.len() - 1];
        p.axis aria-hidden="true" {
            @if classes.len() < 8 {
                @for class in classes { span { (text::bytes(class.block_bytes)) } }
            } @else {
                @for index in labelled { span { (text::bytes(classes[index].block_bytes)) } }
            }
        }
    }
}

fn account(name: &str, classes: &[SizeClass]) -> Markup {
    let live = text::sum(classes.iter().map(|class| class.live_bytes));
    let capacity = text::sum(classes.iter().map(|class| class.capacity_bytes));
    let blocks = text::sum(classes.iter().map(|class| class.live_blocks));
    let name = text::clean(name);
    let row = |class: &SizeClass| {
        html! {
            th scope="row" .number { (bytes(class.block_bytes)) }
            td.number { (count(class.live_blocks)) }
            td.number { (bytes(class.live_bytes)) }
            td.number { (bytes(class.capacity_bytes)) }
            td.number { (shown(fragmentation(class.live_bytes, class.capacity_bytes))) }
        }
    };
    let titles = &["block size", "live blocks", "live", "room", "fragmentation"];
    html! {
        article.classes data-account=(name) {
            h3 { (swatch(account_class(&name))) (name) }
            p.note {
                (count(blocks)) " blocks, " (bytes(live)) " live of " (bytes(capacity)) " that their pages have room for"
                @if let Some(part) = fragmentation(live, capacity) { "; fragmentation " strong { (shown(Some(part))) } }
            }
            (histogram(classes, account_class(&name)))
            details {
                summary { "All " (classes.len()) " sizes of " (name) }
                (table(&format!("Table of the sizes of {name}"), [&[], titles, &[]], classes.iter().map(row)))
            }
        }
    }
}

pub fn sizes(accounts: &Ordered<Vec<SizeClass>>) -> Markup {
    html! {
        p.note { "A column for each size of block, from the smallest to the largest: filled, what is live; pale, the room of its pages." }
        @for (name, classes) in accounts.iter().filter(|(_, classes)| !classes.is_empty()) { (account(name, classes)) }
    }
}
