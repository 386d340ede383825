//! Every source file must open with `//!`, and have a meaningful name. Knows nothing of the contents.

use super::Project;
use crate::guarded_fs::{files_below, read_to_string};
use anyhow::Result;

/// Directories that contain Rust.
const DIRECTORIES: &[&str] = &["conformance", "fuzz", "reference", "tools"];
/// File names without a meaning.
const EMPTY_NAMES: &[&str] = &["common", "helpers", "manager", "misc", "util", "utils"];

pub(super) fn check(project: &Project) -> Result<Vec<String>> {
    let mut wrong = Vec::new();
    for directory in DIRECTORIES {
        let directory = project.root.join(directory);
        if !directory.is_dir() {
            continue;
        }
        for path in files_below(&directory, "rs")? {
            let name = path.strip_prefix(&project.root).unwrap_or(&path).display();
            let text = read_to_string(&path)?;
            if !text.starts_with("//! ") {
                wrong.push(format!("{name}: expected `//!` and what the file is"));
            }
            let stem = path.file_stem().unwrap_or_default().to_string_lossy();
            if EMPTY_NAMES.contains(&&*stem) {
                wrong.push(format!("{name}: expected a name that says what is in it"));
            }
        }
    }
    // The specification is shared by all implementations.
    for path in files_below(&project.root.join("spec"), "rs")? {
        wrong.push(format!("{}: no Rust in spec/", path.display()));
    }
    Ok(wrong)
}
