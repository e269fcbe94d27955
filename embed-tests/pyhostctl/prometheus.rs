//! Debian's Prometheus scrapes `pyhostctl serve`, with the configuration and the rule of
//! docs/observe/metrics.md, and answers queries.

use crate::daemon::{Daemon, debian, free_address, get};
use crate::host::{Run, folder, until};
use crate::serve::{assert_close, host, live_folder, serve, shown};
use serde_json::Value;
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Command, Stdio};

/// The block of code in docs/observe/metrics.md that follows a comment `<!-- NAME -->`.
fn documented(name: &str) -> String {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/observe/metrics.md");
    let text = std::fs::read_to_string(page).unwrap();
    let (_, rest) = text.split_once(&format!("<!-- {name} -->")).unwrap();
    let (_, block) = rest.split_once("```yaml\n").unwrap();
    block.split("```").next().unwrap().to_owned()
}

/// What promtool gives the documented rules, and what they then say.
const RULE_TESTS: &str = "rule_files: [rules.yml]
evaluation_interval: 1m
tests:
- interval: 1m
  input_series:
  - {series: 'pyhost_memory_bytes{account=\"total\",pid=\"7\",command=\"a.py\"}', values: '95+0x400'}
  - {series: 'pyhost_memory_cap_bytes{account=\"total\",pid=\"7\",command=\"a.py\"}', values: '100+0x400'}
  - {series: 'pyhost_memory_bytes{account=\"total\",service=\"api\",role=\"fork\",worker=\"0\",command=\"b\"}', values: '1e8+1e6x400'}
  - {series: 'pyhost_memory_bytes{account=\"total\",service=\"api\",role=\"fork\",worker=\"1\",command=\"b\"}', values: '1e8+1e4x400'}
  - {series: 'pyhost_allocation_failures_total{account=\"obj\",reason=\"refused\",service=\"api\",role=\"fork\",worker=\"1\",command=\"b\"}', values: '0x295 0+1x104'}
  - {series: 'process_start_time_seconds{service=\"api\",role=\"fork\",worker=\"0\",command=\"b\"}', values: '1x295 1+60x104'}
  - {series: 'process_start_time_seconds{service=\"web\",role=\"fork\",worker=\"0\",command=\"b\"}', values: '1x298 500x101'}
  alert_rule_test:
  - {eval_time: 5m, alertname: PyhostNearCap, exp_alerts: [{exp_labels: {account: total, pid: '7', command: a.py}, exp_annotations:
      {summary: a.py (7) has 95% of its cap on total live}}]}
  - {eval_time: 200m, alertname: PyhostGrows, exp_alerts: [{exp_labels: {account: total, service: api, role: fork, worker: '0', command: b}, exp_annotations:
      {summary: api (0) grows by 57.22MiB an hour}}]}
  - {eval_time: 290m, alertname: PyhostRefuses, exp_alerts: []}
  - {eval_time: 320m, alertname: PyhostRefuses, exp_alerts: [{exp_labels: {service: api, command: b}, exp_annotations:
      {summary: api was refused memory 10 times in ten minutes}}]}
  - {eval_time: 290m, alertname: PyhostWorkersEnd, exp_alerts: []}
  - {eval_time: 320m, alertname: PyhostWorkersEnd, exp_alerts: [{exp_labels: {service: api}, exp_annotations:
      {summary: api has replaced 15 workers in 15 minutes}}]}
";

#[test]
fn the_documented_alert_rules_say_what_they_should() {
    let folder = folder("rules");
    std::fs::write(folder.join("rules.yml"), documented("alert rule")).unwrap();
    std::fs::write(folder.join("tests.yml"), RULE_TESTS).unwrap();
    let run = Run::program(debian("promtool")).args(["test", "rules"]);
    run.arg(folder.join("tests.yml")).ok();
}

/// Prometheus, with the documented configuration and rules.
pub struct Prometheus {
    _daemon: Daemon,
    address: SocketAddr,
}

