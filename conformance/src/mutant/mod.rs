//! Deliberately faulty servers: each is a proxy in front of a correct one, over stdio or HTTP, that breaks one clause.
//! A suite that does not catch them proves nothing. Knows JSON-RPC frames, HTTP messages and program text; knows nothing of cases.

mod edit;
mod frame;
mod http;
mod proxy;
mod text;

use std::sync::LazyLock;

use serde::Deserialize;

pub use proxy::run;

use frame::FrameStep;
use http::HttpEdit;
use text::TextEdit;

pub struct Mutant {
    /// Its name: `ptc-conformance mutate NAME -- CMD…`.
    pub name: String,
    /// The clause that it breaks, or the section if that is about one thing. At least one of its cases must fail.
    pub clause: String,
    pub mutation: Mutation,
    pub transport: MutantTransport,
}

/// The transport that a mutant intercepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MutantTransport {
    Stdio,
    Http,
}

/// One kind of fault. `mutants.toml` describes each.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mutation {
    Symbol(String, String),
    Program(TextEdit),
    Printed(TextEdit),
    Errors(TextEdit),
    Frame(Vec<FrameStep>),
    Payload(Vec<FrameStep>),
    Reply(Vec<FrameStep>),
    /// A flag and its value, if it takes one.
    Flag(Vec<String>),
    Stream(StreamFault),
    Request(HttpEdit),
    Answer(HttpEdit),
}

/// The contents of the table.
#[derive(Deserialize)]
struct Table {
    harmless: Vec<Row>,
    symbols: Vec<(String, String, String)>,
    stdio: Vec<Row>,
    http: Vec<Row>,
}

#[derive(Deserialize)]
struct Row {
    name: String,
    breaks: String,
    #[serde(flatten)]
    mutation: Mutation,
}

impl Row {
    fn mutant(self, transport: MutantTransport) -> Mutant {
        let Row {
            name,
            breaks: clause,
            mutation,
        } = self;
        Mutant {
            name,
            clause,
            mutation,
            transport,
        }
    }
}

/// Faulty servers, and correct servers that differ from the reference.
static MUTANTS: LazyLock<(Vec<Mutant>, Vec<Mutant>)> = LazyLock::new(|| {
    let table: Table =
        toml::from_str(include_str!("mutants.toml")).expect("a table that tests read");
    let symbols = table.symbols.into_iter().map(|(breaks, from, to)| Row {
        name: format!("{from}~{to}"),
        breaks,
        mutation: Mutation::Symbol(from, to),
    });
    let over_stdio = |rows: Vec<Row>| {
        rows.into_iter()
            .map(|row| row.mutant(MutantTransport::Stdio))
    };
    let wrong = symbols
        .map(|row| row.mutant(MutantTransport::Stdio))
        .chain(over_stdio(table.stdio))
        .chain(
            table
                .http
                .into_iter()
                .map(|row| row.mutant(MutantTransport::Http)),
        );
    (wrong.collect(), over_stdio(table.harmless).collect())
});

/// Every faulty server.
pub fn all() -> impl Iterator<Item = &'static Mutant> {
    MUTANTS.0.iter()
}

/// Correct servers that differ from the reference, with the cases that they pass, as a glob.
pub fn harmless() -> impl Iterator<Item = &'static Mutant> {
    MUTANTS.1.iter()
}

/// The faulty or harmless server with this name.
pub fn find(name: &str) -> Option<&'static Mutant> {
    all().chain(harmless()).find(|mutant| mutant.name == name)
}

/// Faults in the stream of replies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum StreamFault {
    /// An extra line precedes the reply to each call.
    ExtraLine,
    /// An empty line follows each reply.
    BlankLine,
    /// Each reply to a call is sent twice.
    Twice,
    /// Every third reply to a call is dropped.
    Lost,
    /// The replies to two concurrent calls exchange their ids.
    SwappedIds,
    /// Replies are sent in the order of the requests: a fast call waits for a slow one.
    Unbroken,
    AnswersNotifications,
    /// Cancelled calls are answered nevertheless.
    AnswersCancelled,
    /// Before a call is answered, its progress decreases.
    ProgressBackwards,
    /// A call's progress notifications continue after its answer.
    ProgressLate,
    /// A call sends progress for an unknown token.
    ProgressOfNobody,
    /// Replies end with a carriage return.
    CarriageReturn,
    /// The process exits with this status.
    ExitStatus(i32),
    /// The process does not exit when its input ends.
    Lingers,
    /// A banner precedes the first reply.
    Banner,
    /// The process exits at the first line that it cannot parse.
    DiesOnGarbage,
    /// Lines that cannot be parsed are not answered.
    SilentOnGarbage,
    /// The process exits when its input ends, even if answers are pending.
    ForgetsAtEnd,
    /// A line that ends with CR LF is ignored.
    WantsBareNewlines,
    /// Calls see the definitions of earlier ones.
    Remembers,
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::all;

    #[test]
    fn names_are_unique() {
        let names: BTreeSet<&str> = all().map(|mutant| mutant.name.as_str()).collect();
        assert_eq!(names.len(), all().count());
    }
}
