//! Builds the reference implementation with cargo and locates its executable.
//! This is all that the harness knows of it: the package, the command `start`, and that it is built, not linked.

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

/// The command that starts the server, with the executable at `path`.
pub fn command(path: &Path) -> Vec<String> {
    vec![path.to_string_lossy().into_owned(), SERVE.to_owned()]
}

/// Builds the reference with this harness's profile, so that common dependencies are already built, and returns the executable.
///
/// # Errors
/// A message, when there is no workspace here or the build fails; cargo's own messages go to standard error.
pub fn build() -> Result<PathBuf, String> {
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
pub fn release() -> Result<PathBuf, String> {
    executable(PACKAGE, BINARY, RELEASE)
}

/// Builds `binary` of the workspace's `package` and returns the executable.
///
/// # Errors
/// As [`build`].
pub fn executable(package: &str, binary: &str, profile: &str) -> Result<PathBuf, String> {
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
        .map_err(|error| format!("cargo could not be started: {error}"))?;
    if !output.status.success() {
        return Err(format!(
            "{binary} could not be built in {}; cargo's messages stand above",
            root.display()
        ));
    }
    String::from_utf8_lossy(&output.stdout)
        .lines()
        .filter_map(|line| serde_json::from_str::<Message>(line).ok())
        .find_map(|message| message.executable)
        .ok_or_else(|| format!("cargo built no executable of package {package}"))
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
pub fn workspace() -> Result<PathBuf, String> {
    let here = std::env::current_dir().ok();
    here.iter()
        .flat_map(|here| here.ancestors())
        .find(|directory| directory.join("reference/ptc/Cargo.toml").is_file())
        .map(Path::to_path_buf)
        .ok_or_else(|| {
            "no target is named, and there is no workspace with the reference around here"
                .to_owned()
        })
}
