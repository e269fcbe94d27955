use super::*;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::{fs, os::fd::AsRawFd, os::unix::ffi::OsStrExt};

fn seen(path: &Path) -> Result<(Target, PathBuf), OutputError> {
    let mut buffer = PathBuffer::of(path.as_os_str().as_bytes()).unwrap();
    let target = look(&mut buffer)?;
    Ok((target, PathBuf::from(buffer.shown())))
}

const REPORT: &str = "{\"schema\":\"pyhost-report/1\"}\n";

#[test]
fn a_file_is_replaced_only_where_pyhost_wrote_it_or_it_is_empty() {
    let root = tempfile::tempdir().unwrap();
    let folder = root.path();
    let file = folder.join("file");
    assert_eq!(seen(&file), Ok((Target::New, file.clone())));
    for (content, expected) in [
        ("", Ok(Target::Old)),
        (REPORT, Ok(Target::Old)),
        ("print(1)\n", Err(OutputError::Foreign)),
        ("\0", Err(OutputError::Foreign)),
    ] {
        fs::write(&file, content).unwrap();
        assert_eq!(seen(&file).map(|found| found.0), expected, "{content:?}");
        assert_eq!(fs::read_to_string(&file).unwrap(), content);
    }
    assert_eq!(seen(folder), Err(OutputError::Directory));
    assert_eq!(seen(&folder.join("a/b")), Err(OutputError::NoDirectory));
    assert_eq!(seen(&file.join("b")), Err(OutputError::NoDirectory));
    let long = folder.join("x".repeat(300));
    assert_eq!(seen(&long), Err(OutputError::TooLong));
}

#[test]
fn a_link_is_followed_to_its_last_target() {
    let root = tempfile::tempdir().unwrap();
    let folder = root.path();
    let target = folder.join("target");
    symlink("target", folder.join("near")).unwrap();
    symlink(folder.join("near"), folder.join("far")).unwrap();
    let far = folder.join("far");
    assert_eq!(seen(&far), Ok((Target::New, target.clone())));
    fs::write(&target, REPORT).unwrap();
    assert_eq!(seen(&far), Ok((Target::Old, target.clone())));
    fs::write(&target, "mine").unwrap();
    assert_eq!(seen(&far), Err(OutputError::Foreign));
    symlink("/dev/null", folder.join("null")).unwrap();
    let null = seen(&folder.join("null")).unwrap();
    assert_eq!(null, (Target::Stream, PathBuf::from("/dev/null")));
    symlink("round", folder.join("round")).unwrap();
    let round = seen(&folder.join("round"));
    assert_eq!(round, Err(OutputError::System(Errno(libc::ELOOP))));
    symlink("no/such", folder.join("nowhere")).unwrap();
    assert_eq!(seen(&folder.join("nowhere")), Err(OutputError::NoDirectory));
}

#[test]
fn a_path_of_an_open_file_names_the_descriptor() {
    let root = tempfile::tempdir().unwrap();
    let folder = root.path();
    let file = fs::File::create(folder.join("log")).unwrap();
    let number = file.as_raw_fd();
    let own = std::process::id();
    for text in [
        format!("/dev/fd/{number}"),
        format!("/proc/self/fd/{number}"),
        format!("/proc/{own}/fd/{number}"),
    ] {
        let found = seen(Path::new(&text)).map(|found| found.0);
        assert_eq!(found, Ok(Target::Descriptor(number)), "{text}");
    }
    assert_eq!(seen(Path::new("/dev/fd/987")), Err(OutputError::Closed));
    let stdout = seen(Path::new("/dev/stdout")).map(|found| found.0);
    assert_eq!(stdout, Ok(Target::Descriptor(1)));
}

#[test]
fn a_draft_takes_its_place_whole_or_leaves_nothing() {
    let root = tempfile::tempdir().unwrap();
    let folder = root.path();
    let file = folder.join("report");
    let path = PathBuffer::of(file.as_os_str().as_bytes()).unwrap();
    let write = |draft: &Draft<'_>, text: &str| {
        let written = file::write_at(&draft.descriptor(), text.as_bytes(), 0);
        assert_eq!(written, Ok(text.len()));
    };
    // A file that an earlier process of the same id has left is not overwritten.
    let own = std::process::id();
    let left = folder.join(format!("report.{own}.part"));
    fs::write(&left, "left").unwrap();

    let draft = Draft::begin(&path, Target::New, 0).unwrap();
    write(&draft, "one");
    assert!(!file.exists());
    assert!(draft.finish().unwrap().is_some());
    assert_eq!(fs::read_to_string(&file).unwrap(), "one");

    let draft = Draft::begin(&path, Target::Old, 0).unwrap();
    write(&draft, "two");
    drop(draft);
    assert_eq!(fs::read_to_string(&file).unwrap(), "one");
    assert_eq!(fs::read_to_string(&left).unwrap(), "left");
    assert_eq!(fs::read_dir(folder).unwrap().count(), 2);
}
