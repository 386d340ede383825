//! What a crate must never depend on, directly or through others. Reads what cargo says of each;
//! dependencies of tests don't count.

use std::collections::BTreeSet;

use conformance::target::reference::cargo;

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
    let mut wrong = Vec::new();
    for Boundary {
        package,
        never,
        why,
    } in BOUNDARIES
    {
        for name in dependencies(project, package)? {
            if never.iter().any(|pattern| means(pattern, &name)) {
                wrong.push(format!("{package} depends on {name}: {why}"));
            }
        }
    }
    Ok(wrong)
}

/// The names of everything that `package` is built of when it is built alone: what others ask of the same crates doesn't count.
fn dependencies(project: &Project, package: &str) -> Result<BTreeSet<String>, String> {
    let output = cargo()
        .args(["tree", "--locked", "--edges", "normal", "--prefix", "none"])
        .args(["--package", package])
        .current_dir(&project.root)
        .output()
        .map_err(|error| format!("cargo tree: {error}"))?;
    let said = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() {
        return Err(format!("cargo tree: {said}"));
    }
    let tree = String::from_utf8_lossy(&output.stdout).into_owned();
    // The first line is the package itself.
    let names = tree
        .lines()
        .skip(1)
        .filter_map(|line| line.split(' ').next());
    Ok(names.map(str::to_owned).collect())
}

fn means(pattern: &str, name: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(start) => name.starts_with(start),
        None => name == pattern,
    }
}
