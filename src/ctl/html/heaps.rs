//! The heaps: the allocator of array data, the bounded heap, and blocks by size, a histogram an account: live bytes against
//! what the heap has room for.

use super::figures::{bar, bytes, count, facts, swatch, table, trouble, value, words, yes_no};
use super::{chart::account_class, text};
use crate::model::{Numpy, Ordered, Region, SizeClass};
use maud::{Markup, html};
use serde_json::Value;

fn members(members: &Ordered<Value>) -> Markup {
    let member = |(name, member): (&String, &Value)| (words(name), value(name, member));
    let rows: Vec<(String, Markup)> = members.iter().map(member).collect();
    facts(&rows)
}

pub fn numpy(numpy: &Numpy) -> Markup {
    let text = |name, text: &String| (name, html! { (text::clean(text)) });
    let known = |name, known: &Option<String>| Some(text(name, known.as_ref()?));
    let rows = [
        known("NumPy", &numpy.version),
        Some(text("array data from", &numpy.allocator)),
        numpy.align.map(|align| ("aligned to", bytes(align))),
        known("huge pages", &numpy.huge_pages),
        numpy.numa_node.map(|node| ("memory node", count(node))),
    ];
    let rows: Vec<_> = rows.into_iter().flatten().collect();
    html! {
        (facts(&rows))
        @if let Some(pool) = &numpy.pool { h3 { "Pool" } (members(pool)) }
        @if let Some(region) = &numpy.region { h3 { "Region of arrays" } (members(region)) }
    }
}

pub fn region(region: &Region) -> Markup {
    html! {
        (bar("obj", [region.peak_committed_bytes, region.committed_bytes], region.size_bytes))
        (facts(&[
            ("size", bytes(region.size_bytes)),
            ("committed", bytes(region.committed_bytes)),
            ("peak committed", bytes(region.peak_committed_bytes)),
            ("before the script", bytes(region.before_main_bytes)),
            ("reserved addresses", bytes(region.reserved_bytes)),
            ("commits refused", trouble(region.refused_commits)),
            ("locked", html! { (yes_no(region.locked)) }),
            ("huge pages", html! { (yes_no(region.huge_pages)) }),
        ]))
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
