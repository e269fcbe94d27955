//! The calls of one report or of two as a tree, the outermost at the root, with the sums of each: the JSON that the page's
//! script draws.
//!
//! Calls that follow each other with the same sums are one entry, so a stack of a thousand calls is not a thousand entries.
//! A sum has the part of its error that adds up; `missed_bytes` is the other one (see [`crate::stacks`]).

use super::super::text::clean;
use super::Baseline;
use crate::diff::{Listing, error_of_change, interval_of};
use crate::stacks::{Amount, Frame, Site, Stacks, View, is_in_total, missed};
use indexmap::IndexSet;
use pyhost_record::origin::{is_users, package};
use serde::Serialize;
use std::array::from_fn;
use std::collections::{BTreeMap, HashMap};

/// The numbers of the two reports.
const SHOWN: usize = 0;
const BEFORE: usize = 1;

/// The memory of one account below a call, in one view.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Sum {
    /// In the report, and in the baseline.
    amounts: [Amount; 2],
    /// Stacks of the other report that this one does not list.
    unlisted: [usize; 2],
}

impl Sum {
    fn plus(self, other: Sum) -> Sum {
        let amounts = |side: usize| self.amounts[side].plus(other.amounts[side]);
        Sum {
            // The sum of a whole view was checked.
            amounts: from_fn(|side| amounts(side).unwrap_or(self.amounts[side])),
            unlisted: from_fn(|side| self.unlisted[side] + other.unlisted[side]),
        }
    }
}

/// A view's and an account's number.
type Place = (usize, usize);

/// A call, and what its callers called before it.
#[derive(Debug, Default)]
struct Node {
    frame: usize,
    children: Vec<usize>,
    sums: BTreeMap<Place, Sum>,
}

impl Node {
    fn add(&mut self, place: Place, sum: Sum) {
        let known = self.sums.entry(place).or_default();
        *known = known.plus(sum);
    }
}

pub struct Tree<'a> {
    nodes: Vec<Node>,
    places: HashMap<(usize, usize), usize>,
    frames: IndexSet<&'a Frame>,
    accounts: IndexSet<&'a str>,
    stacks: &'a Stacks,
    baseline: Option<Compared<'a>>,
}

/// The other report of a comparison, and what each of both lists, by view.
struct Compared<'a> {
    stacks: &'a Stacks,
    listings: [Vec<Listing<'a>>; 2],
}

impl<'a> Tree<'a> {
    pub fn new(stacks: &'a Stacks, baseline: Option<&'a Baseline>) -> Self {
        let listings = |stacks| {
            let views = View::ALL.into_iter();
            views.map(|view| Listing::new(stacks, view)).collect()
        };
        let mut tree = Tree {
            nodes: vec![Node::default()],
            places: HashMap::new(),
            frames: IndexSet::new(),
            accounts: IndexSet::new(),
            stacks,
            baseline: baseline.map(|Baseline { stacks: before, .. }| Compared {
                stacks: before,
                listings: [listings(stacks), listings(before)],
            }),
        };
        tree.add_all(SHOWN, stacks);
        if let Some(Baseline { stacks, .. }) = baseline {
            tree.add_all(BEFORE, stacks);
        }
        tree
    }

    fn add_all(&mut self, side: usize, stacks: &'a Stacks) {
        let growth = growth(stacks);
        for site in &stacks.sites {
            let has_grown = growth[&place_of(site)] > 0;
            self.add(side, stacks, site, has_grown);
        }
    }

    fn add(&mut self, side: usize, stacks: &'a Stacks, site: &'a Site, has_grown: bool) {
        let account = self.accounts.insert_full(&site.account).0;
        let mut sums = Vec::new();
        for (index, view) in View::ALL.into_iter().enumerate() {
            let mut sum = Sum::default();
            sum.amounts[side] = site.amount(view);
            if sum.amounts[side].bytes == 0 || (view == View::Grown && !has_grown) {
                continue;
            }
            if let Some(Compared { listings, .. }) = &self.baseline {
                let other = 1 - side;
                let is_unlisted = site.is_listed && !listings[other][index].has(stacks, site);
                sum.unlisted[other] = usize::from(is_unlisted);
            }
            sums.push(((index, account), sum));
        }
        if sums.is_empty() {
            return;
        }
        let mut at = 0;
        for frame in stacks.frames_of(site).map(Some).chain([None]) {
            for (place, sum) in &sums {
                self.nodes[at].add(*place, *sum);
            }
            if let Some(frame) = frame {
                at = self.child(at, frame);
            }
        }
    }

