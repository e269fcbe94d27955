//! `--stats=openmetrics`: the figures, the format by its own parsers, and the file as node_exporter
//! reads it.

use crate::daemon::{Daemon, check_metrics, debian, fed, free_address, get, value, values};
use crate::environments::named;
use crate::host::{PYHOSTCTL, Run, figure, folder, ledger_at, stock, until};
use serde_json::Value;
use std::process::{Command, Stdio};

/// Reads metrics with the parsers of Prometheus's Python library, for OpenMetrics and for its own
/// text format; the samples as [name, labels, value], the same by both.
fn parsed(text: &str) -> Vec<(String, Value, f64)> {
    let code = "
import json, sys
from prometheus_client.openmetrics import parser as openmetrics
from prometheus_client import parser as prometheus
text = sys.stdin.buffer.read().decode()
def samples(parse):
    found = [sample for family in parse(text) for sample in family.samples]
    return [[sample.name, sample.labels, sample.value] for sample in found]
both = [samples(parser.text_string_to_metric_families) for parser in (openmetrics, prometheus)]
assert both[0] == both[1], both
print(json.dumps(both[0]))";
    let mut python = Command::new(stock());
    let python = python
        .args(["-c", code])
        .env("PYTHONPATH", &named("openmetrics").site_packages);
    serde_json::from_str(&fed(python, text)).unwrap()
}

#[test]
fn the_metrics_are_the_figures_of_the_process() {
    let folder = folder("metrics");
    let (file, ledger) = (folder.join("job.prom"), folder.join("ledger"));
    // `_exit`, so that the ledger's file keeps what the report saw.
    let code = "import os
keep = [bytes(1000) for _ in range(5000)]
gone = bytes(10_000_000); del gone
try: bytes(1 << 30)
except MemoryError: pass
os._exit(5)";
    let outcome = Run::host()
        .args(["--cap", "200M", "--cap", "mem=150M", "--stats=openmetrics"])
        .arg(ledger_at(&ledger))
        .at("--stats=file=", &file)
        .code(code)
        .run();
    assert_eq!(outcome.code(), 5, "{outcome:#?}");
    let text = std::fs::read_to_string(&file).unwrap();
    check_metrics(&text);
    let shown = Run::program(PYHOSTCTL).arg("report").arg(&ledger).ok();
    let report: Value = serde_json::from_str(&shown.stdout).unwrap();

    for account in ["raw", "mem", "obj", "arena", "native"] {
        let label = [("account", account)];
        for (metric, field) in [
            ("pyhost_memory_bytes", "live_bytes"),
            ("pyhost_memory_peak_bytes", "peak_bytes"),
            ("pyhost_memory_blocks", "live_blocks"),
            ("pyhost_allocations_total", "total_blocks"),
        ] {
            assert_eq!(
                value(&text, metric, &label),
                figure(&report, account, field) as f64,
                "{metric} of {account}"
            );
        }
        for reason in ["refused", "failed", "injected"] {
            let labels = [("account", account), ("reason", reason)];
            let failures = value(&text, "pyhost_allocation_failures_total", &labels);
            assert_eq!(failures, figure(&report, account, reason) as f64);
        }
    }
    let refused = [("account", "obj"), ("reason", "refused")];
    assert!(value(&text, "pyhost_allocation_failures_total", &refused) >= 1.0);
    for (metric, field) in [
        ("pyhost_memory_bytes", "live_bytes"),
        ("pyhost_memory_peak_bytes", "peak_bytes"),
    ] {
        let total = value(&text, metric, &[("account", "total")]);
        assert_eq!(Some(total), report["total"][field].as_f64());
    }
    for (account, bytes) in [("total", 200 << 20), ("mem", 150 << 20)] {
        let cap = value(&text, "pyhost_memory_cap_bytes", &[("account", account)]);
        assert_eq!(cap, f64::from(bytes));
        assert_eq!(report["caps"][account]["cap_bytes"].as_f64(), Some(cap));
    }
    assert_eq!(values(&text, "pyhost_memory_cap_bytes", &[]).len(), 2);
    let age = "pyhost_memory_cap_age_seconds";
    assert!(values(&text, age, &[]).is_empty());
    let follows = ["--stats=openmetrics", "--cap", "auto"];
    let follows = Run::host().args(follows).code("pass").ok().stderr;
    assert!(
        (0.0..60.0).contains(&value(&follows, age, &[])),
        "{follows}"
    );
    assert!(values(&text, "pyhost_memory_bytes", &[("account", "numpy")]).is_empty());
    assert_eq!(value(&text, "pyhost_exit_status", &[]), 5.0);
    let python = report["python"]["version"].as_str().unwrap();
    assert_eq!(value(&text, "pyhost_info", &[("python", python)]), 1.0);
    let resident = value(&text, "process_resident_memory_bytes", &[]);
    let peak = value(&text, "pyhost_resident_memory_peak_bytes", &[]);
    assert!(resident > 5e6 && peak >= resident, "{resident} {peak}");
    let (wall, processor) = (
        value(&text, "pyhost_wall_seconds", &[]),
        value(&text, "pyhost_cpu_seconds_total", &[]),
    );
    assert!(wall > 0.0 && processor > 0.0, "{wall} {processor}");
    // Equal to the ledger's to the second: both read the clock at the start.
    let started = value(&text, "process_start_time_seconds", &[]);
    let code = "import datetime, sys
print(datetime.datetime.strptime(sys.argv[1][:19] + '+0000', '%Y-%m-%dT%H:%M:%S%z').timestamp())";
    let told = report["process"]["started"].as_str().unwrap();
    let told: f64 = Run::stock()
        .code(code)
        .arg(told)
        .ok()
        .stdout
        .trim()
        .parse()
        .unwrap();
    assert!(started >= told && started < told + 5.0, "{started} {told}");
}

