//! Rewrites `golden/`. Writes nowhere else, in particular not to `spec/`.

use conformance::target::reference::cargo;

use crate::golden::FILES;
use anyhow::{Context, Result, bail};

/// Writes every golden file, and reports which ones changed. Snapshots are written by the tests that own them, which are called `golden`.
///
/// # Errors
/// When a file can't be rendered or written.
pub fn run() -> Result<()> {
    let suite = crate::suite()?;
    let directory = crate::root().join("golden");
    crate::guarded_fs::create_dir_all(&directory)?;
    for file in FILES {
        let path = directory.join(file.name);
        let text = (file.render)(&suite)?;
        if std::fs::read_to_string(&path).ok().as_deref() == Some(&text) {
            continue;
        }
        crate::guarded_fs::write(&path, text)?;
        eprintln!("golden/{} changed", file.name);
    }
    let status = cargo()
        .args(["test", "--quiet", "--workspace", "--test", "golden"])
        .current_dir(crate::root())
        .env("INSTA_UPDATE", "always")
        .status()
        .context("cargo test")?;
    if status.success() {
        Ok(())
    } else {
        bail!("the snapshots' tests: {status}")
    }
}
