//! The catalog text inside tool descriptions: inline, lazy, or automatic. Knows scrubbed tools only.

use ptc_protocol::limits::upstream_calls;

use crate::prose::{LISTED_GRAPHEMES_MAX, listed, one_line};
use crate::tool::Toolset;

/// First line of every catalog.
const HEADING: &str = "Configured upstream MCP servers:";

/// How much of the catalog a description shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum CatalogMode {
    /// Inline if that fits the thresholds, else inline without descriptions if that fits, else lazy.
    #[default]
    Auto,
    /// Every tool, however many there are.
    Inline,
    Lazy,
}

impl CatalogMode {
    /// The names on the command line.
    pub const NAMES: &[(&str, CatalogMode)] = &[
        ("auto", Self::Auto),
        ("inline", Self::Inline),
        ("lazy", Self::Lazy),
    ];
}

/// The limits up to which `auto` is inline.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Thresholds {
    /// Maximum characters of the rendered text.
    pub chars: usize,
    /// Maximum tools of all upstreams together.
    pub tools: usize,
}

impl Thresholds {
    /// The defaults.
    pub const DEFAULT: Thresholds = Thresholds {
        chars: upstream_calls::INLINE_CHARS_MAX,
        tools: upstream_calls::INLINE_TOOLS_MAX,
    };
}

impl Default for Thresholds {
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// One server as the catalog sees it.
pub(crate) struct CatalogServer<'a> {
    pub name: &'a str,
    pub description: &'a str,
    pub capabilities: &'a [String],
    /// `None` while not loaded.
    pub tools: Option<&'a Toolset>,
}

/// The catalog text; empty without servers. `servers` must be sorted by name.
pub(crate) fn render(
    servers: &[CatalogServer<'_>],
    mode: CatalogMode,
    thresholds: Thresholds,
) -> String {
    if servers.is_empty() {
        return String::new();
    }
    match mode {
        CatalogMode::Inline => inline(servers, true),
        CatalogMode::Lazy => lazy(servers),
        CatalogMode::Auto => {
            let tools: Option<usize> = servers
                .iter()
                .map(|server| server.tools.map(|tools| tools.tools().len()))
                .sum();
            if tools.is_none_or(|count| count > thresholds.tools) {
                return lazy(servers);
            }
            [true, false]
                .into_iter()
                .map(|descriptions| inline(servers, descriptions))
                .find(|text| text.chars().count() <= thresholds.chars)
                .unwrap_or_else(|| lazy(servers))
        }
    }
}

fn lazy(servers: &[CatalogServer<'_>]) -> String {
    let names: Vec<&str> = servers.iter().map(|server| server.name).collect();
    format!("{HEADING} {}", names.join(", "))
}

fn inline(servers: &[CatalogServer<'_>], descriptions: bool) -> String {
    let mut out = HEADING.to_owned();
    for server in servers {
        out.push_str("\n- ");
        out.push_str(server.name);
        out.push(':');
        let description = one_line(server.description, LISTED_GRAPHEMES_MAX);
        let description = description
            .strip_suffix("...")
            .map_or_else(|| description.trim_end_matches('.'), |_| &description);
        if !description.is_empty() {
            out.push_str(&format!(" {description}."));
        }
        let Some(tools) = server.tools else {
            out.push_str(" Catalog loads on first use.");
            continue;
        };
        out.push_str(&format!(" {} tools.", tools.tools().len()));
        let capabilities: Vec<String> = server
            .capabilities
            .iter()
            .map(|word| one_line(word, LISTED_GRAPHEMES_MAX))
            .collect();
        if !capabilities.is_empty() {
            out.push_str(&format!(" {}.", capabilities.join(", ")));
        }
        if !tools.tools().is_empty() {
            out.push_str("\n  Tools:");
        }
        for tool in tools.tools() {
            let line = if descriptions {
                listed(&tool.name, &tool.description)
            } else {
                tool.name.clone()
            };
            out.push_str(&format!("\n  - {line}"));
        }
    }
    out
}
