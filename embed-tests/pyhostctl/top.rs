//! `pyhostctl top` in a real terminal: tmux, on a socket of its own, whose pane is read and typed to.

use crate::ctl::Obedient;
use crate::host::{PYHOSTCTL, Run, folder, until_seen};
use std::path::{Path, PathBuf};

/// A terminal in which a command runs. Its server ends when it is dropped.
struct Pane {
    socket: PathBuf,
}

/// The line that the shell in the pane prints after the program has ended.
const LEFT: &str = "left with status";

impl Pane {
    /// Runs `pyhostctl --dir DIRECTORY WORDS`, and then says its status; `before` is put before it.
    fn open(directory: &Path, before: &str, words: &str, width: u32, height: u32) -> Self {
        // A socket's path must be short, so it is in the system's folder.
        let name = format!(
            "pyhostctl-top-{}",
            folder("tmux").file_name().unwrap().display()
        );
        let pane = Pane {
            socket: std::env::temp_dir().join(name),
        };
        let command = format!(
            "stty -echo; echo before; {before} '{PYHOSTCTL}' --dir '{}' {words}; \
             echo {LEFT} $?; stty -a | tr ';' '\\n' | grep -w -o -e -icanon -e icanon; exec sleep 600",
            directory.display()
        );
        let (width, height) = (width.to_string(), height.to_string());
        let size = ["-x", &width, "-y", &height];
        let start = ["-f", "/dev/null", "new-session", "-d"];
        pane.tmux(&[&start, &size[..], &[&command]].concat());
        pane
    }

    fn tmux(&self, words: &[&str]) -> String {
        let run = Run::program("tmux").arg("-S").arg(&self.socket).args(words);
        run.env("LC_ALL", "C.UTF-8").ok().stdout
    }

    /// The lines on the screen.
    fn lines(&self) -> Vec<String> {
        let text = self.tmux(&["capture-pane", "-p"]);
        text.lines()
            .map(|line| line.trim_end().to_owned())
            .collect()
    }

    fn press(&self, key: &str) {
        self.tmux(&["send-keys", key]);
    }

    /// Waits until `found` returns a value for the lines of the screen, and returns that value.
    fn until<T>(&self, what: &str, found: impl Fn(&[String]) -> Option<T>) -> T {
        until_seen(what, || {
            let lines = self.lines();
            found(&lines).ok_or_else(|| lines.join("\n"))
        })
    }

    /// Waits for a line that holds `part`; the line.
    fn until_line(&self, part: &str) -> String {
        self.until(part, |lines| {
            lines.iter().find(|line| line.contains(part)).cloned()
        })
    }
}

impl Drop for Pane {
    fn drop(&mut self) {
        let _ = std::process::Command::new("tmux")
            .arg("-S")
            .arg(&self.socket)
            .arg("kill-server")
            .output();
        let _ = std::fs::remove_file(&self.socket);
    }
}

/// The process ids of the list, in its order.
fn pids(lines: &[String]) -> Vec<String> {
    let titles = lines
        .iter()
        .position(|line| line.trim_start().starts_with("PID"));
    let rows = lines.iter().skip(titles.map_or(lines.len(), |at| at + 1));
    let rows = rows.take_while(|line| !line.is_empty());
    rows.map(|row| row.split_whitespace().next().unwrap().to_owned())
        .collect()
}

#[test]
fn hosts_are_listed_sorted_and_gone_when_they_die() {
    let directory = folder("live");
    let pane = Pane::open(
        &directory.join("none-yet"),
        "",
        "top --interval 100ms",
        130,
        30,
    );
    pane.until_line("0 hosts");
    let directory = directory.join("none-yet");
    let mut small = Obedient::start(&directory, &[]);
    let mut large = Obedient::start(&directory, &["--cap", "64M"]);
    large.take(32 << 10);
    let is = |wanted: &[&Obedient]| {
        let wanted: Vec<String> = wanted.iter().map(|host| host.pid()).collect();
        move |lines: &[String]| (pids(lines) == wanted).then_some(())
    };
    pane.until("both, the large one first", is(&[&large, &small]));
    // A row may come before its host has booked what it took.
    pane.until("its cap, half used", |lines| {
        let is_it = |line: &&String| line.contains("64.0 MiB") && line.contains("#####");
        lines.iter().find(is_it).cloned()
    });
    // The selected one's accounts are below; its growth is seen.
    let total = |lines: &[String]| {
        lines
            .iter()
            .find(|line| line.starts_with("total "))
            .cloned()
    };
    let before = pane.until("a total", total);
    large.take(8 << 10);
    pane.until("growth", |lines| {
        total(lines).filter(|line| *line != before)
    });
    pane.press("r");
    pane.until("the small one first", is(&[&small, &large]));
    pane.until_line("least first");
    small.take(60 << 10);
    pane.until("the grown one last", is(&[&large, &small]));
    for _ in 0..9 {
        pane.press("s");
    }
    pane.until_line("by pid");
    // Killed, and not waited for: it vanishes all the same.
    small.kill(false);
    pane.until("the killed one gone", is(&[&large]));
    pane.press("?");
    pane.until_line("this text");
    // The first key that leaves, leaves the help.
    pane.press("Escape");
    large.end();
    pane.until("nobody", is(&[]));
    pane.until_line("0 hosts");
    pane.press("q");
    let left = pane.lines_after_leaving();
    assert_eq!(left[0], "before", "{left:#?}");
    assert_eq!(left[1], format!("{LEFT} 0"), "{left:#?}");
}

