//! What is measured inside one process: programs, and how long each may take. Data only; criterion and the table
//! of results both read it.
#![allow(dead_code)] // Each of the two readers needs its half of a row.

use std::time::Duration;

/// One figure.
#[derive(Clone, Copy)]
pub struct Figure {
    /// Its name for criterion.
    pub id: &'static str,
    /// Its name for people.
    pub what: &'static str,
    /// The program; it is read, analysed and run each time.
    pub program: &'static str,
    /// The context: none, given as values, or read from JSON each time.
    pub context: Context,
    /// How long the median may be.
    pub target: Duration,
}

/// Where the context of a program comes from.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Context {
    /// There is none.
    None,
    /// It is there already.
    Given,
    /// It is read from JSON as part of what is measured.
    Read,
}

/// The group of all figures.
pub const GROUP: &str = "programs";

/// Every figure.
#[rustfmt::skip]
pub const FIGURES: &[Figure] = &[
    figure("plus", "(+ 1 2)", "(+ 1 2)", Context::None, 1_500),
    figure("sum-of-squares", "sum of squares over 20,000", "(reduce + (map (fn [x] (* x x)) (range 20000)))", Context::None, 700_000),
    figure("fib", "fib 20 by plain recursion", "(defn fib [n] (if (< n 2) n (+ (fib (- n 1)) (fib (- n 2))))) (fib 20)", Context::None, 3_000_000),
    figure("join", "join of 2,000 strings", "(clojure.string/join \", \" data/names)", Context::Given, 150_000),
    figure("count", "5,000 maps: count", "(count data/orders)", Context::Given, 200_000),
    figure("sort-by", "5,000 maps: sort-by", "(first (sort-by :total data/orders))", Context::Given, 2_000_000),
    figure("group-by", "5,000 maps: group-by", "(count (group-by :region data/orders))", Context::Given, 2_000_000),
    figure("filter-sum", "5,000 maps: filter and sum", "(reduce + (map :total (filter :open data/orders)))", Context::Given, 600_000),
    figure("read-all", "5,000 maps: read from JSON, and all four", "[(count data/orders) (first (sort-by :total data/orders)) (count (group-by :region data/orders)) (reduce + (map :total (filter :open data/orders)))]", Context::Read, 6_000_000),
];

/// A session between two turns.
#[derive(Clone, Copy)]
pub struct Snapshot {
    /// Its name for criterion.
    pub id: &'static str,
    /// Its name for people.
    pub what: &'static str,
    /// How long the median may be.
    pub target: Duration,
}

pub const SNAPSHOT_GROUP: &str = "snapshots";

/// A session of a megabyte, written and read.
pub const SNAPSHOTS: [Snapshot; 2] = [
    Snapshot {
        id: "write",
        what: "snapshot of a 1 MB session: write",
        target: Duration::from_millis(10),
    },
    Snapshot {
        id: "read",
        what: "snapshot of a 1 MB session: restore",
        target: Duration::from_millis(10),
    },
];

const fn figure(
    id: &'static str,
    what: &'static str,
    program: &'static str,
    context: Context,
    target_nanos: u64,
) -> Figure {
    Figure {
        id,
        what,
        program,
        context,
        target: Duration::from_nanos(target_nanos),
    }
}
