//! Tests of the renderer.

use super::families::FAMILIES;
use super::*;

fn process<'a>(snapshot: &'a Snapshot, command: &'a str, pid: Option<i32>) -> Process<'a> {
    Process {
        member: None,
        pid: pid.map(|id| Pid {
            namespace: None,
            id,
        }),
        command,
        about: [""; ABOUT.len()],
        now: snapshot,
        live: snapshot,
        active: [true; REPORTED.len()],
        caps: [None; Scope::COUNT],
        cap_age: None,
        inherited: None,
        resident: Some(4096),
        peak_resident: None,
        started: 1_500_000_000,
        cpu_seconds: Some(0.25),
        wall_seconds: None,
        exit_status: None,
    }
}

fn text(form: Form, processes: &[Process<'_>], machine: Option<&Machine>) -> String {
    let mut text = String::new();
    write(form, processes, machine, &mut text).unwrap();
    text
}

#[test]
fn each_form_declares_counters_its_own_way() {
    let snapshot = Snapshot::default();
    let processes = [process(&snapshot, "a.py", None)];
    for (form, declared, missing) in [
        (
            Form::OpenMetrics,
            "# TYPE pyhost_allocations counter",
            "# TYPE pyhost_allocations_total",
        ),
        (
            Form::Prometheus,
            "# TYPE pyhost_allocations_total counter",
            "# EOF",
        ),
        (
            Form::Either,
            "# HELP pyhost_allocations_total ",
            "# TYPE pyhost_allocations",
        ),
    ] {
        let text = text(form, &processes, None);
        assert!(text.contains(declared), "{text}");
        assert!(!text.contains(missing), "{text}");
        assert!(text.contains("pyhost_allocations_total{account=\"obj\",command=\"a.py\"} 0"));
        assert_eq!(text.ends_with("\n# EOF\n"), form != Form::Prometheus);
    }
}

#[test]
fn the_samples_of_a_family_stand_together_below_one_description() {
    let snapshot = Snapshot::default();
    let processes = [1, 2, 3].map(|pid| process(&snapshot, "a.py", Some(pid)));
    let machine = Machine {
        hosts: 3,
        unreadable_files: 1,
    };
    let text = text(Form::Prometheus, &processes, Some(&machine));
    let mut families = Vec::new();
    for line in text.lines() {
        let name = line.strip_prefix("# HELP ").unwrap_or(line);
        let name = name.trim_start_matches("# TYPE ");
        let name = name.split([' ', '{']).next().unwrap();
        if families.last() != Some(&name) {
            assert!(!families.contains(&name), "{name} comes again: {text}");
            families.push(name);
        }
    }
    assert_eq!(text.matches("\nprocess_resident_memory_bytes{").count(), 3);
    assert!(text.contains("\npyhost_hosts 3\n"), "{text}");
    // Without a sample there is no family.
    assert!(!families.contains(&"pyhost_wall_seconds"));
    assert!(!families.contains(&"pyhost_memory_cap_bytes"));
}

#[test]
fn labels_are_escaped() {
    let snapshot = Snapshot::default();
    let mut odd = process(&snapshot, "a\"b\\c\nd\u{1}é", None);
    odd.pid = Some(Pid {
        namespace: Some(77),
        id: 1,
    });
    let text = text(Form::Either, &[odd], None);
    let labels = "{pid=\"77:1\",command=\"a\\\"b\\\\c\\nd\u{fffd}é\"}";
    let line = format!("process_resident_memory_bytes{labels} 4096");
    assert!(text.contains(&line), "{text}");
}

#[test]
fn the_help_of_families_needs_no_escaping() {
    for family in FAMILIES {
        assert!(!family.help.contains(['"', '\\', '\n']), "{}", family.help);
    }
}

#[test]
fn an_account_that_nothing_is_booked_to_has_no_samples() {
    let snapshot = Snapshot::default();
    let mut plain = process(&snapshot, "a.py", None);
    plain.active[Account::Numpy as usize] = false;
    plain.caps[Scope::Total.index()] = Some(7);
    let text = text(Form::Either, &[plain], None);
    assert!(!text.contains("numpy"), "{text}");
    assert!(text.contains("pyhost_memory_cap_bytes{account=\"total\",command=\"a.py\"} 7\n"));
}
