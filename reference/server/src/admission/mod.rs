//! Who may run: so many calls at once, and while memory lasts. Knows nothing of calls.

pub mod gate;
pub mod pressure;