#[test]
fn parsers_of_both_formats_read_the_same_whatever_the_script_is_called() {
    let folder = folder("metrics");
    for name in [
        "a \"b\" \\n c\\.py",
        "\u{e9}\u{4e2d}{x=\"y\"} 1.py",
        "#.py",
        "a,b=c.py",
    ] {
        let script = folder.join(name);
        std::fs::write(&script, "pass").unwrap();
        let outcome = Run::host().arg("--stats=openmetrics").arg(&script).ok();
        check_metrics(&outcome.stderr);
        let samples = parsed(&outcome.stderr);
        assert!(samples.len() > 30, "{samples:?}");
        for (metric, labels, _) in samples {
            assert_eq!(labels["command"], name, "{metric}");
            assert!(labels.get("pid").is_none(), "a run makes no new series");
        }
    }
    // A control character is no part of a name; it must not end a line.
    let script = folder.join("a\nb\u{1}.py");
    std::fs::write(&script, "pass").unwrap();
    let outcome = Run::host().arg("--stats=openmetrics").arg(&script).ok();
    check_metrics(&outcome.stderr);
    assert!(
        parsed(&outcome.stderr)
            .iter()
            .all(|sample| sample.1["command"] == "a\nb\u{fffd}.py")
    );
}

#[test]
fn a_killed_script_leaves_its_metrics_whole() {
    let file = folder("metrics").join("job.prom");
    let code = "import os, signal; os.kill(os.getpid(), signal.SIGTERM)";
    let outcome = Run::host()
        .env_at("PYHOST_STATS", "openmetrics,file=", &file)
        .code(code)
        .run();
    assert_eq!(outcome.code(), 143, "{outcome:#?}");
    let text = std::fs::read_to_string(&file).unwrap();
    check_metrics(&text);
    assert!(text.ends_with("\n# EOF\n"), "{text}");
    assert_eq!(value(&text, "pyhost_exit_status", &[]), 143.0);
}

#[test]
fn metrics_go_to_a_descriptor_too() {
    let outcome = Run::host()
        .args(["--stats=openmetrics,fd=1", "-m", "this"])
        .ok();
    let (_, text) = outcome.stdout.split_once("# HELP").unwrap();
    assert_eq!(outcome.stderr, "");
    assert_eq!(value(text, "pyhost_info", &[("command", "this")]), 1.0);
}

#[test]
fn node_exporter_takes_the_files_of_a_family_of_processes() {
    let folder = folder("metrics");
    let code = "import os
if os.fork() == 0: os._exit(0)
os.wait()";
    Run::host()
        .at("--stats=openmetrics,file=", folder.join("%p.prom"))
        .code(code)
        .ok();
    // And one of a job that runs by itself.
    Run::host()
        .at("--stats=openmetrics,file=", folder.join("job.prom"))
        .args(["-m", "this"])
        .ok();
    let (_exporter, address) = until("node_exporter", || {
        let address = free_address();
        let mut exporter = Daemon::start(
            Command::new(debian("prometheus-node-exporter"))
                .args(["--collector.disable-defaults", "--collector.textfile"])
                .arg(format!(
                    "--collector.textfile.directory={}",
                    folder.display()
                ))
                .arg(format!("--web.listen-address={address}"))
                .stderr(Stdio::null()),
        );
        until("node_exporter's answer, or its end", || {
            let ended = exporter.child.try_wait().unwrap().is_some();
            (ended || get(address, "/", "").is_some()).then_some(())
        });
        (exporter.child.try_wait().unwrap().is_none()).then_some((exporter, address))
    });
    let text = get(address, "/metrics", "").unwrap().body;
    assert_eq!(
        value(&text, "node_textfile_scrape_error", &[]),
        0.0,
        "{text}"
    );
    let code = [("command", "-c"), ("account", "obj")];
    assert_eq!(
        values(&text, "pyhost_memory_bytes", &code).len(),
        2,
        "parent and child, told apart by their ids: {text}"
    );
    let job = [("command", "this"), ("account", "obj")];
    assert!(value(&text, "pyhost_memory_bytes", &job) > 0.0);
    // Beside its own sample of that name.
    assert_eq!(values(&text, "process_resident_memory_bytes", &[]).len(), 4);
}
