//! A program that waits gives back what its heaps keep free; the waits are those of the plain python.

use crate::environments::{named, pins};
use crate::host::Run;
use crate::skipping::skipped;

/// Programs that keep tens of megabytes free, and functions to look at them.
const BEGIN: &str = "import os, select, signal, socket, sys, threading, time
def resident():
    return int(open('/proc/self/statm').read().split()[1]) * os.sysconf('SC_PAGESIZE')
def work():
    if 't' in sys.abiflags:  # lists' arrays are on the host's heaps there, strings on CPython's own
        return len([[None] * 200 for _ in range(20_000)])
    parts = [f'part {n}' for n in range(300_000)]
    for _ in range(6):
        ':'.join(parts).split(':')
def late(seconds, function):
    thread = threading.Timer(seconds, function)
    thread.start()
    return thread
";

/// Resident bytes before the work, after it, and after a wait, which is written in Python.
fn around(run: Run, wait: &str) -> [i64; 3] {
    let code = format!(
        "{BEGIN}
reading, writing = os.pipe()
start = resident()
work()
before = resident()
{wait}
print(start, before, resident())"
    );
    let outcome = run.code(&code).ok();
    let mut figures = outcome
        .stdout
        .split_whitespace()
        .map(|it| it.parse().unwrap());
    [(); 3].map(|()| figures.next().unwrap())
}

#[test]
fn each_kind_of_wait_gives_back_what_is_free() {
    for wait in [
        "time.sleep(0.3)",
        "select.select([reading], [], [], 0.3)",
        "poll = select.poll(); poll.register(reading, select.POLLIN); poll.poll(300)",
        "poll = select.epoll(); poll.register(reading, select.EPOLLIN); poll.poll(0.3)",
        "late(0.3, lambda: os.write(writing, b'x'))\nselect.select([reading], [], [])",
    ] {
        // On a busy machine the work itself gives much of it back, since it takes it again late.
        let [start, before, after] = around(Run::host(), wait);
        assert!(after - start < 10 << 20, "{wait}: {start} {before} {after}");
    }
}

#[test]
fn the_speed_profile_and_one_of_mimallocs_keep_it() {
    let speed = Run::host().args(["--retain", "speed"]);
    let own = Run::host().env("MIMALLOC_PURGE_DELAY", "10000");
    for run in [speed, own] {
        let [start, before, after] = around(run, "time.sleep(0.3)");
        // Under pressure the kernel takes pages of huge ones that nobody has written: 15 MiB of `speed`'s 30 at the start.
        assert!(after - start > 20 << 20, "{start} {before} {after}");
    }
}

#[test]
fn a_thread_that_waits_takes_nothing_from_one_that_works() {
    // The waits of a lock give nothing back. Two programs, since what is kept from one turn to the next is not the same each time.
    let work = |wait: &str| -> (i64, i64) {
        let code = format!(
            "{BEGIN}
import resource
def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt
done = threading.Event()
idle = 0
def wait():
    global idle
    while not done.is_set():
        before = time.process_time()
        {wait}(0.06)
        idle += time.process_time() - before < 0.04
thread = threading.Thread(target=wait)
thread.start()
work()
before = faults()
for _ in range(5): work()
print(faults() - before, idle)
done.set()
thread.join()"
        );
        let outcome = Run::host().code(&code).ok();
        let (faults, idle) = outcome.stdout.trim().split_once(' ').unwrap();
        (faults.parse().unwrap(), idle.parse().unwrap())
    };
    let ((alone, _), (beside, idle)) = (work("done.wait"), work("time.sleep"));
    // All that is free is 12,000 pages of 4 KiB, at each of many waits. On a busy machine no thread may run during one: that is idle.
    let given_back = 12_000 * idle;
    assert!(
        beside < alone + 20_000 + given_back,
        "{alone} {beside} {idle}"
    );
}

#[test]
fn a_wait_of_two_parts_has_the_results_of_one() {
    let code = format!(
        "{BEGIN}
def took(function):
    began = time.monotonic()
    found = function()
    return time.monotonic() - began, found
reading, writing = os.pipe()
left, right = socket.socketpair()
idle, _ = os.pipe()
polled = select.poll()
watched = select.epoll()
for file in reading, idle:
    polled.register(file, select.POLLIN)
    watched.register(file, select.EPOLLIN)
lock = threading.Lock()
lock.acquire()

for seconds in 0.01, 0.05, 0.051, 0.2:
    [[n] for n in range(100_000)]  # leaves pages that are empty
    for wait, nothing in [
        (lambda: time.sleep(seconds), None),
        (lambda: select.select([reading, idle], [], [left], seconds), ([], [], [])),
        (lambda: polled.poll(seconds * 1000), []),
        (lambda: watched.poll(seconds), []),
        (lambda: lock.acquire(timeout=seconds), False),
    ]:
        passed, found = took(wait)
        assert found == nothing and passed >= seconds, (seconds, passed, found)

for seconds in 0.01, 0.2:
    for limit in None, 60:
        for wait, expected in [
            (lambda: select.select([idle, reading], [], [left, idle], limit), ([reading], [], [])),
            (lambda: polled.poll(limit and limit * 1000), [(reading, select.POLLIN)]),
            (lambda: watched.poll(limit), [(reading, select.EPOLLIN)]),
        ]:
            [[n] for n in range(100_000)]
            writer = late(seconds, lambda: os.write(writing, b'x'))
            passed, found = took(wait)
            assert found == expected and passed < 50, (seconds, limit, passed, found)
            writer.join()
            os.read(reading, 1)
        writer = late(seconds, lock.release)
        assert lock.acquire(timeout=-1 if limit is None else limit)
        writer.join()

class Alarm(Exception): pass
def ring(*_): raise Alarm
signal.signal(signal.SIGALRM, ring)
for seconds in 0.02, 0.2:
    for wait in [
        lambda: time.sleep(60), lambda: select.select([idle], [], [], 60), lambda: select.select([idle], [], []),
        lambda: polled.poll(60_000), lambda: polled.poll(), lambda: watched.poll(60), lambda: watched.poll(),
        lambda: lock.acquire(timeout=60), lambda: lock.acquire(),
    ]:
        signal.setitimer(signal.ITIMER_REAL, seconds)
        try:
            wait()
        except Alarm:
            continue
        raise AssertionError('not interrupted')
print('ok')"
    );
    assert_eq!(Run::host().code(&code).ok().stdout, "ok\n");
}

