//! From an outcome to the bytes of a reply: a payload is scrubbed, truncated to its limits, and written. Knows nothing of how programs
//! run.

pub mod preview;
pub mod profile;
pub mod reason;
pub mod redact;
pub mod reply;
