//! Deliberately faulty servers: a proxy in front of a right one, over stdio or HTTP, that breaks one clause each.
//! A suite that does not catch them proves nothing. Knows JSON-RPC frames, HTTP messages and program text; knows nothing of cases.

mod edit;
mod frame;
mod http;
mod proxy;
mod text;

use std::sync::LazyLock;

use serde::Deserialize;

pub use proxy::run;

use frame::Step;
use http::HttpEdit;
use text::Text;

pub struct Mutant {
    /// Its name: `ptc-conformance mutate NAME -- CMD…`.
    pub name: String,
    /// The clause that it breaks, or the section when the section is about one thing. A case of it must fail.
    pub clause: String,
    pub mutation: Mutation,
    pub way: Way,
}

/// Which way to a server a mutant stands in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    Stdio,
    Http,
}

/// One way of being wrong. `mutants.toml` says what each is.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mutation {
    Symbol(String, String),
    Program(Text),
    Printed(Text),
    Errors(Text),
    Frame(Vec<Step>),
    Payload(Vec<Step>),
    Reply(Vec<Step>),
    /// A flag and its value, if it takes one.
    Flag(Vec<String>),
    Stream(Stream),
    Request(HttpEdit),
    Answer(HttpEdit),
}

/// The table as it is written.
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
    fn mutant(self, way: Way) -> Mutant {
        let Row {
            name,
            breaks: clause,
            mutation,
        } = self;
        Mutant {
            name,
            clause,
            mutation,
            way,
        }
    }
}

/// Servers that are wrong, and servers that are right in another way than the reference.
static MUTANTS: LazyLock<(Vec<Mutant>, Vec<Mutant>)> = LazyLock::new(|| {
    let table: Table =
        toml::from_str(include_str!("mutants.toml")).expect("a table that tests read");
    let symbols = table.symbols.into_iter().map(|(breaks, from, to)| Row {
        name: format!("{from}~{to}"),
        breaks,
        mutation: Mutation::Symbol(from, to),
    });
    let over_stdio = |rows: Vec<Row>| rows.into_iter().map(|row| row.mutant(Way::Stdio));
    let wrong = symbols
        .map(|row| row.mutant(Way::Stdio))
        .chain(over_stdio(table.stdio))
        .chain(table.http.into_iter().map(|row| row.mutant(Way::Http)));
    (wrong.collect(), over_stdio(table.harmless).collect())
});

/// Every server that is wrong.
pub fn all() -> impl Iterator<Item = &'static Mutant> {
    MUTANTS.0.iter()
}

/// Servers that are right in another way than the reference, with the cases that they pass, as a glob.
pub fn harmless() -> impl Iterator<Item = &'static Mutant> {
    MUTANTS.1.iter()
}

/// The mutant of that name, or the server that is right in another way.
pub fn find(name: &str) -> Option<&'static Mutant> {
    all().chain(harmless()).find(|mutant| mutant.name == name)
}

/// Faults of the stream of replies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Stream {
    /// A line of its own accord stands before the first reply to each call.
    ExtraLine,
    /// An empty line follows each reply.
    BlankLine,
    /// Each reply to a call comes twice.
    Twice,
    /// Each third reply to a call never comes.
    Lost,
    /// Two replies to calls that are in flight together exchange their ids.
    SwappedIds,
    /// Replies come in the order of requests only: a quick call waits for a slow one.
    Unbroken,
    AnswersNotifications,
    /// Calls that were cancelled are answered all the same.
    AnswersCancelled,
    /// Before a call is answered its progress goes back.
    ProgressBackwards,
    /// The progress of a call goes on behind its answer.
    ProgressLate,
    /// A call tells of the progress of a token that nobody gave.
    ProgressOfNobody,
    /// Replies end with a carriage return.
    CarriageReturn,
    /// The process ends with a status of its own.
    ExitStatus(i32),
    /// The process does not end with its input.
    Lingers,
    /// A banner stands before the first reply.
    Banner,
    /// The process ends at the first line that it cannot read.
    DiesOnGarbage,
    /// Lines that cannot be read are not answered.
    SilentOnGarbage,
    /// The process ends with its input, whatever is still to be answered.
    ForgetsAtEnd,
    /// A line that ends with a carriage return and a newline is not read.
    WantsBareNewlines,
    /// Calls see what earlier ones defined.
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
