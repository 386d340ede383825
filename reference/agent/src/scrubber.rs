//! What a run may tell: whoever embeds the agent says what must not be seen.

use ptc_lang::Value;

/// Takes out what must not be told, before anything is cut.
pub trait Scrubber: Sync {
    fn text(&self, text: &str) -> String;
    fn value(&self, value: &Value) -> Value;
}

/// Of a run that may tell everything.
pub struct Unscrubbed;

impl Scrubber for Unscrubbed {
    fn text(&self, text: &str) -> String {
        text.to_owned()
    }

    fn value(&self, value: &Value) -> Value {
        value.clone()
    }
}
