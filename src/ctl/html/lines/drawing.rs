//! The stacks of one report or of two, with their bytes in each view: the JSON of which the page's script makes a tree.
//!
//! An amount has the part of its error that adds up; `missed_bytes` is the other one (see [`crate::stacks`]).

use super::super::text::clean;
use super::Baseline;
use crate::diff::{Listing, interval_of};
use crate::stacks::{Frame, Site, Stacks, View, missed};
use indexmap::IndexSet;
use pyhost_record::origin::{is_users, package};
use serde::Serialize;
use std::collections::HashMap;

const VIEWS: usize = View::ALL.len();

#[derive(Debug, Serialize)]
pub struct Drawing {
    /// Bytes that an estimate lacks or has too many of, whatever was found; the script adds it to the error of each sum.
    missed_bytes: i64,
    comparison: Option<Comparison>,
    /// The name of each, and for each view whether its total has the account.
    accounts: Vec<(String, [bool; VIEWS])>,
    /// The path of each, the kind of its code, and the name of its package or library.
    files: Vec<(String, &'static str, Option<String>)>,
    /// The function, the file's number and the line. Without a file it is no call.
    frames: Vec<(String, Option<usize>, u32)>,
    stacks: Vec<Stack>,
}

#[derive(Debug, Serialize)]
struct Comparison {
    /// That of a change.
    missed_bytes: i64,
    /// By report and view, the fewest bytes of a stack that is listed.
    least: Vec<[i64; VIEWS]>,
}

/// The number of its report, 1 of the baseline; its account's; whether the report lists it; the frames' numbers from the
/// outermost in; and the views that have it.
type Stack = (usize, usize, bool, Vec<usize>, Vec<InView>);

/// The view's number, the bytes, the blocks, the square of the error's part that adds up, and whether the report lists the
/// stack and the other one does not.
type InView = (usize, i64, i64, f64, bool);

impl Drawing {
    pub fn new(stacks: &Stacks, baseline: Option<&Baseline>) -> Self {
        let before = baseline.map(|it| &it.stacks);
        let reports: Vec<&Stacks> = [stacks].into_iter().chain(before).collect();
        let listings = reports.iter();
        let listings = listings.map(|report| View::ALL.map(|view| Listing::new(report, view)));
        let listings: Vec<_> = listings.collect();
        let (mut frames, mut accounts) = (IndexSet::new(), IndexSet::new());
        let mut drawn = Vec::new();
        for (side, report) in reports.iter().enumerate() {
            let growth = growth(report);
            for site in &report.sites {
                let is_drawn = |view: &View| {
                    let has_grown = *view != View::Grown || growth[&place_of(site)] > 0;
                    has_grown && site.amount(*view).bytes != 0
                };
                let in_view = |view: View| {
                    let amount = site.amount(view);
                    let other = listings.get(1 - side).filter(|_| site.is_listed);
                    let is_unlisted = other.is_some_and(|it| !it[view as usize].has(report, site));
                    let (bytes, blocks) = (amount.bytes, amount.blocks);
                    (view as usize, bytes, blocks, amount.square, is_unlisted)
                };
                let views = View::ALL.into_iter().filter(is_drawn).map(in_view);
                let views: Vec<InView> = views.collect();
                if !views.is_empty() {
                    let account = accounts.insert_full(site.account.as_str()).0;
                    let calls = report.frames_of(site);
                    let calls = calls.map(|frame| frames.insert_full(frame).0).collect();
                    drawn.push((side, account, site.is_listed, calls, views));
                }
            }
        }
        let mut files = IndexSet::new();
        let frames = frames.into_iter().map(|frame: &Frame| {
            let file = frame.place.as_ref().map(|(path, line)| {
                let file = (path.as_str(), frame.library.as_deref());
                (files.insert_full(file).0, *line)
            });
            (
                clean(&frame.name),
                file.map(|it| it.0),
                file.map_or(0, |it| it.1),
            )
        });
        let of_account = |name: &str| (clean(name), View::ALL.map(|view| view.has(name)));
        let least = |it: &[Listing; VIEWS]| it.each_ref().map(|of_view| of_view.least);
        Drawing {
            missed_bytes: missed(stacks.interval) as i64,
            comparison: before.map(|before| Comparison {
                missed_bytes: missed(interval_of(stacks, before)) as i64,
                least: listings.iter().map(least).collect(),
            }),
            accounts: accounts.into_iter().map(of_account).collect(),
            frames: frames.collect(),
            files: files.into_iter().map(|(path, it)| file(path, it)).collect(),
            stacks: drawn,
        }
    }

    /// The views that have bytes, in the order of reports.
    pub fn views(&self) -> Vec<View> {
        let all = || self.stacks.iter().flat_map(|stack| &stack.4);
        let has_bytes = |view: &View| all().any(|in_view| in_view.0 == *view as usize);
        View::ALL.into_iter().filter(has_bytes).collect()
    }

    pub fn has_native_calls(&self) -> bool {
        self.files.iter().any(|file| file.1 == LIBRARY)
    }
}

/// The account and the frames of a stack.
fn place_of(site: &Site) -> (&str, &[usize]) {
    (&site.account, &site.stack)
}

/// The bytes by which each stack has grown, in all threads together. Those that shrank are not drawn: a frame with a part
/// below zero would be narrower than its other parts.
fn growth(stacks: &Stacks) -> HashMap<(&str, &[usize]), i64> {
    let mut growth = HashMap::new();
    for site in &stacks.sites {
        *growth.entry(place_of(site)).or_default() += site.amount(View::Grown).bytes;
    }
    growth
}

/// The kind of a file of native code.
const LIBRARY: &str = "library";

/// The file of a call: of Python code, or of native code in a library. The path of native code may be that of its source,
/// which says nothing of who installed it.
pub(super) fn file(path: &str, library: Option<&str>) -> (String, &'static str, Option<String>) {
    if let Some(library) = library {
        let name = library.rsplit('/').next().filter(|_| library != path);
        return (clean(path), LIBRARY, name.map(clean));
    }
    match package(path) {
        Some(name) => (clean(path), "package", Some(clean(name))),
        None if is_users(path) => (clean(path), "mine", None),
        None => (clean(path), "standard", None),
    }
}
