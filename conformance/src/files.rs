//! Files, read up to a size limit and replaced as a whole: those that the harness's user names, and those that a target leaves behind.
//! The names that a suite gives to files, which must not lead out of their directory.
//! Knows nothing of their contents.

use std::fs::OpenOptions;
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Component, Path, PathBuf};

use nix::fcntl::OFlag;
use serde::de::DeserializeOwned;

use crate::cut;

/// Size limit of a template, a claims file, a baseline or the like, in bytes.
pub const SETTINGS_BYTES_MAX: u64 = 16 << 20;
/// Longest error message about such a file that quotes the faulty line, in bytes.
const TOML_MESSAGE_BYTES_MAX: usize = 2 << 10;
/// Size limit of a report, or of the whole suite in one file, in bytes.
pub const REPORT_BYTES_MAX: u64 = 256 << 20;

/// Why a file that the user named can't be used.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    #[error("{}: {source}", .path.display())]
    Unreadable { path: PathBuf, source: ReadError },
    /// Not UTF-8 from byte `at` on.
    #[error("{}: expected text in UTF-8, found other bytes at byte {at}", .path.display())]
    NotText { path: PathBuf, at: usize },
    #[error("{}: {source}", .path.display())]
    NotToml { path: PathBuf, source: TomlError },
}

/// Why a file can't be read as a whole.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error("it is no regular file: write what it holds to one, and name that")]
    NotRegular,
    #[error("it goes on beyond {bytes_max} bytes, the most that it may have")]
    TooLong { bytes_max: u64 },
}

/// Why a settings file is not TOML of the right shape.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TomlError {
    /// The parser's message, which quotes the line.
    #[error(transparent)]
    Quoted(#[from] toml::de::Error),
    /// The line is too long to be quoted.
    #[error("TOML parse error at line {line}, column {column}: {why}")]
    InLongLine {
        line: usize,
        column: usize,
        why: String,
    },
}

/// The path of a file that a suite names, which may be anybody's. `None` if the name could lead out of the directory.
pub fn path_inside(directory: &Path, name: &str) -> Option<PathBuf> {
    let relative = Path::new(name);
    let mut parts = relative.components();
    let is_plain = parts.all(|part| matches!(part, Component::Normal(_)));
    (is_plain && !name.is_empty() && !name.contains('\0')).then(|| directory.join(relative))
}

/// Reads the text of a file that the user named.
///
/// # Errors
/// When it can't be read, is not a regular file, is not text, or exceeds `bytes_max`.
pub fn read_text(path: &Path, bytes_max: u64) -> Result<String, FileError> {
    let bytes = read(path, bytes_max).map_err(|source| FileError::Unreadable {
        path: path.to_owned(),
        source,
    })?;
    String::from_utf8(bytes).map_err(|error| FileError::NotText {
        path: path.to_owned(),
        at: error.utf8_error().valid_up_to(),
    })
}

/// Parses a settings file.
///
/// # Errors
/// As [`read_text`]; also when the contents are wrong, with the line.
pub fn read_toml<T: DeserializeOwned>(path: &Path) -> Result<T, FileError> {
    let text = read_text(path, SETTINGS_BYTES_MAX)?;
    parse_toml(&text).map_err(|source| FileError::NotToml {
        path: path.to_owned(),
        source,
    })
}

/// Parses the text of a settings file.
///
/// # Errors
/// When it is not TOML of this shape.
pub fn parse_toml<T: DeserializeOwned>(text: &str) -> Result<T, TomlError> {
    toml::from_str(text).map_err(|error: toml::de::Error| {
        if error.to_string().len() <= TOML_MESSAGE_BYTES_MAX {
            return error.into();
        }
        let before = text
            .get(..error.span().map_or(0, |span| span.start))
            .unwrap_or_default();
        let (line, column) = position_after(before);
        let why = cut::to_bytes(error.message(), TOML_MESSAGE_BYTES_MAX).to_string();
        TomlError::InLongLine { line, column, why }
    })
}

/// Line and column, from 1, of the position after this text.
pub fn position_after(text: &str) -> (usize, usize) {
    let begun = text.rfind('\n').map_or(0, |end| end + 1);
    (
        text.matches('\n').count() + 1,
        text[begun..].chars().count() + 1,
    )
}

/// The contents of a file that a target left behind; `None` if it is not a regular file or exceeds the limit.
pub fn read_left_file(path: &Path, bytes_max: u64) -> Option<Vec<u8>> {
    read(path, bytes_max).ok()
}

