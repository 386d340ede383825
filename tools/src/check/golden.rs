//! `golden/` must be up to date and contain no other files.

use super::Project;
use crate::golden::{FILES, RARELY_RENDERED};
use anyhow::Result;

pub(super) fn check(project: &Project) -> Result<Vec<String>> {
    let directory = project.root.join("golden");
    let mut wrong = Vec::new();
    for file in FILES {
        let text = (file.render)(&project.suite)?;
        match std::fs::read_to_string(directory.join(file.name)) {
            Err(error) => wrong.push(format!("golden/{}: {error:#}", file.name)),
            Ok(kept) if kept != text => wrong.push(format!(
                "golden/{} has drifted at line {}; `cargo tool bless` rewrites it",
                file.name,
                first_difference(&kept, &text)
            )),
            Ok(_) => {}
        }
    }
    // Directories contain snapshots, which are checked by the tests that own them.
    let entries = std::fs::read_dir(&directory)
        .into_iter()
        .flatten()
        .flatten();
    for path in entries
        .map(|entry| entry.path())
        .filter(|path| path.is_file())
    {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if !FILES.iter().any(|file| file.name == name) && !RARELY_RENDERED.contains(&&*name) {
            wrong.push(format!("golden/{name}: nothing makes it"));
        }
    }
    Ok(wrong)
}

/// The number of the first line that differs, from 1.
fn first_difference(a: &str, b: &str) -> usize {
    let same = a.lines().zip(b.lines()).take_while(|(a, b)| a == b);
    same.count() + 1
}
