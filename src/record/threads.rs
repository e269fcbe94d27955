//! The name of a sample's thread for people: its own, or the role that its calls show.
//!
//! Before CPython 3.14 `threading` does not pass the names of threads to the kernel.

use crate::origin::{is_hosts, is_users};
use derive_more::Display;
use pyhost_sampler::{Samples, Site, Thread};

/// Modules of the standard library that start a thread and run its function.
const MACHINERY: &[&str] = &[
    "/threading.py",
    "/concurrent/futures/thread.py",
    "/socketserver.py",
    "/multiprocessing/pool.py",
];

#[derive(Clone, Copy, Debug, Hash, PartialEq, Eq, Display)]
pub enum ThreadName<'a> {
    /// Its own, or a fixed one.
    Known(&'a str),
    /// The outermost call that is no machinery.
    #[display("thread of {function} ({file})")]
    Role { function: &'a str, file: &'a str },
}

pub fn thread_name(samples: &Samples, site: Site) -> ThreadName<'_> {
    match samples.thread_of(site) {
        Thread::Main => ThreadName::Known("main"),
        Thread::Named(name) => ThreadName::Known(name),
        Thread::Others => ThreadName::Known("other threads"),
        Thread::Unnamed => role(samples, site),
    }
}

fn role(samples: &Samples, site: Site) -> ThreadName<'_> {
    let calls = samples.calls(site).map(|call| (call.function, call.file));
    let mut role = ThreadName::Known("thread without Python code");
    // The innermost call comes first. The host's own stands between a library's thread and the calls that wait for it.
    for (function, file) in calls {
        if is_hosts(file) {
            return role;
        }
        if is_users(file) || !MACHINERY.iter().any(|module| file.ends_with(module)) {
            role = ThreadName::Role { function, file };
        } else if matches!(role, ThreadName::Known(_)) {
            role = ThreadName::Known("thread that starts, waits or ends");
        }
    }
    role
}

#[cfg(test)]
mod tests {
    use super::*;
    use pyhost_sampler::{Allocation, Call, Weight};

    const LIBRARY: &str = "/usr/lib/python3.11";

    /// The name of a thread with these calls, innermost first.
    fn named(thread: Thread<'_>, calls: &[(&str, &str)]) -> String {
        let mut samples = Samples::new(1, 9);
        let thread = samples.thread(thread);
        let block = Allocation {
            thread,
            ..Allocation::of(1, 0, Weight::new(1, 1, 1))
        };
        let calls = calls.iter();
        let calls = calls.map(|(function, file)| Call::of(file, function, 1));
        samples.add_at(block, &calls.collect::<Vec<_>>());
        let site = samples.sites().next().unwrap();
        thread_name(&samples, site).to_string()
    }

    #[test]
    fn a_thread_without_a_name_has_that_of_the_outermost_call_that_is_no_machinery() {
        let threading = format!("{LIBRARY}/threading.py");
        let pool = format!("{LIBRARY}/concurrent/futures/thread.py");
        let bootstrap = [("run", threading.as_str()), ("_bootstrap", &threading)];
        let worker = [&[("_worker", pool.as_str())], &bootstrap[..]].concat();
        let job = [&[("load", "/app.py"), ("work", "/app.py")], &worker[..]].concat();
        let unnamed = |calls: &[(&str, &str)]| named(Thread::Unnamed, calls);
        assert_eq!(unnamed(&job), "thread of work (/app.py)");
        assert_eq!(unnamed(&worker), "thread that starts, waits or ends");
        assert_eq!(unnamed(&[]), "thread without Python code");
        let waited_for = [&[("waiting", "<pyhost>")], &job[..]].concat();
        assert_eq!(unnamed(&waited_for), "thread without Python code");
        // The user's own file of that name is no machinery.
        let own = [&[("serve", "/home/me/threading.py")], &bootstrap[..]].concat();
        assert_eq!(unnamed(&own), "thread of serve (/home/me/threading.py)");
        assert_eq!(named(Thread::Named("reader"), &job), "reader");
        assert_eq!(named(Thread::Main, &job), "main");
    }
}
