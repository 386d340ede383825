//! What a crate must never depend on, directly or through others. Reads what cargo says about the workspace;
//! dependencies of tests don't count.

use std::collections::{BTreeSet, HashMap};
use std::process::Command;

use serde_json::Value;

use super::Project;

/// A crate, and what must not be among its dependencies; `*` at the end stands for anything.
struct Boundary {
    package: &'static str,
    never: &'static [&'static str],
    why: &'static str,
}

const BOUNDARIES: &[Boundary] = &[
    Boundary {
        package: "ptc-lang",
        never: &[
            "axum",
            "getrandom",
            "hyper",
            "mio",
            "nix",
            "ptc-*",
            "rand",
            "reqwest",
            "rustix",
            "socket2",
            "tempfile",
            "tokio",
        ],
        why: "the language is pure",
    },
    Boundary {
        package: "conformance",
        never: &["ptc-*"],
        why: "the judge shares no code with the judged",
    },
    Boundary {
        package: "ptc-secrets",
        never: &["ptc-*", "reqwest", "tokio"],
        why: "credentials are the lowest crate",
    },
    Boundary {
        package: "ptc-rpc",
        never: &["ptc-*", "tokio"],
        why: "frames are bytes, not transports",
    },
    Boundary {
        package: "ptc-protocol",
        never: &[
            "ptc-agent",
            "ptc-rpc",
            "ptc-secrets",
            "ptc-server",
            "ptc-upstream",
            "tokio",
        ],
        why: "the wire format stands on the language alone",
    },
    Boundary {
        package: "ptc-upstream",
        never: &["ptc-agent", "ptc-server"],
        why: "upstreams know nothing of the server's side",
    },
    Boundary {
        package: "ptc-agent",
        never: &["ptc-server", "ptc-upstream"],
        why: "agents know nothing of MCP",
    },
];

pub(super) fn check(project: &Project) -> Result<Vec<String>, String> {
    let output = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
        .args(["metadata", "--format-version", "1", "--locked"])
        .current_dir(&project.root)
        .output()
        .map_err(|error| format!("cargo metadata: {error}"))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(format!("cargo metadata: {said}"));
    }
    let metadata: Value = serde_json::from_slice(&output.stdout)
        .map_err(|error| format!("cargo metadata: {error}"))?;
    let graph = Graph::read(&metadata);
    let mut wrong = Vec::new();
    for boundary in BOUNDARIES {
        let Some(reached) = graph.reached(boundary.package) else {
            wrong.push(format!("there is no package {}", boundary.package));
            continue;
        };
        for name in reached {
            if boundary.never.iter().any(|pattern| means(pattern, name)) {
                let Boundary { package, why, .. } = boundary;
                wrong.push(format!("{package} depends on {name}: {why}"));
            }
        }
    }
    Ok(wrong)
}

fn means(pattern: &str, name: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(start) => name.starts_with(start),
        None => name == pattern,
    }
}

/// Who depends on whom outside of tests.
struct Graph<'m> {
    names: HashMap<&'m str, &'m str>,
    edges: HashMap<&'m str, Vec<&'m str>>,
}

impl<'m> Graph<'m> {
    fn read(metadata: &'m Value) -> Graph<'m> {
        let all = |value: &'m Value| value.as_array().into_iter().flatten();
        let names = all(&metadata["packages"])
            .filter_map(|package| Some((package["id"].as_str()?, package["name"].as_str()?)))
            .collect();
        let mut edges: HashMap<&str, Vec<&str>> = HashMap::new();
        for node in all(&metadata["resolve"]["nodes"]) {
            let targets = all(&node["deps"]).filter(|dependency| {
                all(&dependency["dep_kinds"]).any(|kind| kind["kind"].is_null())
            });
            let targets = targets.filter_map(|dependency| dependency["pkg"].as_str());
            if let Some(id) = node["id"].as_str() {
                edges.insert(id, targets.collect());
            }
        }
        Graph { names, edges }
    }

    /// The names of everything that `package` depends on.
    fn reached(&self, package: &str) -> Option<BTreeSet<&'m str>> {
        let (start, _) = self.names.iter().find(|(_, name)| **name == package)?;
        let mut seen = BTreeSet::new();
        let mut waiting = vec![*start];
        while let Some(id) = waiting.pop() {
            for next in self.edges.get(id).into_iter().flatten() {
                if seen.insert(*next) {
                    waiting.push(next);
                }
            }
        }
        let names = seen.iter().filter_map(|id| self.names.get(id).copied());
        Some(names.collect())
    }
}
