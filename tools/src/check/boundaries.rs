//! What a crate must never depend on, directly or through others, and which rooms of the server a room may know. Reads what cargo
//! says of each crate, where dependencies of tests don't count, and the paths that the server's files name.

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

/// The rooms of `reference/server/src`, from the ground up: each knows those before it alone, so that none stand in a circle.
const ROOMS: &[&str] = &[
    "clock",
    "digest",
    "token",
    "version",
    "settings",
    "render",
    "call",
    "diagnostics",
    "agentic",
    "upstreams",
    "sessions",
    "evaluation",
    "server",
    "mcp",
    "transport",
    "facts",
    "commands",
    "checks",
];
const SERVER: &str = "reference/server/src";
/// What stands on all rooms.
const FRONT: [&str; 2] = ["lib.rs", "main.rs"];

pub(super) fn check(project: &Project) -> Result<Vec<String>, String> {
    let mut wrong = rooms(project)?;
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

/// Files of the server that name a room above their own, or one that has no place in the order.
fn rooms(project: &Project) -> Result<Vec<String>, String> {
    let root = project.root.join(SERVER);
    let mut wrong = Vec::new();
    let mut left = vec![root.clone()];
    while let Some(directory) = left.pop() {
        let told = |error| format!("{}: {error}", directory.display());
        for entry in std::fs::read_dir(&directory).map_err(told)? {
            let path = entry.map_err(told)?.path();
            if path.is_dir() {
                left.push(path);
                continue;
            }
            let name = path.strip_prefix(&root).unwrap_or(&path).to_string_lossy();
            if path.extension().is_some_and(|extension| extension == "rs")
                && !FRONT.contains(&name.as_ref())
            {
                let text = std::fs::read_to_string(&path).map_err(told)?;
                wrong.extend(climbs(&name, &text));
            }
        }
    }
    wrong.sort();
    Ok(wrong)
}

/// What is wrong with the rooms that the file `name` names.
fn climbs(name: &str, text: &str) -> BTreeSet<String> {
    let floor = |room: &str| ROOMS.iter().position(|known| *known == room);
    let room = name.split(['/', '.']).next().unwrap_or_default();
    let Some(own) = floor(room) else {
        return BTreeSet::from([format!(
            "{SERVER}/{name}: `{room}` has no place among the rooms"
        )]);
    };
    let named = text.split("crate::").skip(1).filter_map(|rest| {
        rest.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'))
            .next()
    });
    named
        .filter(|other| floor(other).is_none_or(|floor| floor > own))
        .map(|other| format!("{SERVER}/{name}: `{room}` must not know `{other}`"))
        .collect()
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_room_knows_one_above_it() {
        let found = |name: &str, text: &str| climbs(name, text).len();
        assert_eq!(found("mcp/tools/mod.rs", "use crate::server::Server;"), 0);
        assert_eq!(found("server.rs", "use crate::mcp::tools;"), 1);
        assert_eq!(found("render/reply.rs", "x(crate::server::NAME)"), 1);
        assert_eq!(found("settings/mod.rs", "use crate::settings::flags;"), 0);
        assert_eq!(found("settings/mod.rs", "use crate::attic::Chest;"), 1);
        assert_eq!(found("attic.rs", ""), 1);
    }
}
