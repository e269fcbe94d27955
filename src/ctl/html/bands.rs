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

    fn sample(index: i64) -> Sample {
        Sample {
            time: index as f64,
            resident: None,
            files: None,
            total: 10 + index,
            accounts: vec![1, 9 + index, 4],
        }
    }

    fn timeline() -> Timeline {
        let names = ["raw", "obj", "arena"];
        Timeline {
            accounts: names.map(str::to_owned).to_vec(),
            samples: (0..4).map(sample).collect(),
            ..Timeline::default()
        }
    }

    fn stacks(timeline: &Timeline) -> Vec<Stack> {
        let samples = timeline.samples.iter();
        samples
            .map(|sample| stack(sample, &timeline.accounts))
            .collect()
    }

    #[test]
    fn what_lies_in_the_arenas_is_stacked_once() {
        let stacked = &stacks(&timeline())[0];
        assert_eq!(stacked.edges, [1.0, 10.0, 10.0]);
    }

    #[test]
    fn a_cap_stands_on_the_bands_below_its_account_and_ends_where_it_is_gone() {
        let mut timeline = timeline();
        let cap = |scope: &str, bytes| (scope.to_owned(), bytes);
        timeline.caps = vec![
            (0.0, vec![cap("obj", 20), cap("total", 50)]),
            (2.0, vec![cap("total", 40)]),
        ];
        let lines = cap_lines(&timeline, &stacks(&timeline));
        let scope = |line: &CapLine| (line.scope.clone(), line.account);
        assert_eq!(scope(&lines[0]), ("obj".to_owned(), Some(1)));
        assert_eq!(lines[0].pieces, [[(0.0, 21.0), (1.0, 21.0), (2.0, 21.0)]]);
        assert_eq!(scope(&lines[1]), ("total".to_owned(), None));
        let whole = [(0.0, 50.0), (2.0, 50.0), (2.0, 40.0), (3.0, 40.0)];
        assert_eq!(lines[1].pieces, [whole]);
        assert_eq!(lines[1].highest, 50.0);
    }
}
