//! Credentials and the redactor: the only crate that sees the bytes of a secret.
//!
//! Everything else holds a [`Secret`] that it cannot print, [`AuthHeaders`] that it can only hand to an HTTP client, and text that has
//! been through the [`Redactor`]. Also reads, with a size limit, the files named at start-up. Knows nothing of transports, programs or
//! replies.

mod auth;
mod blocks;
mod document;
mod escape;
mod file;
#[cfg(feature = "checks")]
#[doc(hidden)]
pub mod fuzz;
mod loopback;
mod needles;
mod paths;
mod prefixes;
mod redactor;
mod scrubbed;
mod secret;
mod skip;
mod source;
mod stream;
mod veil;
mod watch;

pub use auth::{AuthFault, AuthHeaders, Emitter, RESERVED_AUTH_HEADERS, Scheme, register_login};
pub use document::{ConfigDocument, ConfigFault, LineColumn};
pub use file::{
    DATA_BYTES_MAX, FileError, PROGRAM_BYTES_MAX, SETTINGS_BYTES_MAX, read_file,
    read_standard_input, read_text,
};
pub use loopback::is_loopback_host;
pub use redactor::{MARKER, Redactor, RedactorBuilder, SCRUB_TIME_MAX, SharedTime};
pub use scrubbed::{Scrub, Scrubbed, scrub_json, scrub_json_text};
pub use secret::{SECRET_BYTES_MIN, Secret};
pub use source::{CredentialFault, Credentials, json_kind};
pub use stream::StreamScrubber;
pub use veil::Veil;
