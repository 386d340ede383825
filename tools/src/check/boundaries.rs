//! Dependencies that a crate must not have, directly or indirectly, and the order in which the modules of the server may use each other.
//! Reads cargo's list of each crate's dependencies, without those for tests, and all paths in the server's files, in any notation.

use std::collections::BTreeSet;

use syn::visit::Visit;
use syn::{ItemMod, ItemUse, UseTree};

use super::{Project, features};
use anyhow::Result;

/// A crate, and the names that must not be among its dependencies; `*` at the end matches anything.
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
            "ptc-agent",
            "ptc-protocol",
            "ptc-rpc",
            "ptc-secrets",
            "ptc-server",
            "ptc-upstream",
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
        never: &["ptc", "ptc-*"],
        why: "the judge shares no code with the judged",
    },
    Boundary {
        package: "ptc-secrets",
        never: &["ptc-*", "reqwest", "tokio"],
        why: "credentials are the lowest crate",
    },
    Boundary {
        package: "ptc-outbound",
        never: &[
            "ptc-agent",
            "ptc-lang",
            "ptc-protocol",
            "ptc-rpc",
            "ptc-server",
            "ptc-upstream",
        ],
        why: "connections know nothing of what is sent",
    },
    Boundary {
        package: "ptc-json",
        never: &["ptc-*", "serde_json", "tokio"],
        why: "JSON text stands below everything that speaks it",
    },
    Boundary {
        package: "ptc-rpc",
        never: &[
            "ptc-lang",
            "ptc-protocol",
            "ptc-secrets",
            "ptc-server",
            "tokio",
        ],
        why: "frames are bytes, not transports",
    },
    Boundary {
        package: "ptc-protocol",
        never: &[
            "ptc-agent",
            "ptc-rpc",
            "ptc-server",
            "ptc-upstream",
            "tokio",
        ],
        why: "the wire format knows no transport",
    },
    Boundary {
        package: "ptc-upstream",
        never: &["ptc-agent", "ptc-commands", "ptc-server"],
        why: "upstreams know nothing of the server's side",
    },
    Boundary {
        package: "ptc-agent",
        never: &["ptc-commands", "ptc-server", "ptc-upstream"],
        why: "agents know nothing of MCP",
    },
    Boundary {
        package: "ptc-server",
        never: &["anstream", "ariadne", "clap", "ptc-commands", "rustyline"],
        why: "terminals and command lines are the commands'",
    },
];

/// The top-level modules of `reference/server/src`, from the bottom up: each may use only those before it, so that none form
/// a cycle.
const MODULE_ORDER: &[&str] = &[
    "clock",
    "executor",
    "lock",
    "token",
    "version",
    "settings",
    "render",
    "admission",
    "call",
    "diagnostics",
    "agentic",
    "upstreams",
    "sessions",
    "evaluation",
    "mcp",
    "server",
    "transport",
    "start",
    "facts",
    "checks",
];
const SERVER: &str = "reference/server/src";
/// The file that may use all modules.
const ROOT_FILE: &str = "lib.rs";

pub(super) fn check(project: &Project) -> Result<Vec<String>> {
    let mut wrong = forbidden_uses(project)?;
    for Boundary {
        package,
        never,
        why,
    } in BOUNDARIES
    {
        for name in dependencies(project, package)? {
            if never.iter().any(|pattern| matches_pattern(pattern, &name)) {
                wrong.push(format!("{package} depends on {name}: {why}"));
            }
        }
    }
    Ok(wrong)
}

/// Uses of a module above the file's own, or of one that is not in the order.
fn forbidden_uses(project: &Project) -> Result<Vec<String>> {
    let root = project.root.join(SERVER);
    let mut wrong = Vec::new();
    for path in crate::guarded_fs::files_below(&root, "rs")? {
        let name = path.strip_prefix(&root).unwrap_or(&path).to_string_lossy();
        if name != ROOT_FILE {
            let text = crate::guarded_fs::read_to_string(&path)?;
            wrong.extend(forbidden_uses_in(&name, &text));
        }
    }
    wrong.sort();
    Ok(wrong)
}

/// The forbidden modules that the file `name` uses.
fn forbidden_uses_in(name: &str, text: &str) -> BTreeSet<String> {
    let position = |module: &str| MODULE_ORDER.iter().position(|known| *known == module);
    let module = name.split(['/', '.']).next().unwrap_or_default();
    let Some(own) = position(module) else {
        return BTreeSet::from([format!(
            "{SERVER}/{name}: `{module}` has no place among the rooms"
        )]);
    };
    let Ok(file) = syn::parse_file(text) else {
        return BTreeSet::from([format!("{SERVER}/{name}: it can't be read")]);
    };
    let mut used = UsedModules {
        depth: depth(name),
        modules: BTreeSet::new(),
    };
    used.visit_file(&file);
    let modules = used.modules.iter();
    modules
        .filter(|other| position(other).is_none_or(|position| position > own))
        .map(|other| format!("{SERVER}/{name}: `{module}` must not know `{other}`"))
        .collect()
}

