//! Reads named files with a size and time limit: an endless device, a log of gigabytes or a pipe that nobody writes to is a mistake and is
//! reported as one. Knows nothing of what the files contain.

use std::fmt;
use std::fs::File;
use std::io::{ErrorKind, Read};
use std::os::unix::fs::{FileTypeExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::fs::OFlags;
use zeroize::Zeroizing;

/// Maximum time for reading a pipe or a device to its end.
pub const READ_TIME_MAX: Duration = Duration::from_secs(10);
/// Maximum bytes of a settings file: options, keys, variables.
pub const SETTINGS_BYTES_MAX: u64 = 1 << 20;
/// Maximum bytes of a program.
pub const PROGRAM_BYTES_MAX: u64 = 16 << 20;
/// Maximum bytes of data for programs, and of recordings.
pub const DATA_BYTES_MAX: u64 = 64 << 20;

/// Pause before a source without available data is read again.
const PAUSE: Duration = Duration::from_millis(2);
/// Bytes read at once.
const PIECE_BYTES: usize = 64 << 10;

/// Why a file was not read.
#[derive(Debug)]
pub enum FileError {
    Io(std::io::Error),
    Directory,
    /// It exceeds `bytes_max`; `bytes` is its size, where known.
    TooLong {
        bytes: Option<u64>,
        bytes_max: u64,
    },
    /// A pipe or a device that did not end in time.
    Endless,
    NotText,
}

/// In lower-case words, without the operating system's error number.
impl fmt::Display for FileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FileError::Io(error) => f.write_str(&match error.kind() {
                ErrorKind::NotFound => "no such file or directory".to_owned(),
                ErrorKind::PermissionDenied => "permission denied".to_owned(),
                ErrorKind::IsADirectory => "illegal operation on a directory".to_owned(),
                _ => {
                    let text = error.to_string();
                    let words = text.split(" (os error").next();
                    words.unwrap_or(&text).to_lowercase()
                }
            }),
            FileError::Directory => f.write_str("illegal operation on a directory"),
            FileError::TooLong { bytes, bytes_max } => match bytes {
                Some(bytes) => write!(f, "file is {bytes} bytes, exceeding {bytes_max}"),
                None => write!(
                    f,
                    "it goes on beyond {bytes_max} bytes, the most that it may have"
                ),
            },
            FileError::Endless => write!(
                f,
                "it is no regular file, and had not ended within {} s",
                READ_TIME_MAX.as_secs()
            ),
            FileError::NotText => f.write_str("file is not UTF-8 text"),
        }
    }
}

impl std::error::Error for FileError {}

/// The bytes of the file at `path`, at most `bytes_max` of them. They are wiped on drop.
///
/// # Errors
/// Why the file was not read.
pub fn read_file(path: impl AsRef<Path>, bytes_max: u64) -> Result<Zeroizing<Vec<u8>>, FileError> {
    read_file_in(path.as_ref(), bytes_max, READ_TIME_MAX)
}

fn read_file_in(
    path: &Path,
    bytes_max: u64,
    time: Duration,
) -> Result<Zeroizing<Vec<u8>>, FileError> {
    // Otherwise opening a pipe would wait for a writer, and a terminal would become this process's controlling terminal.
    let flags = OFlags::NONBLOCK | OFlags::NOCTTY;
    let file = File::options()
        .read(true)
        .custom_flags(flags.bits().cast_signed())
        .open(path)
        .map_err(FileError::Io)?;
    let meta = file.metadata().map_err(FileError::Io)?;
    if meta.is_dir() {
        return Err(FileError::Directory);
    }
    if meta.len() > bytes_max {
        return Err(FileError::TooLong {
            bytes: Some(meta.len()),
            bytes_max,
        });
    }
    // Allocated in full: a buffer that grows leaves copies of its bytes behind.
    let room = usize::try_from(meta.len()).unwrap_or(0);
    let until = (!meta.is_file()).then(|| Instant::now() + time);
    let is_pipe = meta.file_type().is_fifo();
    read_within(file, room, bytes_max, |got| {
        let Some(until) = until else {
            return Ok(Next::Ends);
        };
        if Instant::now() >= until {
            return Err(FileError::Endless);
        }
        // A pipe that no writer has opened yet looks like one that all writers have closed.
        let begins = is_pipe && got == Some(0);
        Ok(match got {
            Some(_) if !begins => Next::Ends,
            Some(_) | None => {
                std::thread::sleep(PAUSE);
                Next::Read
            }
        })
    })
}

