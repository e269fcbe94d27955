//! The parts of a stack: its frames, each kept once, and its sums in the views.

use crate::symbols::Place;
use clap::ValueEnum;
use derive_more::{Add, AddAssign};
use pyhost_os::terminal_text::plain;
use pyhost_sampler as sampler;
use std::fmt::{self, Display};

/// Which bytes are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "snake_case")]
pub enum View {
    /// Live at the peak
    AtPeak,
    /// Live when the account of each was highest
    AtAccountPeak,
    /// Live when the resident size was highest; of maps, what was resident
    AtResidentPeak,
    /// Live when the report was made
    Live,
    /// Allocated at any time
    Allocated,
    /// Live when the report was made, beyond what was live at the script's last pyhost.mark()
    Grown,
}

impl View {
    pub const ALL: [View; 6] = [
        View::AtPeak,
        View::AtAccountPeak,
        View::AtResidentPeak,
        View::Live,
        View::Allocated,
        View::Grown,
    ];

    /// The name in reports and on the command line.
    pub fn name(self) -> &'static str {
        self.of_samples().name()
    }

    /// The view of a host's samples, which have the same order.
    pub(super) fn of_samples(self) -> sampler::View {
        sampler::View::ALL[self as usize]
    }

    pub fn has_ages(self) -> bool {
        matches!(self, View::Live | View::Grown)
    }

    pub fn title(self) -> &'static str {
        match self {
            View::AtPeak => "bytes live at the peak",
            View::AtAccountPeak => "bytes live at the peak of each account",
            View::AtResidentPeak => "bytes at the highest resident size",
            View::Live => "bytes live at the report",
            View::Allocated => "bytes allocated",
            View::Grown => "bytes more than at the last mark",
        }
    }
}

/// Bytes and blocks, by a sample.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Amount {
    pub bytes: i64,
    pub blocks: i64,
    /// The part of the error that adds up: see [`super::error`].
    pub square: f64,
    /// The bytes whose age is known, and the sum of each times its age.
    pub age: Age,
}

#[derive(Add, AddAssign, Clone, Copy, Debug, Default, PartialEq)]
pub struct Age {
    bytes: f64,
    byte_seconds: f64,
}

impl Age {
    /// The age of bytes, as a report has it.
    pub fn new(bytes: i64, seconds: Option<f64>) -> Self {
        /// A thousand years.
        const MOST: f64 = 3.2e10;
        seconds.map_or(Age::default(), |seconds| Age {
            bytes: bytes as f64,
            byte_seconds: bytes as f64 * seconds.clamp(0.0, MOST),
        })
    }

    /// The mean in seconds. None if no byte's age is known.
    pub fn seconds(self) -> Option<f64> {
        (self.bytes > 0.0).then(|| self.byte_seconds / self.bytes)
    }
}

impl Display for Age {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match self.seconds() {
            None => String::new(),
            Some(seconds) if seconds < 99.5 => format!("{seconds:.1} s"),
            Some(seconds) if seconds < 99.5 * 60.0 => format!("{:.0} min", seconds / 60.0),
            Some(seconds) if seconds < 48.0 * 3600.0 => format!("{:.0} h", seconds / 3600.0),
            Some(seconds) => format!("{:.0} d", seconds / 86400.0),
        };
        out.pad(&text)
    }
}

impl Amount {
    pub fn new(bytes: i64, blocks: i64, square: f64) -> Self {
        Amount {
            bytes,
            blocks,
            square,
            age: Age::default(),
        }
    }

    /// The rest without a part of it. Its age is not known.
    pub fn minus(self, part: Amount) -> Amount {
        let (blocks, square) = (self.blocks - part.blocks, self.square - part.square);
        Amount::new(self.bytes - part.bytes, blocks.max(0), square.max(0.0))
    }

    /// The same without a sign. No amount is the least number: it was checked.
    pub fn magnitude(self) -> Amount {
        Amount {
            bytes: self.bytes.saturating_abs(),
            blocks: self.blocks.saturating_abs(),
            ..self
        }
    }

    pub fn plus(self, other: Amount) -> Option<Amount> {
        Some(Amount {
            bytes: self.bytes.checked_add(other.bytes)?,
            blocks: self.blocks.checked_add(other.blocks)?,
            square: self.square + other.square,
            age: self.age + other.age,
        })
    }
}

/// A frame. Its texts hold letters alone, so that none of them steers a terminal.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Frame {
    /// The function, or for a frame without a place, the reason why there is no call.
    pub name: String,
    /// The call's file and line; None if the frame is no call.
    pub place: Option<(String, u32)>,
    pub library: Option<String>,
}

impl Frame {
    /// A call of a library's code: its place is that in the source, or the library without a line.
    pub fn native(place: &Place, library: &str) -> Self {
        let (file, line) = match &place.source {
            Some((file, line)) => (file.as_str(), i64::from(*line)),
            None => (library, 0),
        };
        Frame {
            library: Some(named(library)),
            ..Frame::call(&place.function, file, line)
        }
    }

    /// A call of Python. A line that is not known is 0.
    pub fn call(function: &str, file: &str, line: i64) -> Self {
        Frame {
            name: named(function),
            place: Some((named(file), u32::try_from(line).unwrap_or(0))),
            library: None,
        }
    }

    /// A frame that is no call.
    pub fn label(text: &str) -> Self {
        Frame {
            name: text.to_owned(),
            ..Frame::default()
        }
    }
}

impl Display for Frame {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.place {
            None => out.write_str(&self.name),
            Some((file, 0)) => write!(out, "{} ({file})", self.name),
            Some((file, line)) => write!(out, "{} ({file}:{line})", self.name),
        }
    }
}

/// A text of the report as formats show it: never empty, without a character that steers or hides.
pub fn named(text: &str) -> String {
    match plain(text.trim()) {
        text if text.is_empty() => "?".to_owned(),
        text => text,
    }
}
