//! The `ptc-conformance` command.
fn main() {}
