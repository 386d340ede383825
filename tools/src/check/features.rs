//! The harness and the server must use the same features of their common dependencies, so that the README's first
//! command, which builds one after the other, builds no crate twice; and a released server holds no simulation and no fuzz checks. Reads
//! cargo's dependency trees of both.

use std::collections::{BTreeMap, BTreeSet};

use conformance::target::reference::cargo;

use super::Project;
use anyhow::{Context, Result, bail};

const HARNESS: &str = "conformance";
const SERVER: &str = "ptc";
/// The feature of our crates that holds what only tests and fuzzers use.
const CHECKS: &str = "checks";

pub(super) fn check(project: &Project) -> Result<Vec<String>> {
    let harness = features(project, HARNESS)?;
    let server = features(project, SERVER)?;
    let mut wrong = differences(&harness, &server);
    wrong.extend(checks(&server));
    Ok(wrong)
}

/// The crates of a server whose checks would be released with it.
fn checks(server: &Features) -> Vec<String> {
    let with_checks = server.iter().filter(|(_, sets)| {
        let mut features = sets.iter().flat_map(|set| set.split(','));
        features.any(|feature| feature == CHECKS)
    });
    with_checks
        .map(|(name, _)| {
            format!("{name} has the feature {CHECKS} in {SERVER}, which would release what only tests use")
        })
        .collect()
}

/// Each crate with the sets of features that it is built with. It has two sets if macros and programs use different features.
type Features = BTreeMap<String, BTreeSet<String>>;

fn differences(harness: &Features, server: &Features) -> Vec<String> {
    let both = harness
        .iter()
        .filter_map(|(name, of_harness)| Some((name, of_harness, server.get(name)?)));
    both.filter(|(_, harness, server)| !harness.is_subset(server) && !server.is_subset(harness))
        .map(|(name, harness, server)| {
            format!(
                "{name} is built twice: with {harness:?} for {HARNESS}, with {server:?} for {SERVER}; \
                 ask for the features of both in conformance/Cargo.toml or the workspace's"
            )
        })
        .collect()
}

fn features(project: &Project, package: &str) -> Result<Features> {
    let tree = tree(project, package, "{p}\t{f}")?;
    let mut found = Features::new();
    for line in tree.lines() {
        let (name, features) = line.split_once('\t').unwrap_or((line, ""));
        let features = features.trim_end_matches(" (*)");
        let sets = found.entry(name.to_owned()).or_default();
        sets.insert(features.to_owned());
    }
    Ok(found)
}

/// The dependencies of `package` when it is built alone, so that other packages' features don't count. One line per crate, in `format`,
/// the package itself first.
pub(super) fn tree(project: &Project, package: &str, format: &str) -> Result<String> {
    let output = cargo()
        .args(["tree", "--locked", "--prefix", "none", "--edges", "normal"])
        .args(["--format", format, "--package", package])
        .current_dir(&project.root)
        .output()
        .context("cargo tree")?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        bail!("cargo tree: {said}");
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

#[cfg(test)]
mod tests {
    use super::{Features, checks, differences};

    fn features(of: &[(&str, &[&str])]) -> Features {
        of.iter()
            .map(|(name, sets)| {
                let sets = sets.iter().map(|set| (*set).to_owned());
                ((*name).to_owned(), sets.collect())
            })
            .collect()
    }

    #[test]
    fn crate_with_different_features_is_reported() {
        let harness = features(&[("a v1", &["std"]), ("b v1", &["", "std"]), ("c v1", &[])]);
        let server = features(&[("a v1", &["std,x"]), ("b v1", &["std"])]);
        let wrong = differences(&harness, &server);
        assert_eq!(wrong.len(), 1, "{wrong:?}");
        assert!(wrong[0].starts_with("a v1 is built twice"));
    }

    #[test]
    fn released_checks_are_reported() {
        let without = features(&[("a v1", &["std", "checksum"]), ("b v1", &[])]);
        assert_eq!(checks(&without), Vec::<String>::new());
        let with = features(&[("a v1", &["std"]), ("b v1", &["checks,std"])]);
        assert_eq!(checks(&with).len(), 1);
    }
}
