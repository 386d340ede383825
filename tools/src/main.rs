//! Project tools.
fn main() {}