    fn child(&mut self, parent: usize, frame: &'a Frame) -> usize {
        let frame = self.frames.insert_full(frame).0;
        let new = self.nodes.len();
        let node = *self.places.entry((parent, frame)).or_insert(new);
        if node == new {
            self.nodes[parent].children.push(new);
            self.nodes.push(Node {
                frame,
                ..Node::default()
            });
        }
        node
    }

    /// Whether no view has bytes.
    pub fn is_empty(&self) -> bool {
        self.nodes[0].sums.is_empty()
    }

    pub fn has_native_calls(&self) -> bool {
        self.frames.iter().any(|frame| frame.library.is_some())
    }

    /// The views that have bytes, in the order of reports.
    pub fn views(&self) -> Vec<View> {
        let sums = &self.nodes[0].sums;
        let has_bytes = |view: &View| sums.keys().any(|(index, _)| *index == *view as usize);
        View::ALL.into_iter().filter(has_bytes).collect()
    }

    /// The tree as the script reads it.
    pub fn to_json(&self) -> String {
        let mut files = IndexSet::new();
        let frames = self.frames.iter().map(|frame| match &frame.place {
            Some((path, line)) => {
                let file = files.insert_full((path.as_str(), frame.library.as_deref()));
                (clean(&frame.name), Some(file.0), *line)
            }
            None => (clean(&frame.name), None, 0),
        });
        let accounts = self.accounts.iter();
        let written = Written {
            frames: frames.collect(),
            files: files.iter().map(|(path, it)| file(path, *it)).collect(),
            missed_bytes: missed(self.stacks.interval) as i64,
            is_comparison: self.baseline.is_some(),
            accounts: accounts
                .map(|name| (clean(name), is_in_total(name)))
                .collect(),
            entries: self.entries(),
        };
        // It has no map whose key is not text, and no other error is possible.
        serde_json::to_string(&written).unwrap_or_default()
    }

    /// The nodes in entries, each behind the one that it follows.
    fn entries(&self) -> Vec<Entry> {
        let left_out = self.left_out();
        let nodes = &self.nodes;
        let mut entries: Vec<Entry> = Vec::new();
        let mut open = vec![(0_usize, -1_i64)];
        while let Some((first, above)) = open.pop() {
            let mut frames = Vec::new();
            let mut last = first;
            if first != 0 {
                frames.push(nodes[first].frame);
                while let [only] = nodes[last].children[..]
                    && nodes[only].sums == nodes[last].sums
                {
                    frames.push(nodes[only].frame);
                    last = only;
                }
            }
            let number = entries.len() as i64;
            entries.push((above, frames, self.rows_of(&nodes[last], &left_out)));
            open.extend(nodes[last].children.iter().map(|child| (*child, number)));
        }
        entries
    }

    fn left_out(&self) -> LeftOut {
        let sides = [
            Some(self.stacks),
            self.baseline.as_ref().map(|other| other.stacks),
        ];
        let of_view = |view: View| {
            let mut sums = vec![[0_i64; 2]; self.accounts.len() + 1];
            for (side, stacks) in sides.into_iter().enumerate() {
                let sites = stacks.map_or(&[][..], |stacks| &stacks.sites);
                for site in sites.iter().filter(|site| !site.is_listed) {
                    let bytes = site.amount(view).bytes;
                    if let Some(account) = self.accounts.get_index_of(site.account.as_str()) {
                        sums[account + 1][side] += bytes;
                    }
                    if view.has(&site.account) {
                        sums[0][side] += bytes;
                    }
                }
            }
            sums
        };
        View::ALL.into_iter().map(of_view).collect()
    }

