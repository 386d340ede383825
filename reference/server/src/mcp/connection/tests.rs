//! Calls in flight, cancellation and draining, on a connection without a transport.

use super::*;
use crate::render::reply::Era;
use ptc_rpc::RpcError;
use ptc_secrets::Redactor;

fn no_responder() -> Responder {
    Box::new(|_| {})
}

fn form() -> RefusalForm {
    RefusalForm::of_no_tool(Era::Session)
}

/// A call whose id and key are `number`.
fn admitted(connection: &Arc<Connection>, number: u64, gate: &Arc<Gate>) -> Arc<Call> {
    let id = Id::number(number);
    let arrival = connection.arrive(&id);
    connection
        .admit(&arrival, id, form(), None, no_responder(), gate)
        .ok()
        .unwrap()
}

fn refused(connection: &Arc<Connection>, number: u64, gate: &Arc<Gate>) -> NotAdmitted {
    let id = Id::number(number);
    refused_as(&connection.arrive(&id), id, gate)
}

fn refused_as(arrival: &Arrival, id: Id, gate: &Arc<Gate>) -> NotAdmitted {
    let admitted = arrival
        .connection
        .admit(arrival, id, form(), None, no_responder(), gate);
    admitted.err().unwrap().0
}

fn is_cancelled(connection: &Connection, number: u64) -> bool {
    matches!(
        connection.cancel(&Id::number(number)),
        Cancelled::InFlight(..)
    )
}

fn reply() -> Scrubbed<Reply> {
    Redactor::empty().scrub(Reply::error(None, RpcError::INTERNAL))
}

#[test]
fn id_is_in_flight_once_and_reusable_afterwards() {
    let gate = Gate::new(2);
    let connection = Connection::new("o".into(), Transport::Stdio, usize::MAX);
    let call = admitted(&connection, 1, &gate);
    assert_eq!(refused(&connection, 1, &gate), NotAdmitted::Duplicate);
    assert!(connection.finish(&call, reply));
    assert!(!connection.finish(&call, reply));
    admitted(&connection, 1, &gate);
}

#[test]
fn call_under_another_key_leaves_no_entry() {
    let gate = Gate::new(2);
    let connection = Connection::new("o".into(), Transport::Stdio, usize::MAX);
    for key in 0..3 {
        let arrival = connection.arrive(&Id::number(key));
        let call = connection
            .admit(&arrival, Id::number(7), form(), None, no_responder(), &gate)
            .ok()
            .unwrap();
        assert!(connection.finish(&call, reply));
    }
    assert_eq!(connection.in_flight(), 0);
}

#[test]
fn cancelled_program_cannot_reply() {
    let gate = Gate::new(1);
    let connection = Connection::new("o".into(), Transport::Stdio, 1);
    let call = admitted(&connection, 1, &gate);
    let answered = Arc::new(AtomicBool::new(false));
    let (program, ending, told) = (connection.clone(), call.clone(), answered.clone());
    call.on_cancel(move || told.store(program.finish(&ending, reply), Ordering::Release));
    assert!(is_cancelled(&connection, 1));
    assert!(!answered.load(Ordering::Acquire));
    // A call that ended cannot be cancelled any more: what it did stands.
    let call = admitted(&connection, 1, &gate);
    assert!(connection.finish(&call, reply));
    assert!(connection.cancel_call(&call).is_none() && !call.is_cancelled());
}

#[test]
fn caps_are_reported_and_cancelling_frees_a_place() {
    let gate = Gate::new(2);
    let connection = Connection::new("o".into(), Transport::Stdio, 1);
    let call = admitted(&connection, 1, &gate);
    assert_eq!(
        refused(&connection, 2, &gate),
        NotAdmitted::GateClosed(GateClosed::Full(1))
    );
    assert!(is_cancelled(&connection, 1) && call.is_cancelled());
    assert_eq!(
        (gate.taken(), connection.wait_until_idle(Duration::ZERO)),
        (0, 0)
    );
    assert!(!connection.finish(&call, reply));
    let other = Connection::new("o".into(), Transport::Stdio, 9);
    let _held = [0, 1].map(|number| admitted(&other, number, &gate));
    assert_eq!(
        refused(&other, 9, &gate),
        NotAdmitted::GateClosed(GateClosed::Full(2))
    );
}

#[test]
fn request_cancelled_on_arrival_is_not_admitted() {
    let gate = Gate::new(2);
    let connection = Connection::new("o".into(), Transport::Stdio, usize::MAX);
    let number = Id::number(1);
    assert!(matches!(connection.cancel(&number), Cancelled::Unknown));
    let first = connection.arrive(&number);
    assert!(matches!(connection.cancel(&number), Cancelled::Arriving));
    let refused = refused_as(&first, number.clone(), &gate);
    assert_eq!((refused, gate.taken()), (NotAdmitted::Cancelled, 0));
    // The cancellation does not apply to a later request, or to one with another id.
    let again = connection.arrive(&number);
    admitted(&connection, 2, &gate);
    std::thread::scope(|scope| {
        let waits =
            scope.spawn(|| connection.wait_until_arrived(&number, Duration::from_secs(3600)));
        std::thread::sleep(Duration::from_millis(20));
        assert!(!waits.is_finished());
        drop(first);
    });
    admitted(&connection, 1, &gate);
    assert!(is_cancelled(&connection, 1));
    drop(again);
}

#[test]
fn nothing_is_admitted_after_cancel_all() {
    let gate = Gate::new(2);
    let connection = Connection::new("o".into(), Transport::Stdio, usize::MAX);
    admitted(&connection, 1, &gate);
    let _arrives = connection.arrive(&Id::number(2));
    assert_eq!(connection.cancel_all().len(), 1);
    for number in [2, 3] {
        assert_eq!(refused(&connection, number, &gate), NotAdmitted::Cancelled);
    }
    assert_eq!((gate.taken(), connection.in_flight()), (0, 0));
}
