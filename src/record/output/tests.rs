use super::*;
use std::os::unix::fs::symlink;
use std::{fs, os::unix::ffi::OsStrExt};

/// Those that may be written are the embedded tests', see `outputs`.
#[test]
fn a_path_that_leads_to_no_file_is_refused() {
    let root = tempfile::tempdir().unwrap();
    let folder = root.path();
    let file = folder.join("file");
    fs::write(&file, "").unwrap();
    symlink("round", folder.join("round")).unwrap();
    symlink("no/such", folder.join("nowhere")).unwrap();
    let endless = OutputError::System(Errno(libc::ELOOP));
    for (path, error) in [
        (folder.to_owned(), OutputError::Directory),
        (folder.join("a/b"), OutputError::NoDirectory),
        (file.join("b"), OutputError::NoDirectory),
        (folder.join("nowhere"), OutputError::NoDirectory),
        (folder.join("x".repeat(300)), OutputError::TooLong),
        (folder.join("round"), endless),
    ] {
        let mut buffer = PathBuffer::of(path.as_os_str().as_bytes()).unwrap();
        assert_eq!(look(&mut buffer), Err(error), "{}", path.display());
    }
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