/// Reads the bytes of a regular file. Opening a pipe or a device instead does not block.
fn read(path: &Path, bytes_max: u64) -> Result<Vec<u8>, ReadError> {
    let file = OpenOptions::new()
        .read(true)
        .custom_flags((OFlag::O_NONBLOCK | OFlag::O_NOCTTY).bits())
        .open(path)?;
    let found = file.metadata()?;
    if !found.is_file() {
        return Err(ReadError::NotRegular);
    }
    let mut bytes = Vec::new();
    if found.len() <= bytes_max {
        // Reading one byte more than the limit reveals that the file has grown.
        file.take(bytes_max + 1).read_to_end(&mut bytes)?;
        if bytes.len() as u64 <= bytes_max {
            return Ok(bytes);
        }
    }
    Err(ReadError::TooLong { bytes_max })
}

/// Writes a file atomically: it holds either the whole old text or the whole new one, so that a full disk or a signal never
/// destroys the old text. Devices and pipes are written to directly.
///
/// # Errors
/// When the file can't be written; its old contents are then untouched.
pub fn replace(path: &Path, text: &str) -> io::Result<()> {
    // A symbolic link stays; the file that it points to is replaced.
    let real = std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let found = std::fs::metadata(&real).ok();
    if found.as_ref().is_some_and(|found| !found.is_file()) {
        return std::fs::write(path, text);
    }
    let name = real.file_name().unwrap_or_default().to_string_lossy();
    let fresh = real.with_file_name(format!(".{name}.{}", std::process::id()));
    let written = match std::fs::write(&fresh, text) {
        // In a directory that permits no new files, only the old file can be overwritten.
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            return std::fs::write(&real, text);
        }
        Err(error) => Err(error),
        Ok(()) => found
            .map_or(Ok(()), |found| {
                std::fs::set_permissions(&fresh, found.permissions())
            })
            .and_then(|()| std::fs::rename(&fresh, &real)),
    };
    if written.is_err() {
        let _nothing_left = std::fs::remove_file(&fresh);
    }
    written
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_replaced_atomically() {
        let directory = tempfile::tempdir().unwrap();
        let (file, link) = (directory.path().join("file"), directory.path().join("link"));
        replace(&file, "old").unwrap();
        std::os::unix::fs::symlink(&file, &link).unwrap();
        replace(&link, "new").unwrap();
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "new");
        assert!(std::fs::symlink_metadata(&link).unwrap().is_symlink());
        // A directory blocks the temporary file's name.
        let fresh = format!(".file.{}", std::process::id());
        std::fs::create_dir(directory.path().join(&fresh)).unwrap();
        assert!(replace(&file, "lost").is_err());
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "new");
        std::fs::remove_dir(directory.path().join(&fresh)).unwrap();
        assert!(replace(Path::new("/dev/full"), "x").is_err());
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 2);
    }

    #[test]
    fn errors_in_long_lines_give_the_position() {
        let told = |text: &str| parse_toml::<toml::Table>(text).unwrap_err().to_string();
        assert!(told("a = [").contains("\n1 | a = ["));
        let long = told(&format!("b = 1\na = {}", "[".repeat(1 << 20)));
        assert!(
            long.starts_with("TOML parse error at line 2, column "),
            "{long}"
        );
        assert!(long.len() < 1 << 10);
    }

    #[test]
    fn endless_files_are_not_read() {
        let directory = tempfile::tempdir().unwrap();
        let (file, pipe, zero) = (
            directory.path().join("file"),
            directory.path().join("pipe"),
            directory.path().join("zero"),
        );
        std::fs::write(&file, "text").unwrap();
        nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).unwrap();
        std::os::unix::fs::symlink("/dev/zero", &zero).unwrap();
        assert_eq!(read_text(&file, 4).unwrap(), "text");
        assert_eq!(read_left_file(&file, 4), Some(b"text".to_vec()));
        let told = read_text(&file, 3).unwrap_err().to_string();
        assert!(told.contains("it goes on beyond"), "{told}");
        for path in [&pipe, &zero, &directory.path().to_owned()] {
            let told = read_text(path, 4).unwrap_err().to_string();
            assert!(told.contains("it is no regular file"), "{told}");
            assert_eq!(read_left_file(path, 4), None, "{}", path.display());
        }
        assert_eq!(read_left_file(&file, 3), None);
    }
}