impl Prometheus {
    pub fn start(scraped: SocketAddr) -> Self {
        let folder = folder("prometheus");
        let config = documented("scrape config");
        let config = config.replace("127.0.0.1:14450", &scraped.to_string());
        let head =
            "global: {scrape_interval: 1s, evaluation_interval: 1s}\nrule_files: [rules.yml]\n";
        let config_file = folder.join("prometheus.yml");
        std::fs::write(&config_file, format!("{head}{config}")).unwrap();
        std::fs::write(folder.join("rules.yml"), documented("alert rule")).unwrap();
        Run::program(debian("promtool"))
            .args(["check", "config"])
            .arg(&config_file)
            .ok();
        let log = std::fs::File::create(folder.join("log")).unwrap();
        until("Prometheus", || {
            let address = free_address();
            let mut daemon = Daemon::start(
                Command::new(debian("prometheus"))
                    .arg(format!("--config.file={}", config_file.display()))
                    .arg(format!(
                        "--storage.tsdb.path={}",
                        folder.join("data").display()
                    ))
                    .arg(format!("--web.listen-address={address}"))
                    .current_dir(&folder)
                    .stdout(Stdio::null())
                    .stderr(log.try_clone().unwrap()),
            );
            // Another process may have taken the port: then it ends, and another is tried.
            until("Prometheus's answer, or its end", || {
                let ended = daemon.child.try_wait().unwrap().is_some();
                let ready = get(address, "/-/ready", "").is_some_and(|answer| answer.status == 200);
                (ended || ready).then_some(())
            });
            let runs = daemon.child.try_wait().unwrap().is_none();
            runs.then_some(Prometheus {
                _daemon: daemon,
                address,
            })
        })
    }

    pub fn ask(&self, path: &str) -> Option<Value> {
        let answer = get(self.address, path, "")?;
        let value: Value = serde_json::from_str(&answer.body).ok()?;
        assert_eq!(value["status"], "success", "{path}: {value}");
        Some(value["data"].clone())
    }

    /// The result of a query: labels and value of each element.
    pub fn query(&self, query: &str) -> Vec<(Value, f64)> {
        let escaped: String = query.bytes().map(|byte| format!("%{byte:02X}")).collect();
        let data = self.ask(&format!("/api/v1/query?query={escaped}"));
        let data = data.expect("an answer");
        let element = |element: &Value| {
            let value = element["value"][1].as_str().unwrap();
            (element["metric"].clone(), value.parse().unwrap())
        };
        data["result"]
            .as_array()
            .unwrap()
            .iter()
            .map(element)
            .collect()
    }
}

#[test]
fn prometheus_scrapes_it_and_answers() {
    let live = live_folder("serve");
    let (_server, address) = serve(&live);
    let mut quiet = host(&live, &[], "keep = [bytes(1000) for _ in range(20000)]");
    let near_the_cap = "import pyhost
keep = []
while pyhost.memory_stats()['total']['live_bytes'] < 59 << 20: keep.append(bytes(100_000))";
    let tight = host(&live, &["--cap", "64M"], near_the_cap);
    let prometheus = Prometheus::start(address);

    let query = "pyhost_memory_bytes{account=\"obj\"}";
    let found = until("samples of two hosts", || {
        let found = prometheus.query(query);
        (found.len() == 2).then_some(found)
    });
    for host in [&quiet, &tight] {
        let pid = host.pid().to_string();
        let of_host = found
            .iter()
            .find(|(labels, _)| labels["pid"] == pid.as_str());
        let (labels, bytes) = of_host.unwrap();
        assert_close(*bytes, shown(&live, host.pid()));
        assert_eq!(labels["command"], "-c");
        assert_eq!(labels["job"], "pyhost");
    }
    // The type that Prometheus gives a counter of OpenMetrics.
    until("the types", || {
        let types = prometheus.ask("/api/v1/metadata")?;
        (types["pyhost_allocations"][0]["type"] == "counter").then_some(())
    });
    let targets = prometheus.ask("/api/v1/targets").unwrap();
    assert_eq!(targets["activeTargets"][0]["lastError"], "", "{targets}");

    // The documented rule sees the one host that is near its cap.
    let alert = until("the alert", || {
        let alerts = prometheus.ask("/api/v1/alerts")?;
        let alerts = alerts["alerts"].as_array()?;
        assert!(alerts.len() < 2, "{alerts:?}");
        alerts.first().cloned()
    });
    assert_eq!(alert["labels"]["pid"], tight.pid().to_string());
    assert_eq!(alert["labels"]["alertname"], "PyhostNearCap");

    // A host that is killed leaves with the next scrape, not with Prometheus's five minutes.
    quiet.signal(libc::SIGKILL);
    quiet.ends();
    let left = until("one host less", || {
        let found = prometheus.query(query);
        (found.len() == 1).then_some(found)
    });
    assert_eq!(left[0].0["pid"], tight.pid().to_string());
    assert_eq!(prometheus.query("pyhost_hosts")[0].1, 1.0);
    assert_eq!(prometheus.query("up{job=\"pyhost\"}")[0].1, 1.0);
}
