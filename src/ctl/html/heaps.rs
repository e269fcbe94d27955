//! The allocator of array data, and the bounded heap.

use super::figures::{bytes, count, facts, percent, trouble, value, words, yes_no};
use super::text;
use crate::model::{Numpy, Ordered, Region};
use maud::{Markup, html};
use serde_json::Value;

fn members(members: &Ordered<Value>) -> Markup {
    let member = |(name, member): (&String, &Value)| (words(name), value(name, member));
    let rows: Vec<(String, Markup)> = members.iter().map(member).collect();
    facts(&rows)
}

/// The section of NumPy.
pub fn numpy(numpy: &Numpy) -> Markup {
    let mut rows = vec![(
        "array data from".to_owned(),
        html! { (text::clean(&numpy.allocator)) },
    )];
    if let Some(version) = &numpy.version {
        rows.insert(0, ("NumPy".to_owned(), html! { (text::clean(version)) }));
    }
    if let Some(align) = numpy.align {
        rows.push(("aligned to".to_owned(), bytes(align)));
    }
    if let Some(huge_pages) = &numpy.huge_pages {
        rows.push(("huge pages".to_owned(), html! { (text::clean(huge_pages)) }));
    }
    if let Some(node) = numpy.numa_node {
        rows.push(("memory node".to_owned(), count(node)));
    }
    html! {
        (facts(&rows))
        @if let Some(pool) = &numpy.pool { h3 { "Pool" } (members(pool)) }
        @if let Some(region) = &numpy.region { h3 { "Region of arrays" } (members(region)) }
    }
}

/// The section of the bounded heap.
pub fn region(region: &Region) -> Markup {
    html! {
        svg.bar.obj aria-hidden="true" width="100%" height="14" {
            rect.track width="100%" height="14" rx="3" {}
            rect.peak width=(percent(region.peak_committed_bytes, region.size_bytes)) height="14" rx="3" {}
            rect.live width=(percent(region.committed_bytes, region.size_bytes)) height="14" rx="3" {}
        }
        (facts(&[
            ("size".to_owned(), bytes(region.size_bytes)),
            ("committed".to_owned(), bytes(region.committed_bytes)),
            ("peak committed".to_owned(), bytes(region.peak_committed_bytes)),
            ("before the script".to_owned(), bytes(region.before_main_bytes)),
            ("reserved addresses".to_owned(), bytes(region.reserved_bytes)),
            ("commits refused".to_owned(), trouble(region.refused_commits)),
            ("locked".to_owned(), html! { (yes_no(region.locked)) }),
            ("huge pages".to_owned(), html! { (yes_no(region.huge_pages)) }),
        ]))
    }
}