/// The text of the file at `path`.
///
/// # Errors
/// Why the file was not read.
pub fn read_text(path: impl AsRef<Path>, bytes_max: u64) -> Result<String, FileError> {
    text_of(&read_file(path, bytes_max)?)
}

/// The text of standard input, however long that takes.
///
/// # Errors
/// Why standard input was not read.
pub fn read_standard_input(bytes_max: u64) -> Result<String, FileError> {
    let input = std::io::stdin().lock();
    text_of(&read_within(input, 0, bytes_max, |got| {
        Ok(match got {
            Some(_) => Next::Ends,
            None => {
                std::thread::sleep(PAUSE);
                Next::Read
            }
        })
    })?)
}

fn text_of(bytes: &[u8]) -> Result<String, FileError> {
    let text = std::str::from_utf8(bytes).map_err(|_| FileError::NotText)?;
    Ok(text.to_owned())
}

/// What to do about a source that has nothing to read at the moment.
enum Next {
    Read,
    Ends,
}

/// Reads `source` to its end. `dry` decides what to do when there is nothing to read; its argument is the number of bytes read so far
/// where the source seems to have ended, `None` where more may come.
fn read_within(
    mut source: impl Read,
    room: usize,
    bytes_max: u64,
    dry: impl Fn(Option<usize>) -> Result<Next, FileError>,
) -> Result<Zeroizing<Vec<u8>>, FileError> {
    let mut bytes = Zeroizing::new(Vec::with_capacity(room));
    let mut piece = Zeroizing::new(vec![0; PIECE_BYTES]);
    loop {
        let next = match source.read(&mut piece) {
            Ok(0) => dry(Some(bytes.len()))?,
            Ok(count) => {
                bytes.extend_from_slice(&piece[..count]);
                Next::Read
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => Next::Read,
            Err(error) if error.kind() == ErrorKind::WouldBlock => dry(None)?,
            Err(error) => return Err(FileError::Io(error)),
        };
        if let Next::Ends = next {
            return Ok(bytes);
        }
        if bytes.len() as u64 > bytes_max {
            return Err(FileError::TooLong {
                bytes: None,
                bytes_max,
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{CWD, FileType, Mode, mknodat};
    use std::io::Write as _;

    #[test]
    fn endless_file_is_rejected_in_time() {
        let endless = read_file("/dev/zero", 1 << 20).unwrap_err().to_string();
        assert!(endless.contains("beyond 1048576 bytes"), "{endless}");
        assert!(matches!(read_file("/dev", 9), Err(FileError::Directory)));
        assert_eq!(read_text("/dev/null", 9).unwrap(), "");
    }

    #[test]
    fn pipe_is_read_to_its_end() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("pipe");
        let mode = Mode::RUSR | Mode::WUSR;
        mknodat(CWD, &path, FileType::Fifo, mode, 0).unwrap();
        let writes = path.clone();
        let writer = std::thread::spawn(move || {
            let mut pipe = File::options().write(true).open(writes).unwrap();
            pipe.write_all(b"one ").unwrap();
            std::thread::sleep(Duration::from_millis(50));
            pipe.write_all(b"two").unwrap();
        });
        assert_eq!(read_text(&path, 7).unwrap(), "one two");
        writer.join().unwrap();
        let nobody = read_file_in(&path, 7, Duration::from_millis(20));
        assert!(matches!(nobody, Err(FileError::Endless)));
    }

    #[test]
    fn file_of_exactly_the_limit_is_accepted() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        std::fs::write(&path, "12345").unwrap();
        assert_eq!(read_text(&path, 5).unwrap(), "12345");
        let refused = read_text(&path, 4).unwrap_err().to_string();
        assert_eq!(refused, "file is 5 bytes, exceeding 4");
        std::fs::write(&path, b"\xff").unwrap();
        assert!(matches!(read_text(&path, 5), Err(FileError::NotText)));
    }
}
