//! Runs a program for a tool and turns its outcome into a payload. The only file that touches the language's API.

use crate::connection::Call;
use crate::payload::{Field, Payload};
use crate::server::Server;
use std::sync::Arc;

/// One program to run.
pub struct Job<'a> {
    /// Its text.
    pub program: &'a str,
    /// Its context as compact JSON.
    pub context: &'a str,
    /// What its value must match.
    pub schema: Option<&'a Schema>,
    /// The process.
    pub server: &'a Arc<Server>,
    /// The call that it answers.
    pub call: &'a Arc<Call>,
}

/// What a returned value must match.
pub struct Schema;

impl Schema {
    /// Reads `output_schema`.
    ///
    /// # Errors
    /// The message of the refusal.
    pub fn read(_: Option<&str>) -> Result<Option<Self>, String> {
        Ok(None)
    }
}

/// Runs a program that keeps nothing.
pub fn one_shot(job: &Job<'_>) -> Payload {
    Payload::new()
        .with("status", "ok")
        .with("prints", Field::List(Vec::new()))
        .with("feedback", "")
        .with("truncated", false)
        .with("result", format!("user=> {}", job.program))
}
