//! An app tool: a name, a function, and how its results are shared and shown. Knows nothing of models.

use std::fmt;
use std::sync::Arc;
use std::time::Instant;

use ptc_lang::Value;
use ptc_protocol::limits::agent::PREVIEW_ROWS_MAX;
use ptc_protocol::{Signature, parse_signature};

use crate::exposure::Exposure;

/// The function of a tool. Receives the arguments, and the moment, if any, from which nobody waits for its result. Called from several
/// threads at once when a program uses `pmap`.
pub type ToolFn = Arc<dyn Fn(&Value, Option<Instant>) -> Result<Value, ToolFault> + Send + Sync>;
/// A custom preview: receives the full result and returns a map.
pub type PreviewFn = Arc<dyn Fn(&Value) -> Result<Value, ToolFault> + Send + Sync>;

/// A tool's failure, described for the model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolFault {
    pub message: String,
    /// A hint that might help, if the tool has one.
    pub hint: Option<String>,
}

impl ToolFault {
    /// A failure without a hint.
    pub fn new(message: impl Into<String>) -> Self {
        ToolFault {
            message: message.into(),
            hint: None,
        }
    }
}

impl From<&str> for ToolFault {
    fn from(message: &str) -> Self {
        ToolFault::new(message)
    }
}

impl From<String> for ToolFault {
    fn from(message: String) -> Self {
        ToolFault::new(message)
    }
}

/// An app tool of an agent.
#[derive(Clone)]
pub struct Tool {
    /// The name that programs use. Providers see it with `-` replaced by `_`.
    pub name: String,
    /// What the tool does, for the model.
    pub description: Option<String>,
    /// The signature as written.
    pub signature_text: Option<String>,
    /// The signature, when its text parses.
    pub signature: Option<Signature>,
    /// As declared; `None` means the mode's default.
    pub expose: Option<Exposure>,
    /// Whether a result may be reused for equal arguments within a run.
    pub cache: bool,
    /// What the model sees of a shared result.
    pub native_result: NativeResult,
    /// Receives a map of arguments.
    pub function: ToolFn,
}

/// How a shared result is previewed.
#[derive(Clone)]
pub struct NativeResult {
    pub preview: Preview,
    /// Rows shown by [`Preview::Rows`].
    pub limit: usize,
}

/// The kinds of preview.
#[derive(Clone)]
pub enum Preview {
    /// Count, schema and keys, but no values of the result.
    Metadata,
    /// The first rows verbatim.
    Rows,
    /// The output of a custom function.
    Custom(PreviewFn),
}

impl Default for NativeResult {
    fn default() -> Self {
        NativeResult {
            preview: Preview::Metadata,
            limit: PREVIEW_ROWS_MAX,
        }
    }
}

impl Tool {
    /// A tool with the defaults: the mode's exposure, not cached, without a signature.
    pub fn new(
        name: impl Into<String>,
        function: impl Fn(&Value) -> Result<Value, ToolFault> + Send + Sync + 'static,
    ) -> Self {
        Tool {
            name: name.into(),
            description: None,
            signature_text: None,
            signature: None,
            expose: None,
            cache: false,
            native_result: NativeResult::default(),
            function: Arc::new(move |args, _| function(args)),
        }
    }

    /// Sets the signature. A text that does not parse is shown to models, but gives no schema.
    #[must_use]
    pub fn signature(mut self, text: &str) -> Self {
        self.signature = parse_signature(text).ok();
        self.signature_text = Some(text.to_owned());
        self
    }

    #[must_use]
    pub fn description(mut self, text: impl Into<String>) -> Self {
        self.description = Some(text.into());
        self
    }

    #[must_use]
    pub fn expose(mut self, exposure: Exposure) -> Self {
        self.expose = Some(exposure);
        self
    }

    /// Allows results to be reused.
    #[must_use]
    pub fn cached(mut self) -> Self {
        self.cache = true;
        self
    }

    /// Sets the preview. Needs [`Exposure::Both`] and [`Tool::cached`].
    #[must_use]
    pub fn preview(mut self, preview: Preview, limit: usize) -> Self {
        self.native_result = NativeResult { preview, limit };
        self
    }

    /// The name as providers see it.
    #[must_use]
    pub fn native_name(&self) -> String {
        self.name.replace('-', "_")
    }

    /// Whether both layers share results of this tool.
    #[must_use]
    pub fn is_shared(&self) -> bool {
        self.cache && self.expose == Some(Exposure::Both)
    }
}

impl fmt::Debug for Tool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tool")
            .field("name", &self.name)
            .field("signature", &self.signature_text)
            .field("expose", &self.expose)
            .field("cache", &self.cache)
            .finish_non_exhaustive()
    }
}
