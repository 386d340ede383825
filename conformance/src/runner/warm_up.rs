//! Lets a server run a program before it is judged: the first one may have to load what all programs need, within its own time
//! limit. Knows where in a server's internals such a call leaves traces.

use crate::suite::{Case, CaseBody, Control, WireAction};

/// Words in flags that make calls leave traces that cases inspect.
const OBSERVING_FLAGS: &[&str] = &["debug", "trace", "log", "metrics"];

/// Whether a case cannot notice that a program ran before it: it inspects no log, trace, ring or counter.
pub fn cannot_observe(case: &Case) -> bool {
    let CaseBody::Wire(wire) = &case.body else {
        return false;
    };
    let watched = |action: &WireAction| {
        matches!(
            action,
            WireAction::Control(
                Control::Log { .. } | Control::Trace { .. } | Control::PeerReceived { .. }
            )
        )
    };
    let mut names = case.target.flags.keys().chain(case.target.env.keys());
    let watchful = |name: &String| {
        let name = name.to_ascii_lowercase();
        OBSERVING_FLAGS.iter().any(|word| name.contains(word))
    };
    wire.handshake && !names.any(watchful) && !wire.steps.iter().any(|step| watched(&step.action))
}
