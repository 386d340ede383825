//! How requests reach the server: standard streams, HTTP, and the signals that end both. Knows nothing of methods or tools.

pub mod http;
pub mod intake;
mod serial_queue;
pub mod signals;
pub mod stdio;
