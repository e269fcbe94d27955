//! One cap over a tree of processes: `--cap tree=SIZE`.

use crate::free_threaded::said;
use crate::host::{Outcome, Run, folder};
use std::path::PathBuf;

/// What the scripts share: how much a process gets before it is refused, which it keeps or not.
const COMMON: &str = "import multiprocessing, os, signal, subprocess, sys, time
kept = []
def take(most=1 << 30):  # mebibytes
    taken = 0
    try:
        while taken < most: kept.append(bytes((1 << 20) - sys.getsizeof(b''))); taken += 1
    except MemoryError: pass
    return taken
def give(): kept.clear()
def host(code): return subprocess.check_output([sys.executable, '-c', COMMON + code], text=True).strip()
";

fn file(name: &str, code: &str) -> PathBuf {
    let file = folder("tree").join(name);
    let common = format!("COMMON = r'''{COMMON}'''\nexec(COMMON)\n");
    std::fs::write(&file, common + code).unwrap();
    file
}

fn run(name: &str, cap: &str, code: &str) -> Outcome {
    let run = Run::host().args(["--cap", cap]).arg(file(name, code));
    run.timeout(120).ok()
}

/// The numbers that the script has printed.
fn numbers(outcome: &Outcome) -> Vec<i64> {
    let words = outcome.stdout.split_whitespace();
    words.map(|word| word.parse().unwrap()).collect()
}

#[test]
fn children_of_every_kind_have_what_the_others_leave() {
    let code = "def child(queue):
    taken = take(); del kept[-4:]; queue.put(taken)  # the queue's thread needs memory, too
if __name__ == '__main__':
    print(take(most=40), host('print(take())'))
    for method in ('fork', 'spawn', 'forkserver'):
        context = multiprocessing.get_context(method)
        queue = context.Queue()
        process = context.Process(target=child, args=(queue,))
        process.start(); print(queue.get()); process.join()
    give(); print(host('print(take())'), take())";
    let outcome = run("kinds.py", "tree=96M", code);
    let numbers = numbers(&outcome);
    let (own, children, after) = (numbers[0], &numbers[1..5], &numbers[5..]);
    assert_eq!(own, 40, "{outcome:#?}");
    // 93 less 40, and what each interpreter needs.
    assert!(
        children.iter().all(|it| (15..50).contains(it)),
        "{outcome:#?}"
    );
    assert!(after.iter().all(|it| (40..93).contains(it)), "{outcome:#?}");
}

#[test]
fn a_forked_child_pays_for_what_it_has_beyond_its_parents() {
    let code = "take(most=60)
read, write = os.pipe()
if os.fork() == 0:
    first = take(); give(); os.write(write, b'%d %d' % (first, take())); os._exit(0)
print(*os.read(read, 100).decode().split()); os.wait(); print(take())";
    let outcome = run("pays.py", "tree=96M", code);
    let numbers = numbers(&outcome);
    assert!((10..30).contains(&numbers[0]), "{outcome:#?}");
    // The blocks that it was forked with and has freed make no room: its parent has them still.
    assert!((10..33).contains(&numbers[1]), "{outcome:#?}");
    assert!((10..33).contains(&numbers[2]), "{outcome:#?}");
}

#[test]
fn what_a_killed_process_held_comes_back_before_it_is_waited_for() {
    let code = "read, write = os.pipe()
pid = os.fork()
if pid == 0:
    take(); os.write(write, b'x'); time.sleep(100)
os.read(read, 1); full = take(); give()
os.kill(pid, signal.SIGKILL)
os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
print(full, take())";
    let numbers = numbers(&run("killed.py", "tree=96M", code));
    assert!(numbers[0] < 10 && numbers[1] > 70, "{numbers:?}");
}

#[test]
fn what_a_process_held_comes_back_when_it_becomes_another_program() {
    let code = "read, write = os.pipe()
pid = os.fork()
if pid == 0:
    take(); os.write(write, b'x'); os.execv('/bin/sleep', ['sleep', '100'])
os.read(read, 1)
while b'sleep' not in open(f'/proc/{pid}/comm', 'rb').read(): time.sleep(0.01)
print(take()); give(); os.kill(pid, signal.SIGKILL)
os.execv(sys.executable, [sys.executable, '-c', COMMON + 'print(take())'])";
    let numbers = numbers(&run("exec.py", "tree=96M", code));
    assert!(numbers.iter().all(|&it| it > 70), "{numbers:?}");
}

