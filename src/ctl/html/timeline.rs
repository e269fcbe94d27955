//! A timeline's file: lines of JSON, schema `pyhost-timeline/1`.
//!
//! The process may have been killed while the last line was written: a line that does not end is
//! left out, as are lines of kinds that are not known here. What is kept is in order of time.

use serde::Deserialize;
use serde_json::{Map, Value};

/// The schema's name, in the first line.
const SCHEMA: &str = "pyhost-timeline/1";
const MOST_ACCOUNTS: usize = 64;
/// More bytes than this no process has; so many of so many accounts can be added up.
const MOST_BYTES: i64 = 1 << 56;

/// The first line has the fields that are not skipped.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct Timeline {
    #[serde(rename = "timeline")]
    pub schema: String,
    pub pid: Option<i64>,
    /// When it started, in UTC, as RFC 3339; the times below count from there.
    pub started: Option<String>,
    /// The time between two samples, in seconds.
    #[serde(rename = "interval_seconds")]
    pub interval: Option<f64>,
    /// The accounts' names, in the order of [`Sample::accounts`].
    pub accounts: Vec<String>,
    #[serde(skip)]
    pub samples: Vec<Sample>,
    /// The caps from a moment on, each a scope and its bytes.
    #[serde(skip)]
    pub caps: Vec<(f64, Vec<(String, i64)>)>,
    #[serde(skip)]
    pub events: Vec<Event>,
    /// Events for which the file had no room.
    #[serde(skip)]
    pub events_left_out: i64,
}

/// The figures of a moment, in bytes; never below zero.
#[derive(Clone, Debug)]
pub struct Sample {
    pub time: f64,
    /// Resident bytes; `None` if the kernel did not provide them.
    pub resident: Option<i64>,
    /// Those of them that belong to files and shared memory.
    pub files: Option<i64>,
    /// Live bytes of all accounts, each block once.
    pub total: i64,
    pub accounts: Vec<i64>,
}

#[derive(Debug)]
pub struct Event {
    pub time: f64,
    pub kind: Kind,
    /// Its name or its message. The text comes from the file and is not trusted.
    pub text: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The script's `pyhost.mark`.
    Mark,
    Refusal,
    End,
}

pyhost_os::named!(Kind: "mark" Mark, "refused" Refusal, "end" End);

impl Timeline {
    pub fn of_text(text: &str) -> Result<Self, String> {
        let mut lines = text.lines().enumerate();
        let head = lines.next().map(|(_, line)| line).unwrap_or_default();
        let timeline: Option<Timeline> = serde_json::from_str(head).ok();
        let timeline = timeline.filter(|head| head.schema == SCHEMA);
        let mut timeline = timeline.ok_or_else(|| {
            format!("is not a timeline; expected a first line with \"timeline\":\"{SCHEMA}\"")
        })?;
        let accounts = timeline.accounts.len();
        if accounts > MOST_ACCOUNTS {
            return Err(format!(
                "names {accounts} accounts; expected {MOST_ACCOUNTS} at most"
            ));
        }
        let last = text.lines().count() - 1;
        for (index, line) in lines.filter(|(_, line)| !line.trim().is_empty()) {
            match serde_json::from_str::<Map<String, Value>>(line) {
                Ok(members) => timeline.add(&members),
                Err(_) if index == last && !text.ends_with('\n') => {}
                Err(_) => return Err(format!("has a line {} that is not JSON", index + 1)),
            }
        }
        timeline.samples.sort_by(|a, b| a.time.total_cmp(&b.time));
        timeline.caps.sort_by(|a, b| a.0.total_cmp(&b.0));
        timeline.events.sort_by(|a, b| a.time.total_cmp(&b.time));
        Ok(timeline)
    }

    /// Adds a line. One without a time, or of an unknown kind, adds nothing.
    fn add(&mut self, line: &Map<String, Value>) {
        let time = line.get("t").and_then(Value::as_f64);
        let Some(time) = time.filter(|time| (0.0..=1e9).contains(time)) else {
            return;
        };
        let bytes = |name: &str| Some(line.get(name)?.as_i64()?.clamp(0, MOST_BYTES));
        let text = |name: &str| Some(line.get(name)?.as_str()?.to_owned());
        let mut event = |kind, text| self.events.push(Event { time, kind, text });
        if let Some(total) = bytes("total") {
            let accounts = self.accounts.iter().map(|name| bytes(name).unwrap_or(0));
            self.samples.push(Sample {
                time,
                resident: bytes("resident"),
                files: bytes("files"),
                total,
                accounts: accounts.collect(),
            });
        } else if let Some(caps) = line.get("caps").and_then(Value::as_object) {
            let caps = caps.iter().filter_map(|(scope, bytes)| {
                Some((scope.clone(), bytes.as_i64()?.clamp(0, MOST_BYTES)))
            });
            self.caps.push((time, caps.collect()));
        } else if let Some(name) = text("mark") {
            event(Kind::Mark, name);
        } else if let Some(count) = line.get("refusals").and_then(Value::as_i64) {
            let untold = || format!("{count} requests so far");
            event(Kind::Refusal, text("refusal").unwrap_or_else(untold));
        } else if let Some(how) = text("ended_by") {
            let left_out = line.get("events_left_out").and_then(Value::as_i64);
            self.events_left_out = left_out.unwrap_or(0);
            let status = line.get("exit_status").and_then(Value::as_i64);
            let status = status.map_or(String::new(), |status| format!(", status {status}"));
            event(Kind::End, format!("{how}{status}"));
        }
    }