impl Pane {
    /// The screen once the program has left: the one from before, in its usual mode.
    fn lines_after_leaving(&self) -> Vec<String> {
        self.until_line(LEFT);
        let left = self.until("the mode", |lines| {
            let mode = lines.iter().any(|line| line.ends_with("icanon"));
            mode.then(|| lines.to_vec())
        });
        assert!(left.iter().any(|line| line == "icanon"), "{left:#?}");
        assert_eq!(
            self.tmux(&["display", "-p", "#{alternate_on} #{cursor_flag}"])
                .trim(),
            "0 1"
        );
        left
    }

    /// The process id of the program.
    fn program(&self) -> String {
        let shell = self.tmux(&["display", "-p", "#{pane_pid}"]);
        until_seen("the program", || {
            let path = format!("/proc/{0}/task/{0}/children", shell.trim());
            let children = std::fs::read_to_string(path).unwrap_or_default();
            let first = children.split_whitespace().next().map(str::to_owned);
            first.ok_or(children)
        })
    }
}

#[test]
fn a_paused_view_stands_still() {
    let directory = folder("live");
    let first = Obedient::start(&directory, &[]);
    let pane = Pane::open(&directory, "", "top --interval 100ms", 100, 24);
    pane.until("a row", |lines| {
        (pids(lines) == [first.pid()]).then_some(())
    });
    pane.press("p");
    let head = pane.until_line("PAUSED");
    let second = Obedient::start(&directory, &[]);
    // A key that draws anew looks at nothing.
    pane.press("?");
    pane.until_line("this text");
    pane.press("?");
    let rows = pane.until("the list", |lines| {
        Some(pids(lines)).filter(|pids| !pids.is_empty())
    });
    assert_eq!(rows, [first.pid()]);
    assert_eq!(pane.until_line("PAUSED"), head);
    pane.press("p");
    pane.until("both", |lines| (pids(lines).len() == 2).then_some(()));
    drop(second);
}

#[test]
fn a_narrow_terminal_shows_what_fits() {
    let directory = folder("live");
    let host = Obedient::start(&directory, &["--cap", "64M"]);
    let pane = Pane::open(&directory, "NO_COLOR=1", "top --interval 100ms", 40, 12);
    pane.until("a row", |lines| (pids(lines) == [host.pid()]).then_some(()));
    let wide = |lines: &[String]| lines.iter().any(|line| line.contains("RESIDENT"));
    assert!(!wide(&pane.lines()));
    // No colour is set except the terminal's own: no sequence begins with 3 or 4.
    let styled = pane.tmux(&["capture-pane", "-p", "-e"]);
    let styled = styled.replace("\u{1b}[39m", "").replace("\u{1b}[49m", "");
    assert!(
        !styled.contains("\u{1b}[3") && !styled.contains("\u{1b}[4"),
        "{styled:?}"
    );
    pane.tmux(&["resize-window", "-x", "132", "-y", "40"]);
    pane.until("more columns", |lines| wide(lines).then_some(()));
    pane.tmux(&["resize-window", "-x", "10", "-y", "3"]);
    pane.until("a tiny list", |lines| {
        (pids(lines) == [host.pid()]).then_some(())
    });
    pane.tmux(&["resize-window", "-x", "80", "-y", "24"]);
    pane.until("a list", |lines| {
        (wide(lines) && pids(lines).len() == 1).then_some(())
    });
    pane.press("Escape");
    pane.lines_after_leaving();
}

