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
    let mut rows = vec![("array data from", html! { (text::clean(&numpy.allocator)) })];
    if let Some(version) = &numpy.version {
        rows.insert(0, ("NumPy", html! { (text::clean(version)) }));
    }
    if let Some(align) = numpy.align {
        rows.push(("aligned to", bytes(align)));
    }
    if let Some(huge_pages) = &numpy.huge_pages {
        rows.push(("huge pages", html! { (text::clean(huge_pages)) }));
    }
    if let Some(node) = numpy.numa_node {
        rows.push(("memory node", count(node)));
    }
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