    /// The first and the last moment of which anything is known, in seconds.
    pub fn span(&self) -> (f64, f64) {
        let samples = self.samples.iter().map(|sample| sample.time);
        let times = samples.chain(self.events.iter().map(|event| event.time));
        (0.0, times.fold(0.001, f64::max))
    }

    /// Some of the samples, for a picture and a table of bounded size: of each of `stretches` equal parts of the time
    /// the first, the one with the highest total and the one with the highest resident size, so that no peak is lost.
    pub fn thinned(&self, stretches: usize) -> Vec<&Sample> {
        if self.samples.len() <= stretches {
            return self.samples.iter().collect();
        }
        let (first, last) = self.span();
        let stretch = |sample: &Sample| {
            let part = (sample.time - first) / (last - first);
            ((part * stretches as f64) as usize).min(stretches - 1)
        };
        let mut kept = Vec::new();
        for group in self.samples.chunk_by(|a, b| stretch(a) == stretch(b)) {
            let highest = |of: fn(&Sample) -> i64| {
                let order = |index: &usize| (of(&group[*index]), usize::MAX - *index);
                (0..group.len()).max_by_key(order).unwrap_or(0)
            };
            let total = highest(|sample| sample.total);
            let resident = highest(|sample| sample.resident.unwrap_or(0));
            let mut picked = vec![0, total, resident];
            picked.sort_unstable();
            picked.dedup();
            kept.extend(picked.into_iter().map(|index| &group[index]));
        }
        // The last sample matters as much as a peak.
        match (kept.last(), self.samples.last()) {
            (Some(&kept_last), Some(last)) if !std::ptr::eq(kept_last, last) => kept.push(last),
            _ => {}
        }
        kept
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str = r#"{"timeline":"pyhost-timeline/1","pid":7,"started":"2026-11-22T02:46:29Z","interval_seconds":0.01,"accounts":["raw","obj"],"command":"pyhost"}"#;

    #[test]
    fn lines_are_sorted_and_a_torn_last_one_is_left_out() {
        let text = HEAD.to_owned()
            + r#"
{"t":0.02,"resident":9,"total":3,"raw":1,"obj":2}
{"t":0.01,"resident":null,"total":-5,"raw":-1}
{"t":0.0,"caps":{"total":100,"bad":"x"}}
{"t":0.015,"mark":"</script>"}
{"t":0.016,"refusals":2,"refusal":"no"}
{"t":0.03,"ended_by":"exit","exit_status":0}
{"t":0.04,"resid"#;
        let timeline = Timeline::of_text(&text).unwrap();
        assert_eq!(timeline.samples.len(), 2);
        let first = &timeline.samples[0];
        assert_eq!((first.total, first.resident), (0, None));
        assert_eq!(first.accounts, [0, 0]);
        assert_eq!(timeline.samples[1].accounts, [1, 2]);
        assert_eq!(timeline.caps[0].1, [("total".to_owned(), 100)]);
        let kinds: Vec<Kind> = timeline.events.iter().map(|event| event.kind).collect();
        assert_eq!(kinds, [Kind::Mark, Kind::Refusal, Kind::End]);
        assert_eq!(timeline.events[2].text, "exit, status 0");
        assert_eq!(timeline.span(), (0.0, 0.03));
        let other = Timeline::of_text(r#"{"timeline":"pyhost-timeline/2"}"#);
        assert!(other.unwrap_err().contains("is not a timeline"));
    }

    #[test]
    fn thinning_keeps_peaks_and_both_ends() {
        let mut timeline = Timeline::default();
        for index in 0..8192_i64 {
            timeline.samples.push(Sample {
                time: index as f64 / 100.0,
                resident: Some(if index == 5000 { 1 << 40 } else { index }),
                files: None,
                total: if index == 3001 { 1 << 30 } else { 5 },
                accounts: Vec::new(),
            });
        }
        let kept = timeline.thinned(100);
        assert!(kept.len() <= 301, "{}", kept.len());
        assert!(kept.iter().any(|sample| sample.total == 1 << 30));
        assert!(kept.iter().any(|sample| sample.resident == Some(1 << 40)));
        assert_eq!(kept[0].time, 0.0);
        assert_eq!(kept.last().unwrap().time, 81.91);
        assert!(kept.is_sorted_by(|a, b| a.time < b.time));
    }
}
