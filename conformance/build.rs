//! Lists the files of the specification so that the executable can contain the suite. Knows names only, not contents.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

fn main() {
    let root = PathBuf::from(variable("CARGO_MANIFEST_DIR")).join("../spec");
    println!("cargo::rerun-if-changed={}", root.display());
    let mut files = Vec::new();
    walk(&root, "", &mut files);
    files.sort();
    let mut text = String::from("&[\n");
    for (name, path) in files {
        let path = path.canonicalize().expect("a file of the specification");
        writeln!(text, "    ({name:?}, include_bytes!({path:?})),").expect("a String takes all");
    }
    text.push(']');
    let out = PathBuf::from(variable("OUT_DIR")).join("suite.rs");
    std::fs::write(&out, text).expect("cargo's own directory can be written to");
}

fn variable(name: &str) -> String {
    std::env::var(name).expect("cargo sets it")
}

/// Collects pages and corpus files under the names that `fixture::load` gives them.
fn walk(directory: &Path, prefix: &str, files: &mut Vec<(String, PathBuf)>) {
    for entry in std::fs::read_dir(directory).expect("a directory of the specification") {
        let entry = entry.expect("an entry of a directory");
        let name = format!("{prefix}{}", entry.file_name().to_string_lossy());
        let path = entry.path();
        if path.is_dir() {
            println!("cargo::rerun-if-changed={}", path.display());
            walk(&path, &format!("{name}/"), files);
        } else if name.ends_with(".md") || (name.starts_with("corpus/") && name.ends_with(".jsonl"))
        {
            files.push((name, path));
        }
    }
}
