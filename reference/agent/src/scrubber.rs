//! What a run may disclose: the embedder of the agent decides what must not be seen.

use ptc_lang::Value;

/// Removes what must not be disclosed, before anything is cut.
pub trait Scrubber: Sync {
    fn text(&self, text: &str) -> String;
    fn value(&self, value: &Value) -> Value;
}

/// For a run without secrets.
pub struct Unscrubbed;

impl Scrubber for Unscrubbed {
    fn text(&self, text: &str) -> String {
        text.to_owned()
    }

    fn value(&self, value: &Value) -> Value {
        value.clone()
    }
}
