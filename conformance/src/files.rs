//! Files, read up to a bound: those that whoever runs the harness names, and those that a target left behind. Knows nothing of what
//! they say.

use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use nix::fcntl::OFlag;

/// Bytes of a template, a declaration, a baseline or the like.
pub const SETTINGS_BYTES_MAX: u64 = 16 << 20;
/// Bytes of a report, or of the whole suite in one file.
pub const REPORT_BYTES_MAX: u64 = 256 << 20;

/// The text of a file that was named.
///
/// # Errors
/// A message with the file: it can't be read, is no text, or goes on beyond `bytes_max`.
pub fn read_text(path: &Path, bytes_max: u64) -> Result<String, String> {
    let read = || -> io::Result<String> {
        let mut text = String::new();
        bounded(File::open(path)?, bytes_max)?.read_to_string(&mut text)?;
        match text.len() as u64 > bytes_max {
            true => Err(too_long(bytes_max)),
            false => Ok(text),
        }
    };
    read().map_err(|error| format!("{}: {error}", path.display()))
}

/// What a target left in a file; none where it is no file, or larger. A pipe or a device in its place is not waited for.
pub fn read_left(path: &Path, bytes_max: u64) -> Option<Vec<u8>> {
    let file = OpenOptions::new()
        .read(true)
        .custom_flags((OFlag::O_NONBLOCK | OFlag::O_NOCTTY).bits())
        .open(path)
        .ok()?;
    if !file.metadata().ok()?.is_file() {
        return None;
    }
    let mut bytes = Vec::new();
    bounded(file, bytes_max)
        .ok()?
        .read_to_end(&mut bytes)
        .ok()?;
    (bytes.len() as u64 <= bytes_max).then_some(bytes)
}

/// The file, and one byte beyond its bound where it goes on.
fn bounded(file: File, bytes_max: u64) -> io::Result<io::Take<File>> {
    match file.metadata()?.len() > bytes_max {
        true => Err(too_long(bytes_max)),
        false => Ok(file.take(bytes_max + 1)),
    }
}

fn too_long(bytes_max: u64) -> io::Error {
    let message = format!("it goes on beyond {bytes_max} bytes, the most that it may have");
    io::Error::new(io::ErrorKind::FileTooLarge, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_no_end_is_not_read_to_it() {
        let directory = tempfile::tempdir().unwrap();
        let (file, pipe, zero) = (
            directory.path().join("file"),
            directory.path().join("pipe"),
            directory.path().join("zero"),
        );
        std::fs::write(&file, "text").unwrap();
        nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).unwrap();
        std::os::unix::fs::symlink("/dev/zero", &zero).unwrap();
        assert_eq!(read_text(&file, 4), Ok("text".into()));
        assert_eq!(read_left(&file, 4), Some(b"text".to_vec()));
        for (path, bytes_max) in [(&file, 3), (&zero, 1 << 20)] {
            let told = read_text(path, bytes_max).unwrap_err();
            assert!(told.contains("it goes on beyond"), "{told}");
        }
        for path in [&pipe, &zero, &directory.path().to_owned()] {
            assert_eq!(read_left(path, 4), None, "{}", path.display());
        }
        assert_eq!(read_left(&file, 3), None);
    }
}