/// Without a control group's limit it is the machine's memory; embed-tests/cgroup_limit/changes.py has one that changes.
#[test]
fn a_tree_may_have_what_its_control_group_has() {
    let code = "import pyhost
limit = lambda: host('import pyhost; pyhost.set_cap(\"64M\"); print(take(), pyhost.get_cap(\"total\") >> 20)')
print(limit()); pid = os.fork() or os._exit(take(most=20) + bool(pyhost.headroom() > 1 << 25))
print(os.waitpid(pid, 0)[1] >> 8, pyhost.get_cap() > 1 << 27)";
    let outcome = run("auto.py", "tree=auto", code);
    let words: Vec<_> = outcome.stdout.split_whitespace().collect();
    let taken: i64 = words[0].parse().unwrap();
    assert!((40..64).contains(&taken), "{outcome:#?}");
    assert_eq!(words[1..], ["64", "21", "True"], "{outcome:#?}");
    assert!(
        said(&outcome).starts_with("pyhost: --cap tree=auto: "),
        "{outcome:#?}"
    );
}

#[test]
fn what_a_process_frees_another_one_gets_at_once() {
    let code = "take(most=70); first = int(host('print(take())'))
give(); print(first, host('print(take())'))";
    let numbers = numbers(&run("freed.py", "tree=96M", code));
    assert!(numbers[0] < 20 && numbers[1] > 70, "{numbers:?}");
}

#[test]
fn a_host_that_finds_no_room_says_so_and_a_forked_child_can_begin() {
    let code = "take(most=112)
done = subprocess.run([sys.executable, '-c', 'print(1)'], capture_output=True, text=True)
print(done.returncode, done.stdout); print(done.stderr, file=sys.stderr)
pid = os.fork()
if pid == 0: os._exit(take(most=1))
print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))"
        .replace(
            "os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])",
            "os.WEXITSTATUS(os.waitpid(pid, 0)[1])",
        );
    let outcome = run("full.py", "tree=128M", &code);
    assert_eq!(numbers(&outcome), [1, 1], "{outcome:#?}");
    let text = "cannot start: the cap of 128.0 MiB of its tree (--cap tree) has no room for another process; another process has ";
    assert!(outcome.stderr.contains(text), "{outcome:#?}");
}

#[test]
fn a_child_that_would_find_no_room_is_not_forked_and_idle_ones_need_little() {
    let code = "import errno
def forks(most):
    children = []
    try:
        while len(children) < most:
            pid = os.fork()
            if pid == 0: kept.append(bytes(9000)); time.sleep(1); os._exit(0)
            children.append(pid)
    except OSError as error: assert error.errno == errno.ENOMEM, error
    print(len(children), sum(os.waitpid(pid, 0)[1] != 0 for pid in children))
before = pyhost.headroom()
forks(60); print(before - pyhost.headroom())
take(); forks(60)";
    let code = format!("import pyhost\n{code}");
    let outcome = run("idle.py", "tree=48M", &code);
    let [all, ended, gone, some, ended_too] = numbers(&outcome)[..] else {
        panic!("{outcome:#?}");
    };
    assert_eq!([all, ended, ended_too], [60, 0, 0], "{outcome:#?}");
    assert!(gone < 1 << 20 && (1..60).contains(&some), "{outcome:#?}");
}

#[test]
fn forked_children_can_begin_and_get_their_errors_though_the_tree_is_full() {
    let code = "take(); kept.pop()
def child():
    data = None
    try:
        while True: data = (data, bytes(2000))
    except MemoryError: data = None
    os._exit(7)
children = []
for _ in range(16):
    pid = os.fork()
    if pid == 0: child()
    children.append(pid)
print(*(os.WEXITSTATUS(os.waitpid(pid, 0)[1]) for pid in children))";
    assert_eq!(numbers(&run("begin.py", "tree=128M", code)), [7; 16]);
}

#[test]
fn the_tree_lasts_when_its_first_host_has_ended() {
    let beside = folder("tree").join("lasts.txt");
    let _ = std::fs::remove_file(&beside);
    let code = "first = os.getpid()
if os.fork() == 0:
    while os.getppid() == first: time.sleep(0.01)
    take(most=60)
    found = host('print(take())')
    with open(PATH + '.new', 'w') as out: print(take(), found, file=out)
    os.rename(PATH + '.new', PATH)";
    let code = code.replace("PATH", &format!("{beside:?}"));
    run("lasts.py", "tree=128M", &code);
    let text = crate::host::until("the child's file", || std::fs::read_to_string(&beside).ok());
    let numbers: Vec<i64> = text
        .split_whitespace()
        .map(|it| it.parse().unwrap())
        .collect();
    assert!(numbers.iter().all(|it| (40..70).contains(it)), "{text}");
}