/// The depth of a file's module below the crate's root.
fn depth(name: &str) -> usize {
    let modules = name.trim_end_matches(".rs").trim_end_matches("/mod");
    modules.split('/').count()
}

/// The top-level modules that a file uses: after `crate::`, or after as many `super::` as lead to the root; alone, in groups, in macros.
struct UsedModules {
    /// The depth of the module being visited.
    depth: usize,
    modules: BTreeSet<String>,
}

impl UsedModules {
    fn add_path<'a>(&mut self, segments: impl IntoIterator<Item = &'a str>) {
        let mut segments = segments
            .into_iter()
            .skip_while(|word| *word == "self")
            .peekable();
        let mut left = self.depth;
        if segments.next_if_eq(&"crate").is_some() {
            left = 0;
        } else if segments.peek() != Some(&"super") {
            return;
        }
        while segments.next_if_eq(&"super").is_some() {
            left = left.saturating_sub(1);
        }
        if let (0, Some(module)) = (left, segments.next()) {
            self.modules.insert(module.to_owned());
        }
    }

    fn add_tree(&mut self, around: &[String], tree: &UseTree) {
        let path = |last: &str| [around, &[last.to_owned()]].concat();
        let all = match tree {
            UseTree::Path(inner) => {
                return self.add_tree(&path(&inner.ident.to_string()), &inner.tree);
            }
            UseTree::Group(group) => {
                return group.items.iter().for_each(|it| self.add_tree(around, it));
            }
            UseTree::Name(name) => path(&name.ident.to_string()),
            UseTree::Rename(name) => path(&name.ident.to_string()),
            // A glob of the root would use more than any module may.
            UseTree::Glob(_) => path("*"),
        };
        self.add_path(all.iter().map(String::as_str));
    }
}

impl<'ast> Visit<'ast> for UsedModules {
    fn visit_item_mod(&mut self, module: &'ast ItemMod) {
        self.depth += 1;
        syn::visit::visit_item_mod(self, module);
        self.depth -= 1;
    }

    fn visit_item_use(&mut self, item: &'ast ItemUse) {
        self.add_tree(&[], &item.tree);
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let words: Vec<String> = path
            .segments
            .iter()
            .map(|it| it.ident.to_string())
            .collect();
        self.add_path(words.iter().map(String::as_str));
        syn::visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, call: &'ast syn::Macro) {
        let text = call.tokens.to_string().replace(' ', "");
        let word = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | ':');
        for path in text.split(|c| !word(c)) {
            self.add_path(path.split("::"));
        }
        syn::visit::visit_macro(self, call);
    }
}

/// The names of everything that `package` depends on when it is built alone.
fn dependencies(project: &Project, package: &str) -> Result<BTreeSet<String>> {
    let tree = features::tree(project, package, "{p}")?;
    // The first line is the package itself.
    let names = tree
        .lines()
        .skip(1)
        .filter_map(|line| line.split(' ').next());
    Ok(names.map(str::to_owned).collect())
}

fn matches_pattern(pattern: &str, name: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(start) => name.starts_with(start),
        None => name == pattern,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modules_use_only_those_below_them() {
        let found = |name: &str, text: &str| forbidden_uses_in(name, text).len();
        assert_eq!(found("server.rs", "use crate::mcp::tools;"), 0);
        assert_eq!(found("mcp/tools/mod.rs", "use crate::server::Server;"), 1);
        assert_eq!(
            found("render/reply.rs", "const X: u8 = crate::server::X;"),
            1
        );
        assert_eq!(
            found("render/reply.rs", "use crate::{clock, mcp::tools, server};"),
            2
        );
        assert_eq!(
            found("render/reply.rs", "use super::super::server::Server;"),
            1
        );
        assert_eq!(
            found("render/mod.rs", "use super::{clock, server as s};"),
            1
        );
        assert_eq!(found("render/reply.rs", "use super::server;"), 0);
        assert_eq!(
            found(
                "render.rs",
                "mod a { use super::server; use super::super::mcp; }"
            ),
            1
        );
        assert_eq!(
            found("render/mod.rs", "fn f() -> u8 { x!(super::server::X) }"),
            1
        );
        assert_eq!(found("render/mod.rs", "use super::*;"), 1);
        assert_eq!(found("settings/mod.rs", "use crate::settings::flags;"), 0);
        assert_eq!(found("settings/mod.rs", "use crate::attic::Chest;"), 1);
        assert_eq!(found("attic.rs", ""), 1);
    }
}
