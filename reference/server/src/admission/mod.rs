//! Admission: which calls may run, by their number and by available memory. Knows nothing of calls.

pub mod gate;
pub mod pressure;