#[test]
fn a_block_that_grows_where_it_lies_claims_more_of_the_tree() {
    let code = "data = bytearray()
try:
    while True: data += bytes(1 << 20)
except MemoryError: print(len(data) >> 20)
del data
import pyhost
print(pyhost.get_cap() >> 20, pyhost.headroom() >> 20)";
    let numbers = numbers(&run("grows.py", "tree=96M", code));
    // It may have to move at half of the cap, where both blocks would count.
    assert!(numbers[0] >= 45, "{numbers:?}");
    assert!(
        numbers[1] == 96 && (80..92).contains(&numbers[2]),
        "{numbers:?}"
    );
}

#[test]
fn the_error_names_the_trees_cap_and_what_others_have() {
    let code = "import pyhost
read, write = os.pipe()
if os.fork() == 0:
    os.close(write); take(most=20); os.read(read, 1); os._exit(0)
os.close(read); time.sleep(1)
try:
    while True: kept.append(object())
except MemoryError: give()
print(pyhost.last_refusal()['scope'], pyhost.last_refusal()['cap_bytes'])";
    let outcome = run("text.py", "tree=64M", code);
    let text = said(&outcome);
    let text = text.lines().next().unwrap();
    assert!(
        text.starts_with("pyhost: cap of 64.0 MiB (tree) reached: "),
        "{text}"
    );
    assert!(text.contains(" live; another process has 2"), "{text}");
    assert_eq!(outcome.stdout, format!("tree {}\n", 64 << 20));
}

#[test]
fn a_wrong_value_is_one_line_and_status_2() {
    for (option, value, expected) in [
        (
            "--cap",
            "owned=auto",
            "bad value 'owned=auto'; expected a size such as 64M or 25%; ",
        ),
        (
            "--cap",
            "tree=1M",
            "bad value 'tree=1048576'; expected at least 16.0 MiB for a tree",
        ),
        (
            "--cap",
            "tree=x",
            "bad value 'tree=x'; expected a size such as 64M, ",
        ),
        (
            "--soft-cap",
            "tree=64M",
            "a tree has none; expected --cap tree=SIZE",
        ),
    ] {
        let outcome = Run::host().args([option, value, "-c", "print(1)"]).run();
        assert_eq!((outcome.code(), outcome.stdout.as_str()), (2, ""));
        let start = format!("pyhost: {option}: {expected}");
        assert!(outcome.stderr.starts_with(&start), "{outcome:#?}");
        assert_eq!(outcome.stderr.lines().count(), 1);
    }
}

#[test]
fn without_memory_to_share_the_script_runs_with_the_cap_as_its_own() {
    let code = "import resource, os, sys
resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
os.execv(sys.argv[1], [sys.argv[1], '--cap', 'tree=64M', '-c', 'import pyhost; print(pyhost.get_cap())'])";
    let host = crate::host::executable();
    let outcome = Run::stock().args(["-c", code]).arg(host).ok();
    assert_eq!(outcome.stdout, format!("{}\n", 64 << 20), "{outcome:#?}");
    let line = "pyhost: --cap tree: no memory to share (File too large); the script runs with the cap as its own\n";
    assert_eq!(said(&outcome), line);
}

#[test]
fn what_is_given_back_is_whole_whatever_the_size_of_the_cap() {
    let code = "import pyhost
def turn():
    for _ in range(500): rows = [bytes(50_000) for _ in range(40)]; del rows
    for _ in range(500): block = bytearray(10 << 20); del block
turn(); before = pyhost.headroom(); turn(); print((before - pyhost.headroom()) >> 20)";
    for cap in ["tree=100MB", "tree=100M", "tree=99999999"] {
        assert_eq!(numbers(&run("whole.py", cap, code)), [0], "{cap}");
    }
}

#[test]
fn a_cap_or_limit_of_the_process_counts_beside_the_trees_for_maps_too() {
    let code = "import mmap, pyhost
def maps():
    made = []
    try:
        for _ in range(10):
            made.append(mmap.mmap(-1, 20 << 20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS))
            made[-1].write(bytes(20 << 20))
    except (OSError, MemoryError): pass
    return len(made)
with pyhost.limit('30M'): print(pyhost.headroom() >> 20, maps())
pyhost.set_cap('96M'); print(pyhost.headroom() >> 20, maps())";
    let numbers = numbers(&run("beside.py", "tree=1G", code));
    assert!(numbers[0] <= 30 && numbers[1] <= 2, "{numbers:?}");
    assert!(
        (60..96).contains(&numbers[2]) && (2..5).contains(&numbers[3]),
        "{numbers:?}"
    );
}
