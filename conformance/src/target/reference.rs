//! Builds the reference implementation with cargo and locates its executable.
//! This is all that the harness knows of it: the package, the command `start`, and that it is built, not linked.

use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde::Deserialize;

/// The package of the executable.
const PACKAGE: &str = "ptc";
/// The package's executable.
pub const BINARY: &str = "ptc";
/// The subcommand that serves the adapter protocol.
pub const TESTEE: &str = "testee";
/// The profile with which users build it.
pub const RELEASE: &str = "release";
/// The subcommand that starts the server.
const SERVE: &str = "start";

/// Why there is no executable of the reference.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    #[error("no target is named, and there is no workspace with the reference around here")]
    NoWorkspace,
    #[error("cargo could not be started: {0}")]
    NoCargo(io::Error),
    /// Cargo's own messages went to standard error.
    #[error("{binary} could not be built in {}; cargo's messages stand above", .root.display())]
    Failed { binary: String, root: PathBuf },
    #[error("cargo built no executable of package {package}")]
    NoExecutable { package: String },
}

/// The command that starts the server, with the executable at `path`.
pub fn command(path: &Path) -> Vec<String> {
    vec![path.to_string_lossy().into_owned(), SERVE.to_owned()]
}

/// Builds the reference with this harness's profile, so that common dependencies are already built, and returns the executable.
///
/// # Errors
/// When there is no workspace here or the build fails.
pub fn build() -> Result<PathBuf, BuildError> {
    let profile = if cfg!(debug_assertions) {
        "dev"
    } else {
        RELEASE
    };
    executable(PACKAGE, BINARY, profile)
}

/// Builds the reference with the users' profile and returns the executable.
///
/// # Errors
/// As [`build`].
pub fn release() -> Result<PathBuf, BuildError> {
    executable(PACKAGE, BINARY, RELEASE)
}

/// Builds `binary` of the workspace's `package` and returns the executable.
///
/// # Errors
/// As [`build`].
pub fn executable(package: &str, binary: &str, profile: &str) -> Result<PathBuf, BuildError> {
    let root = workspace()?;
    let output = cargo()
        .args([
            "build",
            "--profile",
            profile,
            "-p",
            package,
            "--bin",
            binary,
        ])
        .arg("--message-format=json-render-diagnostics")
        .current_dir(&root)
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .map_err(BuildError::NoCargo)?;
    if !output.status.success() {
        return Err(BuildError::Failed {
            binary: binary.to_owned(),
            root,
        });
    }
    String::from_utf8_lossy(&output.stdout)
        .lines()
        .filter_map(|line| serde_json::from_str::<Message>(line).ok())
        .find_map(|message| message.executable)
        .ok_or_else(|| BuildError::NoExecutable {
            package: package.to_owned(),
        })
}

/// The cargo that started this program, or the installed one.
///
/// The variables that cargo sets about the package that it runs are removed: build scripts that read them would
/// see a change with each package, and be rerun each time, together with everything that depends on them.
pub fn cargo() -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.env_remove("OUT_DIR");
    for (name, _) in std::env::vars_os() {
        let of_a_package = ["CARGO_PKG_", "CARGO_MANIFEST_"];
        if name
            .to_str()
            .is_some_and(|name| of_a_package.iter().any(|start| name.starts_with(start)))
        {
            command.env_remove(name);
        }
    }
    command
}

/// A message of cargo; only the one about the executable matters.
#[derive(Deserialize)]
struct Message {
    executable: Option<PathBuf>,
}

/// The workspace around the working directory. The place where the harness was built does not count: outside a workspace, a missing
/// target is a mistake, and the reference's verdict would be taken for another server's.
///
/// # Errors
/// [`BuildError::NoWorkspace`].
pub fn workspace() -> Result<PathBuf, BuildError> {
    let here = std::env::current_dir().ok();
    here.iter()
        .flat_map(|here| here.ancestors())
        .find(|directory| directory.join("reference/ptc/Cargo.toml").is_file())
        .map(Path::to_path_buf)
        .ok_or(BuildError::NoWorkspace)
}
