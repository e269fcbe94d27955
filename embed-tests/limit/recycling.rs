//! A worker that keeps too much sends itself a signal between two requests.

use crate::host::Run;

/// A loop that waits for work, and tasks that keep a MiB each and wait, too, until a signal comes.
const SERVER: &str = "import os, select, signal, sys, time
stop, kept, inside = [], [], []
def task():
    inside.append(1)
    keep(bytearray(1 << 20))
    time.sleep(0.06)
    inside.pop()
def serve(turns):
    for turn in range(turns):
        select.select([], [], [], 0.055)
        if stop: break
        task()
    return turn
def handle(number, frame):
    stop.append(number)
    assert not inside, 'in a task'
def keep(block): kept.append(block)
for number in (signal.SIGTERM, signal.SIGUSR1): signal.signal(number, handle)
";

fn serve(options: &str, code: &str) -> (String, String) {
    let run = Run::host().args(["--recycle-at", options, "--stats=off", "--lines=1"]);
    let outcome = run.code(&format!("{SERVER}{code}")).ok();
    (outcome.stdout, outcome.stderr)
}

#[test]
fn a_worker_that_keeps_too_much_gets_the_signal_once_where_it_waits_for_work() {
    for (options, number) in [("24M", 15), ("24M,signal=USR1", 10)] {
        let code = "turns = serve(60); first = list(stop); stop.clear(); serve(9); print(turns > 15, first, stop)";
        let (out, said) = serve(options, code);
        assert_eq!(out, format!("True [{number}] []\n"), "{said}");
        assert_eq!(said.matches("recycled by SIG").count(), 1, "{said}");
        assert!(said.contains("<string>:5 in task"), "{said}");
    }
}

#[test]
fn a_forked_worker_is_recycled_and_not_its_master() {
    let code = "master = os.fork()
if not master: print(serve(60) < 40, stop, flush=True); os._exit(0)
os.waitpid(master, 0); serve(3); print(stop)";
    let (out, said) = serve("24M", code);
    assert_eq!(out, "True [15]\n[]\n", "{said}");
}

#[test]
fn garbage_is_collected_before_and_is_no_reason() {
    let code = "
def keep(block):
    for _ in range(COUNT): cycle = [bytearray(block)]; cycle.append(cycle)
serve(40); print(stop)";
    for count in ["1", "30"] {
        let (out, said) = serve("24M", &code.replace("COUNT", count));
        assert_eq!((out.as_str(), said.as_str()), ("[]\n", ""), "{count}");
    }
}

#[test]
fn a_worker_that_began_with_most_of_the_size_goes_on_and_says_so_once() {
    let (out, said) = serve(
        "24M",
        "kept.append(bytearray(20 << 20)); serve(60); print(stop)",
    );
    assert_eq!(out, "[]\n");
    assert_eq!(said.lines().count(), 1, "{said}");
    assert!(said.contains("goes on with"), "{said}");
}

#[test]
fn a_wrong_size_or_signal_is_one_line_and_status_2() {
    for value in ["1K", "24M,signal=KILL", "signal=TERM", "24M,other=1"] {
        let outcome = Run::host().args(["--recycle-at", value]).code("").run();
        assert_eq!(outcome.code(), 2, "{outcome:#?}");
        assert_eq!(outcome.stderr.lines().count(), 1, "{outcome:#?}");
    }
}
