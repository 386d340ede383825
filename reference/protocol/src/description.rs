//! The descriptions of `lisp_eval` for models, one constant per capability profile.
//!
//! Capabilities only: how to reuse a cache or when to use the tool is decided by the surface that shows
//! the description. Each constant is returned as it is, never assembled.

/// Where the tool is advertised, which determines what a program can reach.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Profile {
    /// The only native tool of an agent whose app tools are callable from programs.
    InProcessWithAppTools,
    /// Beside natively callable app tools, in combined text mode.
    InProcessTextMode,
    /// An MCP server whose programs see no app tools.
    McpNoTools,
}

/// Every profile with its name and description.
pub const PROFILES: &[(Profile, &str, &str)] = &[
    (
        Profile::InProcessWithAppTools,
        "in_process_with_app_tools",
        WITH_APP_TOOLS,
    ),
    (
        Profile::InProcessTextMode,
        "in_process_text_mode",
        TEXT_MODE,
    ),
    (Profile::McpNoTools, "mcp_no_tools", MCP_NO_TOOLS),
];

const WITH_APP_TOOLS: &str = "Evaluate one PTC-Lisp program in a sandbox. Suited to exact computation and to \
orchestrating tools. App tools are reachable only inside the program, as `(tool/name {...})`; `lisp_eval` is the \
only tool that can be called natively.";

const TEXT_MODE: &str = "Evaluate one PTC-Lisp program in a sandbox. Suited to exact computation, filtering, \
aggregation and transformations of several steps. App tools exposed as `:both` or `:ptc_lisp` are called inside the \
program as `(tool/name {...})`. Tools exposed as `:both` can also be called natively, but not in the same turn as \
`lisp_eval`.";

const MCP_NO_TOOLS: &str = "Evaluate one PTC-Lisp program in a sandbox. Suited to exact computation, filtering, \
aggregation and reshaping of data. No app tools are available inside the program; pass data in through the \
`context` argument and read it as `data/<key>`. Each call stands alone: nothing is remembered between calls.";

#[must_use]
pub fn tool_description(profile: Profile) -> &'static str {
    match profile {
        Profile::InProcessWithAppTools => WITH_APP_TOOLS,
        Profile::InProcessTextMode => TEXT_MODE,
        Profile::McpNoTools => MCP_NO_TOOLS,
    }
}

impl Profile {
    /// The profile of this name. There is no fallback.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        PROFILES
            .iter()
            .find(|(_, known, _)| *known == name)
            .map(|(profile, _, _)| *profile)
    }
}
