//! The Model Context Protocol: a client's connection, the methods, the tools. Knows nothing of transports.

pub mod connection;
pub mod dispatch;
pub mod handler;
pub mod incoming;
pub mod stateless;
pub mod tools;
mod tools_call;
