//! Rewrites `golden/`. Writes nowhere else, in particular not to `spec/`.

use conformance::target::reference::cargo;

use crate::golden::FILES;

/// Writes every golden file, and reports which ones changed. Snapshots are written by the tests that own them, which are called `golden`.
///
/// # Errors
/// When a file can't be rendered or written.
pub fn run() -> Result<(), String> {
    let suite = crate::suite()?;
    let directory = crate::root().join("golden");
    crate::guarded_fs::create_dir_all(&directory)
        .map_err(|error| format!("{}: {error}", directory.display()))?;
    for file in FILES {
        let path = directory.join(file.name);
        let text = (file.render)(&suite)?;
        if std::fs::read_to_string(&path).ok().as_deref() == Some(&text) {
            continue;
        }
        crate::guarded_fs::write(&path, text)
            .map_err(|error| format!("{}: {error}", path.display()))?;
        eprintln!("golden/{} changed", file.name);
    }
    let status = cargo()
        .args(["test", "--quiet", "--workspace", "--test", "golden"])
        .current_dir(crate::root())
        .env("INSTA_UPDATE", "always")
        .status()
        .map_err(|error| format!("cargo test: {error}"))?;
    if status.success() {
        Ok(())
    } else {
        Err(format!("the snapshots' tests: {status}"))
    }
}
