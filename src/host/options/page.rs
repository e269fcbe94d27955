//! The program that makes the page of `--stats=html`, looked for at the start,
//! so that its absence is reported before anything runs.

use super::outputs::{Outputs, STATS_FILE, TIMELINE};
use super::table::Values;
use crate::error::{Error, Result};
use crate::observe::report::{Destination, Format, Stats};
use crate::observe::timeline::{self, pages::Renderer};
use crate::output::{self, Target};
use crate::{observe::pyhostctl_process, path_template::PathBuffer, process};
use std::{ffi::OsString, os::unix::ffi::OsStringExt};

/// Plans the page that was asked for. If there is no `pyhostctl` to make it, the report goes as JSON
/// into a file beside the page's place, of which `pyhostctl html` makes the page later.
pub fn plan(
    mut asked: Stats,
    timeline: &mut timeline::TimelineSettings,
    prints_path: bool,
    values: &mut Values,
    outputs: &mut Outputs,
) -> Result<Option<Stats>> {
    let Destination::File(template) = &asked.to else {
        return Ok(Some(asked));
    };
    match find(template, timeline, prints_path, values, outputs)? {
        Some(page) => asked.page = Some(page),
        None => {
            let path = [template.as_slice(), b".json"].concat();
            outputs.notices.push(format!(
                "--stats=html: there is no pyhostctl beside the host's executable, nor in PATH; the \
                 report is written to '{}', of which `pyhostctl html` makes the page",
                String::from_utf8_lossy(&path)
            ));
            let path = OsString::from_vec(path);
            let Some(path) = outputs.choose(STATS_FILE, &path, values, false)? else {
                return Ok(None);
            };
            asked.format = Format::Json;
            asked.to = Destination::File(path);
        }
    }
    Ok(Some(asked))
}

/// Finds the program that makes the page; `None` if it is missing. A page needs a timeline: without `--timeline` one is
/// kept beside the page until the page is made.
fn find(
    template: &[u8],
    timeline: &mut timeline::TimelineSettings,
    prints_path: bool,
    values: &mut Values,
    outputs: &mut Outputs,
) -> Result<Option<Renderer>> {
    let Some(program) = pyhostctl_process::find() else {
        return Ok(None);
    };
    // Beside a regular file there may be another.
    let target = || output::look(&mut expand(template)?).ok();
    let is_file = || matches!(target(), Some(Target::New | Target::Old));
    let is_timeline_its_own = timeline.timeline.is_none() && is_file();
    if is_timeline_its_own {
        let path = OsString::from_vec([template, b".timeline"].concat());
        timeline.timeline = outputs.choose(TIMELINE, &path, values, false)?;
    }
    let path = |template| Some(expand(template)?.as_c_str().to_owned());
    let renderer = Renderer {
        program,
        timeline: timeline.timeline.as_deref().and_then(path),
        is_timeline_its_own,
        page: path(template),
        prints_path,
    };
    timeline.renderer = Some(renderer.clone());
    Ok(Some(renderer))
}

fn expand(template: &[u8]) -> Option<PathBuffer> {
    PathBuffer::expand(template, process::id(), b"")
}

/// Where the page goes if nobody has named a file: `pyhost-PID.html` in the working directory. Not a
/// name with `%p`, so that forked children write none.
pub fn default_file() -> Result<OsString> {
    let name = format!("pyhost-{}.html", process::id());
    let expected = "--stats=html: there is no working directory; expected --stats=html,file=PATH";
    let path = std::path::absolute(name).map_err(|_| Error::option(expected))?;
    let path = path.into_os_string().into_vec();
    let path = pyhost_os::semicolon_list::written(&path, b'%');
    Ok(OsString::from_vec(path))
}
