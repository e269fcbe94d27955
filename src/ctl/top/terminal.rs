//! The terminal while `top` uses it: raw, with the alternate screen; and the wait for keys, signals or the next moment.
//!
//! Every end restores the terminal. The program aborts on a panic, and drops nothing then. So the panic hook restores it
//! before it prints. A signal ends the loop, and the screen is dropped.
//!
//! crossterm reads the keys. It cannot wait for signals, and does not report that the terminal is gone. So the wait is
//! here: for the terminal, and for a socket that signals write to. crossterm is asked only when there
//! is input, and reads without blocking.

use crossterm::cursor::{Hide, Show};
use crossterm::event::{self, Event, KeyCode, KeyEvent};
use crossterm::execute;
use crossterm::terminal::{
    Clear, ClearType, EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode,
};
use pyhost_os::{errno::Errno, file};
use ratatui::{Terminal, backend::CrosstermBackend};
use signal_hook::consts::{SIGCONT, SIGHUP, SIGINT, SIGTERM, SIGWINCH};
use signal_hook::flag;
use signal_hook::low_level::{emulate_default_handler, pipe};
use std::fs::OpenOptions;
use std::io::{self, BufWriter, Read, Stdout, stdout};
use std::mem::ManuallyDrop;
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

/// The event that ended a wait.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wake {
    Keys(Vec<KeyEvent>),
    /// The time is over, or the terminal's size has changed.
    Look,
    /// The process continues after a stop; other programs may have used the terminal.
    Continued,
    /// A signal that ends the program was received.
    Ended,
    Gone,
}

/// Where keys and signals come from.
pub struct Keys {
    bell: UnixStream,
    ending: Arc<AtomicUsize>,
    continued: Arc<AtomicBool>,
    /// Escape came, and nothing after it yet.
    escaped: bool,
}

impl Keys {
    /// Listens to standard input, and to signals, which no longer end the process by themselves.
    pub fn listen() -> io::Result<Self> {
        let (bell, rung) = UnixStream::pair()?;
        bell.set_nonblocking(true)?;
        let ending = Arc::new(AtomicUsize::new(0));
        let continued = Arc::new(AtomicBool::new(false));
        let second = Arc::new(AtomicBool::new(false));
        for signal in [SIGTERM, SIGINT, SIGHUP] {
            // A second signal ends the program if it is blocked by a terminal that accepts no output.
            flag::register_conditional_default(signal, Arc::clone(&second))?;
            flag::register(signal, Arc::clone(&second))?;
            flag::register_usize(signal, Arc::clone(&ending), signal as usize)?;
            pipe::register(signal, rung.try_clone()?)?;
        }
        flag::register(SIGCONT, Arc::clone(&continued))?;
        for signal in [SIGCONT, SIGWINCH] {
            pipe::register(signal, rung.try_clone()?)?;
        }
        never_block_input();
        Ok(Keys {
            bell,
            ending,
            continued,
            escaped: false,
        })
    }

    /// Waits for an event, at most `time`.
    pub fn wait(&mut self, time: Option<Duration>) -> io::Result<Wake> {
        let longest = match self.escaped {
            true => REST,
            false => Duration::from_secs(3_000_000_000), // for ever is a century
        };
        let time = time.unwrap_or(longest).min(longest).as_nanos() as u64;
        let files = [libc::STDIN_FILENO, self.bell.as_raw_fd()];
        let mut polled = files.map(|file| file::awaited(file, libc::POLLIN));
        match file::wait(&mut polled, time) {
            Ok(_) | Err(Errno(libc::EINTR)) => {}
            Err(Errno(error)) => return Err(io::Error::from_raw_os_error(error)),
        }
        if self.ending.load(Relaxed) != 0 {
            return Ok(Wake::Ended);
        }
        if polled[1].revents != 0 {
            let _ = self.bell.read(&mut [0; 64]);
            return Ok(match self.continued.swap(false, Relaxed) {
                true => Wake::Continued,
                false => Wake::Look,
            });
        }
        match polled[0].revents {
            // Nothing followed: Escape was pressed, and no key that begins with it.
            0 if std::mem::take(&mut self.escaped) => Ok(Wake::Keys(vec![KeyCode::Esc.into()])),
            0 => Ok(Wake::Look),
            libc::POLLIN => Ok(self.read().map_or(Wake::Gone, Wake::Keys)),
            _ => Ok(Wake::Gone),
        }
    }

    /// Reads the keys that were pressed, until a signal ends the program.
    fn read(&mut self) -> io::Result<Vec<KeyEvent>> {
        let mut keys = Vec::new();
        while self.ending.load(Relaxed) == 0 && event::poll(AT_ONCE)? {
            let Event::Key(pressed) = event::read()? else {
                continue;
            };
            // Escape before another key is the start of a sequence that came in two pieces: neither of them is a key.
            match std::mem::take(&mut self.escaped) {
                true => {}
                false if pressed.code == KeyCode::Esc => self.escaped = true,
                false => keys.push(pressed),
            }
        }
        Ok(keys)
    }

    /// Ends the process by the received signal, if there is one.
    pub fn follow_signal(&self) {
        let signal = self.ending.load(Relaxed);
        if signal != 0 {
            let _ = emulate_default_handler(signal as i32);
        }
    }
}

/// How long another key is waited for after Escape.
const REST: Duration = Duration::from_millis(100);
/// The shortest wait in which crossterm reads at all.
const AT_ONCE: Duration = Duration::from_millis(1);

/// Opens the terminal on standard input once more, so that reads never block. `O_NONBLOCK` on the
/// file that is there would also hold for the shell.
///
/// Without it crossterm waits in `read` for the rest of a sequence. That stays so if the terminal
/// cannot be opened: it belongs to another user, for instance after `su`.
fn never_block_input() {
    let mut options = OpenOptions::new();
    let options = options.read(true);
    let options = options.custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY);
    if let Ok(terminal) = options.open("/proc/self/fd/0") {
        file::become_input(&terminal);
    }
}

/// Bytes of a frame that are written at once, so that no half frame is visible.
const FRAME: usize = 64 << 10;

type Output = Terminal<CrosstermBackend<BufWriter<Stdout>>>;

/// The terminal, taken.
pub struct Screen {
    /// The terminal to draw on. Never dropped: it would show the cursor as `leave` does, and panic if
    /// the terminal is gone.
    pub terminal: ManuallyDrop<Output>,
}

impl Screen {
    pub fn enter() -> io::Result<Self> {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            leave();
            before(info);
        }));
        take()?;
        output()
            .map(|terminal| Screen { terminal })
            .inspect_err(|_| leave())
    }

    /// Takes the terminal again after other programs have used it. The next frame is drawn whole.
    pub fn again(&mut self) -> io::Result<()> {
        take()?;
        // `Terminal::clear` would ask the terminal for the cursor's place, and wait for the answer.
        execute!(stdout(), Clear(ClearType::All))?;
        self.terminal = output()?;
        Ok(())
    }
}

fn output() -> io::Result<ManuallyDrop<Output>> {
    let writer = BufWriter::with_capacity(FRAME, stdout());
    Terminal::new(CrosstermBackend::new(writer)).map(ManuallyDrop::new)
}

fn take() -> io::Result<()> {
    enable_raw_mode()?;
    execute!(stdout(), EnterAlternateScreen, Hide).inspect_err(|_| leave())
}

fn leave() {
    let _ = execute!(stdout(), Show, LeaveAlternateScreen);
    let _ = disable_raw_mode();
}

impl Drop for Screen {
    fn drop(&mut self) {
        leave();
    }
}
