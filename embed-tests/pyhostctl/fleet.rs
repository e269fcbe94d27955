//! A short slice of the fleet: hosts that start and die at random, under `top`, `top --once` and `serve`.
//! `embed-tests/fleet/run.py --seconds 60` is the whole.

use crate::host::{PYHOST, PYHOSTCTL, Run};
use std::path::Path;

#[test]
fn every_look_at_a_fleet_lists_those_that_run() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("embed-tests/fleet");
    let outcome = Run::program("python3")
        .arg(folder.join("run.py"))
        .args([
            "--pyhost",
            PYHOST,
            "--pyhostctl",
            PYHOSTCTL,
            "--seconds",
            "8",
        ])
        .timeout(300)
        .run();
    assert_eq!(outcome.code(), 0, "{outcome:#?}");
    for kind in ["by ps", "by top", "by serve"] {
        assert!(outcome.stdout.contains(kind), "{outcome:#?}");
    }
}
