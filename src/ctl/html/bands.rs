//! The part of a timeline that the picture shows, in bytes: accounts as stacked bands, and the heights
//! of caps above them.

use super::timeline::{Sample, Timeline};
use indexmap::IndexSet;

/// Samples as bands: the upper edge of each account's, in bytes.
pub struct Stack {
    pub time: f64,
    pub edges: Vec<f64>,
}

/// Stacks the accounts of a sample. If blocks of an account lie inside `arena`, as under
/// `--allocator pymalloc`, they are taken off that, so that the top is the total.
pub fn stack(sample: &Sample, names: &[String]) -> Stack {
    let sum: i64 = sample.accounts.iter().sum();
    let twice = (sum - sample.total).max(0);
    let mut top = 0;
    let bands = names.iter().zip(&sample.accounts).map(|(name, &bytes)| {
        top += match name.as_str() {
            "arena" => (bytes - twice).max(0),
            _ => bytes,
        };
        top as f64
    });
    Stack {
        time: sample.time,
        edges: bands.collect(),
    }
}

/// A cap's height over time; a new piece where it was gone.
pub struct CapLine {
    pub scope: String,
    /// The index of the account that it is; None for all together.
    pub account: Option<usize>,
    /// Its greatest height, in bytes.
    pub highest: f64,
    /// Seconds and bytes.
    pub pieces: Vec<Vec<(f64, f64)>>,
}

/// The lines of all caps. An account's stands on the bands below its own: there its band ends.
pub fn cap_lines(timeline: &Timeline, stacks: &[Stack]) -> Vec<CapLine> {
    let caps = timeline.caps.iter().flat_map(|(_, caps)| caps);
    let scopes: IndexSet<&str> = caps.map(|(scope, _)| scope.as_str()).collect();
    let (_, end) = timeline.span();
    let line = |scope: &str| {
        let account = timeline.accounts.iter().position(|name| name == scope);
        let foot = |stack: &Stack| match account {
            Some(index) if index > 0 => stack.edges[index - 1],
            _ => 0.0,
        };
        let mut pieces: Vec<Vec<(f64, f64)>> = vec![Vec::new()];
        for (index, (from, caps)) in timeline.caps.iter().enumerate() {
            let until = timeline.caps.get(index + 1).map_or(end, |next| next.0);
            let Some((_, cap)) = caps.iter().find(|(name, _)| name == scope) else {
                pieces.push(Vec::new());
                continue;
            };
            let at = |time: f64| {
                let known = stacks.partition_point(|stack| stack.time <= time);
                let stack = stacks.get(known.saturating_sub(1));
                (time, *cap as f64 + stack.map_or(0.0, foot))
            };
            let piece = pieces.last_mut().expect("it begins with one");
            piece.push(at(*from));
            if account.is_some() {
                let between = |stack: &&Stack| stack.time > *from && stack.time < until;
                let inside = stacks.iter().filter(between);
                piece.extend(inside.map(|stack| (stack.time, *cap as f64 + foot(stack))));
            }
            piece.push(at(until));
        }
        pieces.retain(|piece| !piece.is_empty());
        let heights = pieces.iter().flatten().map(|point| point.1);
        CapLine {
            scope: scope.to_owned(),
            account,
            highest: heights.fold(0.0, f64::max),
            pieces,
        }
    };
    scopes.into_iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIMELINE: &str = r#"{"timeline":"pyhost-timeline/1","accounts":["raw","obj","arena"]}
{"t":0,"total":10,"raw":1,"obj":9,"arena":4}
{"t":1,"total":11,"raw":1,"obj":10,"arena":4}
{"t":2,"total":12,"raw":1,"obj":11,"arena":4}
{"t":3,"total":13,"raw":1,"obj":12,"arena":4}
{"t":0,"caps":{"obj":20,"total":50}}
{"t":2,"caps":{"total":40}}
"#;

    fn timeline() -> (Timeline, Vec<Stack>) {
        let timeline = Timeline::of_text(TIMELINE).unwrap();
        let stacks = timeline.samples.iter();
        let stacks = stacks.map(|sample| stack(sample, &timeline.accounts));
        let stacks = stacks.collect();
        (timeline, stacks)
    }

    #[test]
    fn what_lies_in_the_arenas_is_stacked_once() {
        assert_eq!(timeline().1[0].edges, [1.0, 10.0, 10.0]);
    }

    #[test]
    fn a_cap_stands_on_the_bands_below_its_account_and_ends_where_it_is_gone() {
        let (timeline, stacks) = timeline();
        let lines = cap_lines(&timeline, &stacks);
        let scope = |line: &CapLine| (line.scope.clone(), line.account);
        assert_eq!(scope(&lines[0]), ("obj".to_owned(), Some(1)));
        assert_eq!(lines[0].pieces, [[(0.0, 21.0), (1.0, 21.0), (2.0, 21.0)]]);
        assert_eq!(scope(&lines[1]), ("total".to_owned(), None));
        let whole = [(0.0, 50.0), (2.0, 50.0), (2.0, 40.0), (3.0, 40.0)];
        assert_eq!(lines[1].pieces, [whole]);
        assert_eq!(lines[1].highest, 50.0);
    }
}
