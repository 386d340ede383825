//! Which layer may call a tool: the model natively, programs, or both. Knows nothing of runs.

/// Where a tool is callable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Exposure {
    /// By the model through the provider's tool calling only.
    Native,
    /// From programs as `(tool/name …)` only.
    PtcLisp,
    /// From both; only these share results between the layers.
    Both,
}

/// What the agent's answer consists of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Output {
    /// Text, possibly parsed according to the signature.
    Text,
    /// The value of a program.
    PtcLisp,
}

/// How programs reach the agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Transport {
    /// In the text of a reply.
    Content,
    /// As the argument of the tool `lisp_eval`.
    ToolCall,
}

const NAMES: &[(&str, Exposure)] = &[
    ("native", Exposure::Native),
    ("ptc_lisp", Exposure::PtcLisp),
    ("both", Exposure::Both),
];

/// The exposure of a tool: as declared, else `:ptc_lisp` where the answer is the value of a program and
/// `:native` where it is text, including combined mode.
#[must_use]
pub fn resolve_exposure(
    declared: Option<Exposure>,
    output: Output,
    _transport: Option<Transport>,
) -> Exposure {
    declared.unwrap_or(match output {
        Output::Text => Exposure::Native,
        Output::PtcLisp => Exposure::PtcLisp,
    })
}

impl Exposure {
    /// The exposure with this name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        NAMES
            .iter()
            .find(|(known, _)| *known == name)
            .map(|(_, exposure)| *exposure)
    }

    /// Its name in options and telemetry.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Exposure::Native => "native",
            Exposure::PtcLisp => "ptc_lisp",
            Exposure::Both => "both",
        }
    }

    /// Whether the tool is in the provider's tool definitions.
    #[must_use]
    pub fn is_native(self) -> bool {
        matches!(self, Exposure::Native | Exposure::Both)
    }

    /// Whether programs may call the tool.
    #[must_use]
    pub fn is_program_callable(self) -> bool {
        matches!(self, Exposure::PtcLisp | Exposure::Both)
    }
}
