//! The terminal while `top` uses it: raw, with the alternate screen. Every end restores it.
//!
//! The program aborts on a panic, and drops nothing then. So the panic hook restores the terminal
//! before it prints. A signal ends the loop (see [`super::keys`]), and the screen is dropped.

use crossterm::cursor::{Hide, Show};
use crossterm::execute;
use crossterm::terminal::{
    Clear, ClearType, EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode,
};
use ratatui::Terminal;
use ratatui::backend::CrosstermBackend;
use std::io::{self, BufWriter, Stdout, stdout};
use std::mem::ManuallyDrop;

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
