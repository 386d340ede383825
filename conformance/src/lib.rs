//! Decides, with evidence, whether an implementation of the PTC-Lisp MCP server family conforms:
//! reads the specification's fixtures, drives a target, compares. Depends on nothing of the
//! reference, because it would inherit the faults that it has to find.

pub mod baseline;
pub mod cli;
pub mod cut;
mod digest;
pub mod edn;
pub mod expected;
pub mod files;
pub mod fixture;
#[doc(hidden)]
pub mod fuzz;
pub mod json;
pub mod judge;
pub mod mutant;
pub mod observed;
pub mod peer;
pub mod report;
pub mod runner;
pub mod suite;
pub mod target;
pub mod traffic;
pub mod verdict;
