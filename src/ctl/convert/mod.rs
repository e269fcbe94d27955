//! `pyhostctl convert`: the sampled lines of a report, for the programs that show stacks.
//!
//! [`crate::stacks`] checks the report's rows and puts its views together; a module a format writes them. The result is
//! made whole before a byte of it is written.

mod collapsed;
mod otlp;
pub mod pprof;
mod speedscope;
#[cfg(any(test, fuzzing))]
pub mod tests;

use crate::find::Directories;
use crate::output::{Failure, print_bytes};
use crate::stacks::{Stacks, View};
use crate::{document::Input, output};
use clap::{Args, ValueEnum};
use std::io::IsTerminal;
use std::path::PathBuf;

/// The program, as results name it.
const MADE_BY: &str = concat!("pyhostctl ", env!("CARGO_PKG_VERSION"));

#[derive(Debug, Args)]
pub struct ConvertOptions {
    /// The format of the result
    #[arg(long, value_name = "FORMAT")]
    pub to: Format,

    /// The bytes that count: those live at the peak, those live when the report was made, or all that were allocated
    #[arg(long, value_name = "VIEW", default_value = "at_peak")]
    pub view: View,

    /// Where the result goes, `-` for stdout [default: stdout]
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,

    /// A report in JSON of `pyhost --lines`, `-` for stdin
    #[arg(value_name = "REPORT")]
    pub report: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// Text, a stack a line
    Collapsed,
    /// JSON for speedscope, all views
    Speedscope,
    /// A heap profile for `go tool pprof`, gzipped
    Pprof,
    /// OpenTelemetry profiles in protobuf
    Otlp,
    /// A flame graph as a picture
    Svg,
}

impl Format {
    /// Whether the result is bytes that are no text.
    fn is_binary(self) -> bool {
        matches!(self, Format::Pprof | Format::Otlp)
    }
}

pub fn run(options: &ConvertOptions, directories: &Directories) -> Result<(), Failure> {
    let path = options.output.as_deref().filter(|path| *path != "-");
    if options.to.is_binary() && path.is_none() && std::io::stdout().is_terminal() {
        let name = format!("{:?}", options.to).to_lowercase();
        return Err(Failure(format!(
            "a profile for {name} is not written to a terminal; expected `-o FILE`, or a pipe"
        )));
    }
    let input = Input::read(&options.report, directories)?;
    let refuse = |what| Failure(format!("{} {what}", input.name));
    // Other formats have nothing for a thread, so they have each stack once.
    let stacks = match options.to {
        Format::Pprof | Format::Otlp => Stacks::by_thread(&input.report),
        _ => Stacks::of_report(&input.report),
    };
    let stacks = stacks.map_err(refuse)?.in_total();
    let result = convert(&stacks, options.to, options.view).map_err(refuse)?;
    path.map_or_else(|| print_bytes(&result), |path| output::write(path, &result))
}

/// The stacks in a format; or what is wrong with them.
pub fn convert(stacks: &Stacks, format: Format, view: View) -> Result<Vec<u8>, String> {
    match format {
        Format::Collapsed => Ok(collapsed::text(stacks, view).into_bytes()),
        Format::Speedscope => Ok(speedscope::text(stacks, view).into_bytes()),
        Format::Pprof => pprof::bytes(stacks, &pprof::Choice::of_view(view)),
        Format::Otlp => Ok(otlp::bytes(stacks, view)),
        Format::Svg => collapsed::picture(stacks, view),
    }
}

/// The view that profiles with bytes in use and bytes allocated show as in use.
fn in_use_of(view: View) -> View {
    match view {
        View::Allocated => View::AtPeak,
        in_use => in_use,
    }
}
