//! The benchmarks that run inside one process: programs, and their target times. Data only; criterion and the table of
//! results both read it.
#![allow(dead_code)] // Each of the two users reads only part of a row.

use std::time::Duration;

/// One benchmark.
#[derive(Clone, Copy)]
pub struct Figure {
    /// Its id for criterion.
    pub id: &'static str,
    /// Its description for people.
    pub what: &'static str,
    /// The program, which is read, analysed and run each time.
    pub program: &'static str,
    /// The context: none, given as values, or parsed from JSON each time.
    pub context: Context,
    /// The target for the median.
    pub target: Duration,
}

/// Where the context of a program comes from.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Context {
    /// The program has no context.
    None,
    /// The context exists before the measurement.
    Given,
    /// The context is parsed from JSON as part of the measurement.
    Read,
}

/// The criterion group of all programs.
pub const GROUP: &str = "programs";

/// All benchmarks of programs.
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

/// A benchmark of writing or reading a session.
#[derive(Clone, Copy)]
pub struct Snapshot {
    /// Its id for criterion.
    pub id: &'static str,
    /// Its description for people.
    pub what: &'static str,
    /// The target for the median.
    pub target: Duration,
}

pub const SNAPSHOT_GROUP: &str = "snapshots";

/// Writing and reading a session of one megabyte.
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