    /// A row for each view and scope: scope 0 is all accounts of the view's total, the others an account each. If one account
    /// that is part of all totals has all, and its row is the same, scope 0 has none.
    fn rows_of(&self, node: &Node, left_out: &LeftOut) -> Vec<i64> {
        let mut rows = Vec::new();
        let sums: Vec<(&Place, &Sum)> = node.sums.iter().collect();
        for of_view in sums.chunk_by(|a, b| a.0.0 == b.0.0) {
            let view = of_view[0].0.0;
            let mut in_total = Vec::new();
            for ((_, account), sum) in of_view {
                let row = self.row((view, account + 1), **sum, left_out);
                let name = self.accounts[*account];
                if View::ALL[view].has(name) {
                    in_total.push((**sum, row[2..].to_vec(), is_in_total(name)));
                }
                rows.extend(row);
            }
            let Some(all) = in_total.iter().map(|(sum, ..)| *sum).reduce(Sum::plus) else {
                continue;
            };
            let row = self.row((view, 0), all, left_out);
            if !matches!(&in_total[..], [(_, only, true)] if *only == row[2..]) {
                rows.extend(row);
            }
        }
        rows
    }

    fn row(&self, (view, scope): Place, sum: Sum, left_out: &LeftOut) -> Vec<i64> {
        let now = sum.amounts[SHOWN];
        let deviation = now.square.sqrt().round() as i64;
        let mut row = vec![view as i64, scope as i64, now.bytes, now.blocks, deviation];
        if let Some(other) = &self.baseline {
            let may_lack = |side: usize| {
                let listing = &other.listings[side][view];
                listing.may_lack(sum.unlisted[side], left_out[view][scope][side])
            };
            let sums = [sum.amounts[BEFORE], now];
            let may_lack = [may_lack(BEFORE), may_lack(SHOWN)];
            let interval = interval_of(self.stacks, other.stacks);
            row.extend([sums[0].bytes, error_of_change(sums, may_lack, interval)]);
        }
        row
    }
}

/// An account, and the frames of a stack.
type StackPlace<'a> = (&'a str, &'a [usize]);

fn place_of(site: &Site) -> StackPlace<'_> {
    (&site.account, &site.stack)
}

/// The bytes by which each stack has grown, in all threads together. Those that shrank are not drawn: a frame with a part
/// below zero would be narrower than its other parts.
fn growth(stacks: &Stacks) -> HashMap<StackPlace<'_>, i64> {
    let mut growth = HashMap::new();
    for site in &stacks.sites {
        *growth.entry(place_of(site)).or_default() += site.amount(View::Grown).bytes;
    }
    growth
}

/// The bytes of stacks that a report does not list, by view, scope and report.
type LeftOut = Vec<Vec<[i64; 2]>>;

#[derive(Serialize)]
struct Written {
    /// Bytes that an estimate lacks or has too many of, whatever was found; the script adds it to the error of each sum.
    missed_bytes: i64,
    is_comparison: bool,
    /// The name of each, and whether it is part of the total.
    accounts: Vec<(String, bool)>,
    /// The path of each, the kind of its code, and the name of its package or library.
    files: Vec<(String, &'static str, Option<String>)>,
    /// The function, the file's number and the line. Without a file it is no call.
    frames: Vec<(String, Option<usize>, u32)>,
    entries: Vec<Entry>,
}

/// The number of the entry that it follows (-1 at the root), the frames' numbers from the outermost in, and the rows that
/// all of them have, one after the other: view, scope, bytes, blocks and deviation, and in a comparison the bytes before
/// and the error of the change.
type Entry = (i64, Vec<usize>, Vec<i64>);

/// The file of a call: of Python code, or of native code in a library. The path of native code may be that of its source,
/// which says nothing of who installed it.
pub(super) fn file(path: &str, library: Option<&str>) -> (String, &'static str, Option<String>) {
    if let Some(library) = library {
        let name = library.rsplit('/').next().filter(|_| library != path);
        return (clean(path), "library", name.map(clean));
    }
    match package(path) {
        Some(name) => (clean(path), "package", Some(clean(name))),
        None if is_users(path) => (clean(path), "mine", None),
        None => (clean(path), "standard", None),
    }
}
