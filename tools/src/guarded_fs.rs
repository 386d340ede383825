//! The only way in which these tools change files: never below `spec/`, which people write. Also reads them. Every error
//! names the file. Knows no tool.
//!
//! Clippy rejects the writing functions of `std::fs` everywhere else (`tools/clippy.toml`).

#![allow(clippy::disallowed_methods, reason = "the one place")]

use std::fs::File;
use std::io::{Error, ErrorKind, Result};
use std::path::{Path, PathBuf};

/// Reads a whole file of text.
///
/// # Errors
/// As [`std::fs::read_to_string`].
pub fn read_to_string(path: &Path) -> Result<String> {
    std::fs::read_to_string(path).map_err(|error| naming(path, &error))
}

/// Every file below `directory` whose name ends in `.` and `extension`, sorted; what a build leaves is not looked at.
///
/// # Errors
/// As [`std::fs::read_dir`].
pub fn files_below(directory: &Path, extension: &str) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let mut waiting = vec![directory.to_path_buf()];
    while let Some(directory) = waiting.pop() {
        let unread = |error| naming(&directory, &error);
        for entry in std::fs::read_dir(&directory).map_err(unread)? {
            let path = entry.map_err(unread)?.path();
            if path.is_dir() {
                if !path.ends_with("target") {
                    waiting.push(path);
                }
            } else if path.extension().is_some_and(|found| found == extension) {
                found.push(path);
            }
        }
    }
    found.sort();
    Ok(found)
}

/// Writes a whole file.
///
/// # Errors
/// As [`std::fs::write`], and for every path that leads into `spec/`.
pub fn write(path: &Path, bytes: impl AsRef<[u8]>) -> Result<()> {
    named(path, |path| std::fs::write(path, bytes))
}

/// Creates a file for writing.
///
/// # Errors
/// As `write`.
pub fn create(path: &Path) -> Result<File> {
    named(path, |path| File::create(path))
}

/// Opens a file that is there, for reading and writing.
///
/// # Errors
/// As `write`.
pub fn open_to_change(path: &Path) -> Result<File> {
    named(path, |path| {
        File::options().read(true).write(true).open(path)
    })
}

/// Lets everyone run a file.
///
/// # Errors
/// As `write`.
#[cfg(unix)]
pub fn make_executable(path: &Path) -> Result<()> {
    use std::os::unix::fs::PermissionsExt as _;
    let permissions = std::fs::Permissions::from_mode(0o755);
    named(path, |path| std::fs::set_permissions(path, permissions))
}

/// Elsewhere the name says what can be run.
///
/// # Errors
/// Never.
#[cfg(not(unix))]
pub fn make_executable(_: &Path) -> Result<()> {
    Ok(())
}

/// Creates a directory and its parents.
///
/// # Errors
/// As `write`.
pub fn create_dir_all(path: &Path) -> Result<()> {
    named(path, |path| std::fs::create_dir_all(path))
}

/// Copies a file.
///
/// # Errors
/// As `write`.
pub fn copy(from: &Path, to: &Path) -> Result<()> {
    named(to, |to| std::fs::copy(from, to).map(drop))
}

/// Renames a file, replacing an existing one.
///
/// # Errors
/// As `write`.
pub fn rename(from: &Path, to: &Path) -> Result<()> {
    check_path(from)?;
    named(to, |to| std::fs::rename(from, to))
}

/// Removes a file or a whole directory, if it is there.
///
/// # Errors
/// As `write`.
pub fn remove(path: &Path) -> Result<()> {
    named(path, |path| match path.is_dir() {
        true => std::fs::remove_dir_all(path),
        false => std::fs::remove_file(path),
    })
}

/// Does something to a file that may be changed; an error names it.
fn named<T>(path: &Path, change: impl FnOnce(&Path) -> Result<T>) -> Result<T> {
    check_path(path)
        .and_then(change)
        .map_err(|error| naming(path, &error))
}

fn naming(path: &Path, error: &Error) -> Error {
    Error::new(error.kind(), format!("{}: {error}", path.display()))
}

/// Returns `path`, unless it leads into `spec/` by any route.
fn check_path(path: &Path) -> Result<&Path> {
    let spec = crate::root().join("spec").canonicalize()?;
    match real_path(path)?.starts_with(&spec) {
        false => Ok(path),
        true => Err(Error::new(
            ErrorKind::PermissionDenied,
            "people write spec/, no tool does",
        )),
    }
}

/// The real path: the existing part with links resolved, then the rest.
fn real_path(path: &Path) -> Result<PathBuf> {
    if let Ok(there) = path.canonicalize() {
        return Ok(there);
    }
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(Error::new(ErrorKind::InvalidInput, "no name of a file"));
    };
    let parent = match parent.as_os_str().is_empty() {
        true => Path::new("."),
        false => parent,
    };
    Ok(real_path(parent)?.join(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_path_leads_into_the_specification() {
        let root = crate::root();
        let scratch = root.join("target/guarded-fs-test");
        create_dir_all(&scratch).unwrap();
        let link = scratch.join("link");
        let _absent = std::fs::remove_file(&link);
        std::os::unix::fs::symlink(root.join("spec"), &link).unwrap();
        let page = root.join("spec/README.md");
        let before = std::fs::read(&page).unwrap();
        for path in [
            page.clone(),
            root.join("spec"),
            root.join("spec/new/page.md"),
            root.join("golden/../spec/README.md"),
            link.join("README.md"),
            link.join("new.md"),
        ] {
            let refused =
                |done: Result<()>| done.unwrap_err().kind() == ErrorKind::PermissionDenied;
            assert!(refused(write(&path, "")), "{}", path.display());
            assert!(refused(create(&path).map(drop)), "{}", path.display());
            assert!(refused(create_dir_all(&path)), "{}", path.display());
            assert!(
                refused(copy(&root.join("README.md"), &path)),
                "{}",
                path.display()
            );
            assert!(
                refused(rename(&path, &scratch.join("taken"))),
                "{}",
                path.display()
            );
            assert!(refused(remove(&path)), "{}", path.display());
        }
        assert_eq!(std::fs::read(&page).unwrap(), before);
        write(&scratch.join("other"), "1").unwrap();
        remove(&scratch).unwrap();
    }
}
