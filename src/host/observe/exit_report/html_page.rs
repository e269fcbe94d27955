//! `--stats=html`: asks the sampler for the page of a report, and waits for it.
//!
//! The report goes as JSON into a file that lies in memory. Like all endings this may run in any thread and inside a
//! signal handler: it allocates nothing and takes no lock.

use super::Report;
use crate::descriptor::Descriptor;
use crate::observe::report::{Ending, Json};
use crate::observe::timeline::pages::{self, NoPage, Renderer};
use pyhost_os::file::{Fd, rewind};
use std::ffi::c_int;
use std::os::fd::AsRawFd;

/// How the page is made, if one is planned, and the process that the host started as.
fn planned() -> Option<(&'static Renderer, libc::pid_t)> {
    let plan = super::STATE.plan.get()?;
    Some((plan.stats.as_ref()?.page.as_ref()?, plan.pid))
}

/// Whether to say where the page is.
pub fn prints_path() -> bool {
    planned().is_some_and(|(page, _)| page.prints_path)
}

pub fn write(report: &Report<'_>, file: c_int) -> Result<(), NoPage> {
    let Some((page, pid)) = planned() else {
        return Err(NoPage::NoSampler);
    };
    let memory = Fd::in_memory(c"pyhost-report")
        .map_err(|error| NoPage::Failed("no room for the report", Some(error)))?;
    let mut out = Descriptor::new(memory.as_raw_fd());
    let mut json = Json::new(&mut out);
    report.describe(&mut json);
    json.finish();
    out.flush();
    rewind(&memory);
    let made = match out.error() {
        Some(error) => Err(NoPage::Failed("no room for the report", Some(error))),
        None => pages::make(memory.as_raw_fd(), file, report.pid == pid),
    };
    if report.pid == pid && report.ending != Ending::Running {
        page.remove_timeline();
    }
    made
}
