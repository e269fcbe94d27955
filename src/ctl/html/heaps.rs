//! The allocator of array data, and the bounded heap.

use super::figures::{bar, bytes, count, facts, trouble, value, words, yes_no};
use super::text;
use crate::model::{Numpy, Ordered, Region};
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
