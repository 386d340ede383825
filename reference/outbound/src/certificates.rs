//! Checks that the CA certificates named by the environment can be read: the code that loads them reads each file to its end.

use std::ffi::OsStr;
use std::fs::{self, Metadata};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

const FILE: &str = "SSL_CERT_FILE";
const DIRECTORY: &str = "SSL_CERT_DIR";
/// Maximum bytes of a file, and of all files of a directory.
const BYTES_MAX: u64 = 16 << 20;
/// Maximum entries of a directory: several times what a system has.
const ENTRIES_MAX: usize = 10_000;
/// A file that is always empty.
const DEV_NULL: &str = "/dev/null";

/// Certificates named by the environment that cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("{variable}: cannot use {}: {fault}", path.display())]
pub struct CertificateFault {
    variable: &'static str,
    path: PathBuf,
    fault: PathFault,
}

#[derive(Debug, PartialEq, Eq, thiserror::Error)]
enum PathFault {
    #[error("it is no regular file")]
    NotRegular,
    #[error("it has more than {ENTRIES_MAX} entries, the most that it may have")]
    Entries,
    #[error("it goes on beyond {BYTES_MAX} bytes, the most that it may have")]
    Bytes,
}

/// Checks that the files named by `SSL_CERT_FILE` and `SSL_CERT_DIR` can be read to their end. A missing or empty file is no fault
/// here: it contains no certificates.
///
/// # Errors
/// The variable and the path.
pub fn check_certificates() -> Result<(), CertificateFault> {
    if let Some(path) = std::env::var_os(FILE) {
        check(FILE, &path, file)?;
    }
    let directories = std::env::var_os(DIRECTORY).unwrap_or_default();
    for path in std::env::split_paths(&directories) {
        check(DIRECTORY, path.as_os_str(), directory)?;
    }
    Ok(())
}

fn check(
    variable: &'static str,
    path: &OsStr,
    check: fn(&Path) -> Result<(), PathFault>,
) -> Result<(), CertificateFault> {
    check(Path::new(path)).map_err(|fault| CertificateFault {
        variable,
        path: path.into(),
        fault,
    })
}

fn file(path: &Path) -> Result<(), PathFault> {
    match fs::metadata(path) {
        Ok(data) if data.is_file() => check_size(data.len()),
        Ok(data) if !is_dev_null(&data) => Err(PathFault::NotRegular),
        _ => Ok(()),
    }
}

/// Ignores entries that are not regular files, as the loader does.
fn directory(path: &Path) -> Result<(), PathFault> {
    let Ok(entries) = fs::read_dir(path) else {
        return Ok(());
    };
    let mut bytes = 0_u64;
    for (count, entry) in entries.flatten().enumerate() {
        if count == ENTRIES_MAX {
            return Err(PathFault::Entries);
        }
        let data = fs::metadata(entry.path());
        let data = data.ok().filter(Metadata::is_file);
        bytes = bytes.saturating_add(data.map_or(0, |data| data.len()));
    }
    check_size(bytes)
}

fn is_dev_null(data: &Metadata) -> bool {
    fs::metadata(DEV_NULL).is_ok_and(|nothing| nothing.rdev() == data.rdev())
}

fn check_size(bytes: u64) -> Result<(), PathFault> {
    match bytes {
        ..=BYTES_MAX => Ok(()),
        _ => Err(PathFault::Bytes),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_bounded_certificate_files_are_read() {
        let held = tempfile::tempdir().unwrap();
        let path = held.path().join("a.pem");
        let long = fs::File::create(&path).unwrap();
        assert_eq!((file(&path), directory(held.path())), (Ok(()), Ok(())));
        long.set_len(BYTES_MAX + 1).unwrap();
        for told in [file(&path), directory(held.path())] {
            assert_eq!(told, Err(PathFault::Bytes));
        }
        for other in [held.path(), Path::new("/dev/zero")] {
            assert_eq!(file(other), Err(PathFault::NotRegular));
        }
        for none in ["/dev/null", "/nowhere"] {
            assert_eq!(file(Path::new(none)), Ok(()), "{none}");
            assert_eq!(directory(Path::new(none)), Ok(()), "{none}");
        }
        std::os::unix::fs::symlink("/dev/zero", held.path().join("b.pem")).unwrap();
        long.set_len(1).unwrap();
        assert_eq!(directory(held.path()), Ok(()), "a device is passed over");
    }
}
