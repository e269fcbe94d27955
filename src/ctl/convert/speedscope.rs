//! The file format of speedscope: a profile for each view, over shared frames.

use crate::model::escaped;
use crate::stacks::{Frame, Stacks, View};
use indexmap::IndexSet;
use serde_json::{Value, json};

const SCHEMA: &str = "https://www.speedscope.app/file-format-schema.json";

/// A line of JSON. The chosen view is the first profile.
pub fn text(stacks: &Stacks, first: View) -> String {
    let mut frames = IndexSet::new();
    let others = View::ALL.into_iter();
    let others = others.filter(|view| *view != first && !stacks.of_view(*view).is_empty());
    let views = std::iter::once(first).chain(others);
    let profiles = views.map(|view| profile(stacks, view, &mut frames));
    let profiles: Vec<Value> = profiles.collect();
    let frames: Vec<Value> = frames.into_iter().map(shared).collect();
    let file = json!({
        "$schema": SCHEMA,
        "exporter": concat!("pyhostctl@", env!("CARGO_PKG_VERSION")),
        "name": stacks.command,
        "activeProfileIndex": 0,
        "shared": {"frames": frames},
        "profiles": profiles,
    });
    escaped(&file.to_string())
}

fn profile(stacks: &Stacks, view: View, frames: &mut IndexSet<Frame>) -> Value {
    let (mut samples, mut weights) = (Vec::new(), Vec::new());
    for site in stacks.of_view(view) {
        let account = frames.insert_full(Frame::label(&site.account)).0;
        let calls = stacks.frames_of(site);
        let calls = calls.map(|frame| frames.insert_full(frame.clone()).0);
        samples.push(std::iter::once(account).chain(calls).collect::<Vec<_>>());
        weights.push(site.amount(view).bytes);
    }
    json!({
        "type": "sampled",
        "name": format!("{}: {}", view.name(), view.title()),
        "unit": "bytes",
        "startValue": 0,
        "endValue": weights.iter().sum::<i64>(),
        "samples": samples,
        "weights": weights,
    })
}

fn shared(frame: Frame) -> Value {
    let mut shared = json!({"name": frame.name});
    if let Some((file, line)) = frame.place {
        shared["file"] = file.into();
        if line > 0 {
            shared["line"] = line.into();
        }
    }
    shared
}
