//! Deliberately faulty servers: a proxy in front of a right one, over stdio or HTTP, that breaks one clause each.
//! A suite that does not catch them proves nothing. Knows JSON-RPC frames, HTTP messages and program text; knows nothing of cases.

mod edit;
mod http;
mod http_table;
mod open_table;
mod proxy;
mod revision_table;
mod state_table;
mod table;

pub use proxy::run;

use http::Message;

use crate::json::Json;

pub struct Mutant {
    /// Its name: `ptc-conformance mutate NAME -- CMD…`.
    pub name: &'static str,
    /// The clause that it breaks, or the section when the section is about one thing. A case of it must fail.
    pub clause: &'static str,
    pub mutation: Mutation,
    pub way: Way,
}

/// Which way to a server a mutant stands in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    Stdio,
    Http,
}

/// A mutant before a server's standard streams.
const fn over_stdio(name: &'static str, clause: &'static str, mutation: Mutation) -> Mutant {
    Mutant {
        name,
        clause,
        mutation,
        way: Way::Stdio,
    }
}

/// A mutant before a server's listener.
const fn over_http(name: &'static str, clause: &'static str, mutation: Mutation) -> Mutant {
    Mutant {
        name,
        clause,
        mutation,
        way: Way::Http,
    }
}

/// What a server's standard output says of a request, edited.
const fn reply(name: &'static str, clause: &'static str, edit: fn(&mut Json, &str)) -> Mutant {
    over_stdio(name, clause, Mutation::Reply(edit))
}

/// What a tool answers over standard streams, edited.
const fn payload(name: &'static str, clause: &'static str, edit: fn(&mut Json)) -> Mutant {
    over_stdio(name, clause, Mutation::Payload(edit))
}

/// What a listener answers, edited.
const fn answer(
    name: &'static str,
    clause: &'static str,
    edit: fn(&mut Message, &Message),
) -> Mutant {
    over_http(name, clause, Mutation::HttpAnswer(edit))
}

/// What a listener is asked, edited.
const fn http_request(name: &'static str, clause: &'static str, edit: fn(&mut Message)) -> Mutant {
    over_http(name, clause, Mutation::HttpRequest(edit))
}

/// Gives a table its rows of servers that are started with a flag besides their own.
macro_rules! flagged {
    ($over:ident) => {
        const fn flag(
            name: &'static str,
            clause: &'static str,
            flag: &'static str,
            value: &'static str,
        ) -> Mutant {
            $over(name, clause, Mutation::Flag(flag, value))
        }
    };
}
use flagged;

/// Every mutant: those of protocol and language, then those of servers with state, those over HTTP, those of revision 1.1, and those
/// of what MCP asks of any server.
pub fn all() -> impl Iterator<Item = &'static Mutant> {
    [
        table::MUTANTS,
        state_table::MUTANTS,
        http_table::MUTANTS,
        revision_table::MUTANTS,
        open_table::MUTANTS,
    ]
    .into_iter()
    .flatten()
}

/// One way of being wrong.
#[derive(Clone, Copy)]
pub enum Mutation {
    /// One symbol of each program is taken for another: a builtin or form that does something else.
    Symbol(&'static str, &'static str),
    /// Each program is rewritten.
    Program(fn(&str) -> String),
    /// Frames from the client are rewritten before the server sees them.
    Request(fn(&mut Json)),
    /// The text that follows `user=> ` is rewritten, wherever a reply shows it.
    Printed(fn(&str) -> String),
    /// The structured payload of tool results is rewritten, and with it the text that mirrors it.
    Payload(fn(&mut Json)),
    /// Replies are rewritten; the method that they answer is given.
    Reply(fn(&mut Json, &str)),
    /// The server is started with this flag besides its own; a later one wins.
    Flag(&'static str, &'static str),
    /// What happens to lines as such.
    Stream(Stream),
    /// Heads of requests are rewritten before the server sees them.
    HttpRequest(fn(&mut Message)),
    /// Answers over HTTP are rewritten; the request's head is given.
    HttpAnswer(fn(&mut Message, &Message)),
    /// Calls see what earlier ones defined.
    Remembers,
}

/// Faults of the stream of replies.
#[derive(Clone, Copy, PartialEq, Eq)]
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
}

/// The mutant of that name, or the server that is right in another way.
pub fn find(name: &str) -> Option<&'static Mutant> {
    all()
        .chain(table::HARMLESS)
        .find(|mutant| mutant.name == name)
}

/// Servers that are right in another way than the reference, with the cases that they pass, as a glob.
pub fn harmless() -> impl Iterator<Item = &'static Mutant> {
    table::HARMLESS.iter()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::all;

    #[test]
    fn names_are_unique() {
        let names: BTreeSet<&str> = all().map(|mutant| mutant.name).collect();
        assert_eq!(names.len(), all().count());
    }
}
