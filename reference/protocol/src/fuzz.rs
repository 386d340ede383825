//! Check functions for hostile input, driven by fuzzers and by seeded tests. Each panics when a promise is broken.

use crate::{
    Type, json_schema_to_type, parameters_schema, parse_signature, provider_schema,
    type_to_json_schema,
};

/// A text is either a signature whose canonical text has the same meaning, or is refused with a position in it.
pub fn signature(text: &str) {
    match parse_signature(text) {
        Ok(signature) => {
            let canonical = signature.to_string();
            // Without parameters only the type parses again as a signature.
            let again = match signature.params.is_empty() {
                true => signature.returns.to_string(),
                false => canonical.clone(),
            };
            let reread = parse_signature(&again);
            assert_eq!(
                reread.as_ref(),
                Ok(&signature),
                "{text:?} prints as {again:?}"
            );
            let _ = parameters_schema(Some(&signature));
            check_schema_of(&signature.returns);
        }
        Err(error) => {
            assert!(
                error.line >= 1 && error.line <= text.split('\n').count(),
                "{text:?}: {error}"
            );
            assert!(error.column <= text.len(), "{text:?}: {error}");
            assert!(!error.to_string().is_empty());
        }
    }
}

/// A JSON text is either an output schema, or is refused in one short sentence.
pub fn schema(text: &str) {
    let Ok(schema) = serde_json::from_str(text) else {
        return;
    };
    match json_schema_to_type(&schema) {
        Ok(t) => check_schema_of(&t),
        Err(fault) => {
            let message = fault.to_string();
            assert!(
                !message.is_empty() && message.len() <= 4 * text.len() + 500,
                "{message}"
            );
        }
    }
}

fn check_schema_of(t: &Type) {
    let schema = type_to_json_schema(t);
    assert!(schema.is_object() && provider_schema(t).is_object());
    assert!(!t.to_string().is_empty() && !t.to_tree().is_null());
}

#[cfg(test)]
mod tests;