#[test]
fn key_sequences_are_read_however_they_are_cut() {
    let directory = folder("live");
    let hosts = [(); 3].map(|()| Obedient::start(&directory, &[]));
    let pane = Pane::open(&directory, "", "top --interval 100ms", 100, 24);
    let selected = |title: &'static str| {
        move |lines: &[String]| {
            lines
                .iter()
                .any(|line| line.starts_with(title))
                .then_some(())
        }
    };
    let type_bytes = |bytes: &[&str]| pane.tmux(&[&["send-keys", "-H"], bytes].concat());
    let rows = pane.until("three rows", |lines| {
        Some(pids(lines)).filter(|pids| pids.len() == hosts.len())
    });
    let titles: Vec<&'static str> = rows
        .iter()
        .map(|pid| &*format!("process {pid}:").leak())
        .collect();
    // By process id, so that the order does not change.
    for _ in 0..9 {
        pane.press("s");
    }
    pane.until_line("by pid");
    pane.until("the ids", |lines| {
        (pids(lines)[0] > pids(lines)[2]).then_some(())
    });
    let order = pids(&pane.lines());
    let title = |place: usize| {
        *titles
            .iter()
            .find(|title| title.contains(&order[place]))
            .unwrap()
    };
    type_bytes(&["1b", "4f", "48"]);
    pane.until("Home", selected(title(0)));
    type_bytes(&["1b", "5b", "34", "7e"]);
    pane.until("End", selected(title(2)));
    type_bytes(&["1b", "5b", "41"]);
    pane.until("up", selected(title(1)));
    // The start of a sequence alone: the view goes on, and the rest completes the key.
    let count = |lines: &[String]| {
        lines[0]
            .split_whitespace()
            .find(|word| word.starts_with('#'))
            .map(str::to_owned)
    };
    type_bytes(&["1b", "5b"]);
    let before = pane.until("a count", count);
    pane.until("another look", |lines| {
        count(lines).filter(|now| *now != before)
    });
    type_bytes(&["42"]);
    pane.until("down", selected(title(2)));
    // Escape and the rest one after the other: not the key that leaves. A sequence that no key has,
    // Alt-q and a letter of two bytes do nothing.
    // tmux types the first two by one command: a busy machine takes longer than Escape is waited for to start a second.
    pane.tmux(&["send-keys", "-H", "1b", ";", "send-keys", "-H", "5b", "43"]);
    for bytes in [
        &["1b", "5b", "32", "30", "30", "3b", "35", "7e"][..],
        &["1b", "71"],
        &["c3", "a9"],
    ] {
        type_bytes(bytes);
    }
    let before = pane.until("a count", count);
    pane.until("another look", |lines| {
        count(lines).filter(|now| *now != before)
    });
    type_bytes(&["0c", "6b"]);
    pane.until("k", selected(title(1)));
    type_bytes(&["03"]);
    pane.lines_after_leaving();
}

#[test]
fn one_process_is_watched_to_its_end() {
    let directory = folder("live");
    let code = "import sys, pyhost
print('ready', flush=True)
try: bytearray(int(sys.stdin.readline()) << 10)
except MemoryError: print('took', flush=True)
sys.stdin.readline()
sys.exit(5)";
    let mut host = Obedient::run(&directory, &["--cap", "48M"], code, &[]);
    let words = format!("top --interval 100ms {}", host.pid());
    let pane = Pane::open(&directory, "", &words, 100, 24);
    pane.until_line(&format!("process {}, 0:", host.pid()));
    host.take(64 << 10);
    pane.until_line("refusals: 1; the last:");
    let status = host.close();
    assert_eq!(status.code(), Some(5));
    pane.until_line(&format!(
        "process {} ended with status 5; its last counters:",
        host.pid()
    ));
    pane.until_line("total ");
    pane.press("q");
    pane.lines_after_leaving();

    let mut host = Obedient::start(&directory, &[]);
    let words = format!("top --interval 100ms {}", host.pid());
    let pane = Pane::open(&directory, "", &words, 100, 24);
    let grown = |line: &str| {
        let rest = line.strip_prefix("total ").unwrap_or_default();
        let live = rest.split_whitespace().next().unwrap_or_default();
        live.parse::<f64>().is_ok_and(|live| live > 20.0)
    };
    host.take(20 << 10);
    let seen = |lines: &[String]| lines.iter().any(|line| grown(line)).then_some(());
    pane.until("growth", seen);
    host.kill(false);
    pane.until_line(&format!(
        "process {} was killed; its last counters:",
        host.pid()
    ));
    pane.until("its last counters", seen);
}

#[test]
fn signals_give_the_terminal_back() {
    let directory = folder("live");
    for (signal, status) in [("-TERM", 143), ("-INT", 130), ("-HUP", 129)] {
        let pane = Pane::open(&directory, "", "top", 80, 24);
        pane.until_line("0 hosts");
        // As long as it waits and as long as it is stopped.
        let program = pane.program();
        Run::program("kill").args([signal, &program]).ok();
        let left = pane.lines_after_leaving();
        let line = format!("{LEFT} {status}");
        assert!(left.contains(&line), "{left:#?}");
    }
}

#[test]
fn a_terminal_that_is_gone_ends_it() {
    let directory = folder("live");
    let pane = Pane::open(&directory, "trap '' HUP;", "top", 80, 24);
    pane.until_line("0 hosts");
    let program = pane.program();
    // The signal is ignored, so the program can only notice that the terminal is gone.
    drop(pane);
    until_seen("the end", || {
        match std::fs::read_to_string(format!("/proc/{program}/stat")) {
            Ok(stat) if !stat.contains(") Z ") => Err(stat),
            _ => Ok(()),
        }
    });
}