#[test]
fn a_signal_that_comes_while_memory_goes_back_interrupts_the_wait() {
    // The first part ends after 53 ms, and then there is much to give back. The thread that waits in C takes a signal of
    // the process that the main thread has blocked for a moment: it is found a second later.
    let code = format!(
        "{BEGIN}
class Alarm(Exception): pass
def ring(*_): raise Alarm
signal.signal(signal.SIGALRM, ring)
idle, idle_writer = os.pipe()
thread = threading.Thread(target=os.read, args=(idle, 1))
thread.start()
polled = select.poll()
watched = select.epoll()
polled.register(idle, select.POLLIN)
watched.register(idle, select.EPOLLIN)
waits = [lambda: time.sleep(20), lambda: select.select([idle], [], [], 20), lambda: polled.poll(20_000),
         lambda: watched.poll(20)]
late = []
for turn in range(40):
    work()
    began = time.monotonic()
    signal.setitimer(signal.ITIMER_REAL, 0.053 + turn * 0.0002)
    try:
        waits[turn % 4]()
    except Alarm:
        pass
    if time.monotonic() - began > 5: late.append(turn)
os.write(idle_writer, b'x')
thread.join()
print(late)"
    );
    assert_eq!(Run::host().code(&code).ok().stdout, "[]\n");
}

#[test]
fn what_comes_in_time_is_no_timeout_though_the_gil_comes_late() {
    // A C function keeps the GIL until the time of the wait has passed.
    let code = format!(
        "{BEGIN}
import ctypes
keeper = ctypes.PyDLL(None)
left, right = socket.socketpair()
left.settimeout(0.4)
go, gone = os.pipe()
if os.fork() == 0:
    os.close(gone)
    while os.read(go, 1):
        time.sleep(0.2)
        os.write(right.fileno(), b'x')
    os._exit(0)
def keep():
    time.sleep(0.02)
    keeper.usleep(600_000)
def read():
    os.write(gone, b'g')
    print(left.recv(1))
work()
thread = threading.Thread(target=keep)
thread.start()
read()
thread.join()
work()
thread = threading.Thread(target=read)
thread.start()
keep()
thread.join()"
    );
    assert_eq!(Run::host().code(&code).ok().stdout, "b'x'\nb'x'\n");
}

#[test]
fn callers_in_c_are_not_told_of_signals_that_did_not_come() {
    let code = format!(
        "{BEGIN}
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
class Time(ctypes.Structure):
    _fields_ = [('seconds', ctypes.c_long), ('part', ctypes.c_long)]
class Event(ctypes.Structure):
    _fields_ = [('events', ctypes.c_uint32), ('data', ctypes.c_uint32 * 3)]
watched, events, start = select.epoll(), (Event * 4)(), resident()
def until(seconds):
    part, whole = divmod(time.monotonic() + seconds, 1)[::-1]
    return Time(int(whole), int(part * 1e9))
waits = [
    lambda: libc.poll(None, 0, 200),
    lambda: libc.select(0, None, None, None, ctypes.byref(Time(0, 200_000))),
    lambda: libc.epoll_wait(watched.fileno(), events, 4, 200),
    lambda: libc.epoll_pwait(watched.fileno(), events, 4, 200, None),
    lambda: libc.clock_nanosleep(time.CLOCK_MONOTONIC, 1, ctypes.byref(until(0.2)), None),
]
for wait in waits:
    work()
    began = time.monotonic()
    assert wait() == 0 and time.monotonic() - began > 0.199
time.sleep(0.2)
print(resident() - start < 10 << 20)"
    );
    assert_eq!(Run::host().code(&code).ok().stdout, "True\n");
}

#[test]
fn the_loops_of_uvloop_and_gevent_give_back_what_is_free() {
    if !pins("loops").exists() {
        return skipped("uvloop and gevent are not pinned for this Python");
    }
    let loops = named("loops");
    // Python's own signals come through, and timers are not early.
    for (package, program) in [
        (
            "uvloop",
            "import asyncio, uvloop
async def main():
    start = resident()
    work()
    caught = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, caught.set)
    began = time.monotonic()
    await asyncio.sleep(0.3)
    passed, after = time.monotonic() - began, resident()
    late(0.2, lambda: os.kill(os.getpid(), signal.SIGUSR1))
    await caught.wait()
    return start, after, passed
start, after, passed = uvloop.run(main())",
        ),
        (
            "gevent",
            "import gevent
gevent.sleep(0.01)
start = resident()
work()
began = time.monotonic()
gevent.joinall([gevent.spawn(gevent.sleep, seconds) for seconds in (0.02, 0.3)])
passed, after = time.monotonic() - began, resident()",
        ),
    ] {
        let code = format!("{BEGIN}\n{program}\nprint(passed >= 0.299, after - start < 10 << 20)");
        let outcome = loops.host().code(&code).ok();
        assert_eq!(outcome.stdout, "True True\n", "{package}");
    }
}
