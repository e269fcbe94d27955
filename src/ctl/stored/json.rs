//! Reads a report in JSON, schema `pyhost-report/1`, as far as its accounts and its process go.
//!
//! The text may be anything: what is missing or of another kind is named, nothing here panics, and
//! serde_json bounds how deeply the text may nest.

use super::{Row, Stored};
use pyhost_ledger::REPORTED;
use pyhost_os::bytes::Bytes;
use pyhost_os::plain::plain;
use pyhost_record::describe::SCHEMA;
use serde_json::{Map, Value};

/// How much of a text of the file's is said in an error, in characters.
const SAID: usize = 40;

/// The report of a text.
///
/// # Errors
/// It is none: the end of a line that begins with the file's name.
pub fn read(text: &str) -> Result<Stored, String> {
    let report: Value =
        serde_json::from_str(text).map_err(|error| format!("is no report in JSON ({error})"))?;
    match &report["schema"] {
        Value::String(schema) if schema == SCHEMA => {}
        Value::String(other) => {
            let other: String = plain(other).chars().take(SAID).collect();
            return Err(format!("is of schema '{other}'; expected {SCHEMA}"));
        }
        _ => return Err(format!("names no schema; expected {SCHEMA}")),
    }
    let process = &report["process"];
    let argv = process["argv"].as_array();
    let texts = |words: &Vec<Value>| -> Vec<String> {
        words.iter().map(|word| text_of(word).to_owned()).collect()
    };
    let argv = argv.map(texts).unwrap_or_default();
    let resident = process["resident_bytes"].as_u64();
    Ok(Stored {
        pid: process["pid"].as_i64().unwrap_or_default(),
        command: command(&argv, text_of(&process["command"])),
        argv,
        python: text_of(&report["python"]["version"]).to_owned(),
        started: text_of(&process["started"]).to_owned(),
        seconds: process["wall_seconds"].as_f64(),
        stands: stands(process),
        accounts: accounts(&report)?,
        total: (
            figure(&report["total"], "total", "live_bytes")?,
            figure(&report["total"], "total", "peak_bytes")?,
        ),
        resident: (resident, process["peak_resident_bytes"].as_u64()),
        inherited: process["inherited_live_bytes"].as_u64(),
        caps: caps(&report["caps"]),
        refusal: refusal(&report["caps"]),
    })
}

/// A command line as a part of a line: the program without its folder, not too long, plain.
/// A process of `multiprocessing` is called by its `name`.
fn command(argv: &[String], name: &str) -> String {
    const LONGEST: usize = 80;
    let mut argv = argv.to_vec();
    if let Some(program) = argv.first_mut() {
        *program = program.rsplit('/').next().unwrap_or_default().to_owned();
    }
    if name.starts_with("multiprocessing: ") {
        argv.truncate(1);
        argv.push(name.to_owned());
    }
    let words = plain(&argv.join(" "));
    match words.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}...", &words[..end]),
        None => words,
    }
}

fn text_of(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn figure(object: &Value, shown: &str, name: &str) -> Result<u64, String> {
    object[name]
        .as_u64()
        .ok_or_else(|| format!("has no whole number at {shown}.{name}; expected {SCHEMA}"))
}

/// The accounts: those that this version knows first, in a report's order.
fn accounts(report: &Value) -> Result<Vec<Row>, String> {
    let Some(found) = report["accounts"].as_object() else {
        return Err(format!("has no accounts; expected {SCHEMA}"));
    };
    let known = |name: &str| REPORTED.iter().any(|account| account.name() == name);
    let ours = REPORTED.iter().map(|account| account.name());
    let others = found.keys().map(String::as_str).filter(|name| !known(name));
    let names = ours.filter(|name| found.contains_key(*name)).chain(others);
    names.map(|name| row(found, name)).collect()
}

fn row(accounts: &Map<String, Value>, name: &str) -> Result<Row, String> {
    let account = &accounts[name];
    let shown: String = plain(name).chars().take(SAID).collect();
    let shown = format!("accounts.{shown}");
    Ok(Row {
        name: name.to_owned(),
        live_bytes: figure(account, &shown, "live_bytes")?,
        peak_bytes: figure(account, &shown, "peak_bytes")?,
        live_blocks: figure(account, &shown, "live_blocks")?,
        total_blocks: figure(account, &shown, "total_blocks")?,
        refused: figure(account, &shown, "refused")?,
        failed: figure(account, &shown, "failed")?,
    })
}

fn stands(process: &Value) -> String {
    match (
        process["ended_by"].as_str(),
        process["exit_status"].as_i64(),
    ) {
        (None, _) => "ran".to_owned(),
        (Some("kill"), _) => "was killed".to_owned(),
        (Some("exec"), _) => "became another program".to_owned(),
        (Some("exit" | "_exit"), Some(status)) => format!("ended with status {status}"),
        (Some(other), _) => format!("ended by {other}"),
    }
}

fn caps(caps: &Value) -> Vec<(String, u64)> {
    let all = caps.as_object().into_iter().flatten();
    // The dossier, beside them, names the cap that refused.
    all.filter(|(name, _)| *name != "dossier")
        .filter_map(|(name, cap)| Some((name.clone(), cap["cap_bytes"].as_u64()?)))
        .collect()
}

/// The last refusal: in a line, as `pyhostctl` writes it, or from the host's dossier.
fn refusal(caps: &Value) -> Option<(u64, String)> {
    if let Some(line) = caps["last_refusal"].as_str() {
        return Some((caps["told_refusals"].as_u64()?, line.to_owned()));
    }
    let dossier = &caps["dossier"];
    let bytes = |name: &str| dossier[name].as_u64().map(Bytes);
    Some((
        dossier["number"].as_u64()?,
        format!(
            "{} asked for {} with {} live, cap of {} ({})",
            text_of(&dossier["account"]),
            bytes("size_bytes")?,
            bytes("live_bytes")?,
            bytes("cap_bytes")?,
            text_of(&dossier["scope"]),
        ),
    ))
}
