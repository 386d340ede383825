//! How the server under test must be started for a case. Describes what is wanted; how a given
//! server is configured that way is the launch template's business.

use std::collections::BTreeSet;

use indexmap::IndexMap;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::json::Json;

/// The contents of a `toml target` block. A block applies to its section and the sections below it; an
/// inner block extends the outer one and takes precedence where both set the same thing.
///
/// Texts in `flags`, `env`, `files`, `upstreams` and `peers` may use `{{dir}}` (the case's own
/// scratch directory) and `{{peer.NAME.command}}`, `{{peer.NAME.url}}` (how to reach a peer).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct TargetSpec {
    /// Capabilities that the target must have; otherwise the case counts as not claimed.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub requires: BTreeSet<String>,
    /// The transports that the case can run over.
    #[serde(skip_serializing_if = "Transport::is_any")]
    pub transport: Transport,
    /// Options by their logical name: the flag's name without dashes (`max_program_bytes = 10`).
    /// A boolean is a switch, a list repeats the flag.
    #[serde(skip_serializing_if = "IndexMap::is_empty")]
    pub flags: IndexMap<String, Json>,
    /// Environment variables in addition to the runner's base set.
    #[serde(skip_serializing_if = "IndexMap::is_empty")]
    pub env: IndexMap<String, String>,
    /// Files in the scratch directory, by relative path.
    #[serde(skip_serializing_if = "IndexMap::is_empty")]
    pub files: IndexMap<String, String>,
    /// The upstreams configuration, in the form that the server reads.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub upstreams: Option<Json>,
    /// Upstream peers that the harness simulates, by name.
    #[serde(skip_serializing_if = "IndexMap::is_empty")]
    pub peers: IndexMap<String, Json>,
}

/// The transports that a case can run over.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Transport {
    /// Whichever transport the run uses.
    #[default]
    Any,
    /// Only stdio.
    Stdio,
    /// Only HTTP.
    Http,
}

impl Transport {
    fn is_any(&self) -> bool {
        *self == Transport::Any
    }
}

impl TargetSpec {
    /// Whether the block asks for nothing, so that any running server will do.
    pub fn is_default(&self) -> bool {
        *self == TargetSpec::default()
    }

    /// Merges this block into an outer one.
    #[must_use]
    pub fn within(&self, outer: &TargetSpec) -> TargetSpec {
        let mut merged = outer.clone();
        merged.requires.extend(self.requires.iter().cloned());
        if self.transport != Transport::Any {
            merged.transport = self.transport;
        }
        overlay(&mut merged.flags, &self.flags);
        overlay(&mut merged.env, &self.env);
        overlay(&mut merged.files, &self.files);
        overlay(&mut merged.peers, &self.peers);
        if self.upstreams.is_some() {
            merged.upstreams.clone_from(&self.upstreams);
        }
        merged
    }
}

fn overlay<V: Clone>(outer: &mut IndexMap<String, V>, inner: &IndexMap<String, V>) {
    for (key, value) in inner {
        outer.insert(key.clone(), value.clone());
    }
}
