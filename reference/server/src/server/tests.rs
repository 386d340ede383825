//! What becomes of a call that never had an outcome.

use super::*;
use crate::diagnostics::counters::Gauges;
use crate::mcp::connection::{Connection, RequestContext, Transport};
use crate::mcp::dispatch::{Handled, handle};
use crate::render::reply::Reply;
use ptc_rpc::Frame;
use std::sync::Mutex;
use std::sync::mpsc::channel;
use tracing::Subscriber;
use tracing::span::{self, Attributes};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::{Context, SubscriberExt};
use tracing_subscriber::registry::LookupSpan;

/// A server with the default settings.
fn server() -> Arc<Server> {
    let settings = Settings::read(&[], |_| None).unwrap();
    let agentic = Agentic::read(&settings.agentic).unwrap();
    Server::new(settings, Sinks::default(), Redactor::empty(), None, agentic)
}

/// The job of a call is dropped when there is no thread for it.
#[test]
fn call_without_a_thread_is_answered_busy() {
    let flags = ["--http", "--http-metrics"].map(str::to_owned);
    let settings = Settings::read(&flags, |_| None).unwrap();
    let agentic = Agentic::read(&settings.agentic).unwrap();
    let server = Server::new(settings, Sinks::default(), Redactor::empty(), None, agentic);
    let connection = Connection::new("o".into(), Transport::Stdio, usize::MAX);
    let frame = br#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"lisp_eval","arguments":{"program":"1"}}}"#;
    let incoming = Frame::parse(frame).unwrap().into();
    let (reply, replies) = channel();
    let context = RequestContext::default();
    let handled = handle(&server.handler, &connection, &context, &incoming, || {
        Box::new(move |answer| reply.send(Reply::bytes(&answer)).unwrap())
    });
    let Handled::Later(_, job) = handled else {
        panic!("a program runs later");
    };
    drop(job);
    let answer = String::from_utf8(replies.recv().unwrap()).unwrap();
    assert!(
        answer.contains("server busy: no thread is free"),
        "{answer}"
    );
    let gauges = Gauges {
        in_flight: 0,
        in_flight_max: 0,
        protocol_sessions: 0,
        sessions: 0,
    };
    let metrics = server.counters.as_ref().unwrap().render(&gauges);
    let counted = r#"ptc_lisp_calls_total{tool="lisp_eval",status="error",reason="busy"} 1"#;
    assert!(metrics.contains(counted), "{metrics}");
}

#[test]
fn panic_fails_only_its_request() {
    let server = server();
    let connection = Connection::new("o".into(), Transport::Stdio, usize::MAX);
    let context = RequestContext::default();
    let call = |id: u8| {
        format!(
            r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"lisp_eval","arguments":{{"program":"1"}}}}}}"#
        )
    };
    let failed = call(1);
    let incoming = Frame::parse(failed.as_bytes()).unwrap().into();
    let handled = handle(&server.handler, &connection, &context, &incoming, || {
        panic!("a fault of the server")
    });
    let Handled::Now(reply) = handled else {
        panic!("a failed request is answered at once");
    };
    let answer = String::from_utf8(Reply::bytes(&server.redactor.scrub(reply))).unwrap();
    assert!(answer.contains("\"code\":-32603"), "{answer}");
    let later = call(2);
    let incoming = Frame::parse(later.as_bytes()).unwrap().into();
    let handled = handle(&server.handler, &connection, &context, &incoming, || {
        Box::new(|_| ())
    });
    assert!(matches!(handled, Handled::Later(..)));
}

/// The name of a span, and of the one that it is in.
type NameAndParent = (String, Option<String>);

/// The spans as they are opened.
#[derive(Clone, Default)]
struct OpenedSpans(Arc<Mutex<Vec<NameAndParent>>>);

impl<S: Subscriber + for<'s> LookupSpan<'s>> Layer<S> for OpenedSpans {
    fn on_new_span(&self, _: &Attributes<'_>, id: &span::Id, context: Context<'_, S>) {
        let span = context.span(id).unwrap();
        let parent = span.parent().map(|parent| parent.name().to_owned());
        self.0
            .lock()
            .unwrap()
            .push((span.name().to_owned(), parent));
    }
}

#[test]
fn work_for_a_request_is_within_its_span() {
    let server = server();
    let connection = Connection::new("o".into(), Transport::Stdio, usize::MAX);
    let frame = br#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"lisp_eval","arguments":{"program":"(pmap inc [1 2])"}}}"#;
    let incoming = Frame::parse(frame).unwrap().into();
    let opened = OpenedSpans::default();
    let subscriber = tracing_subscriber::registry().with(opened.clone());
    tracing::subscriber::with_default(subscriber, || {
        let context = RequestContext::default();
        let handled = handle(&server.handler, &connection, &context, &incoming, || {
            Box::new(|_| ())
        });
        let Handled::Later(_, job) = handled else {
            panic!("a program runs later");
        };
        job.run();
    });
    let opened = opened.0.lock().unwrap();
    let spans: Vec<_> = opened
        .iter()
        .map(|(name, parent)| (name.as_str(), parent.as_deref()))
        .collect();
    assert_eq!(
        spans,
        [
            ("request", None),
            ("tools/call", Some("request")),
            ("admission", Some("tools/call")),
            ("evaluation", Some("tools/call")),
        ]
    );
}
