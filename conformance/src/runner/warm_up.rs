//! Lets a server run a program before it is judged: the first one may pay for loading what all need, within its own time
//! limit. Knows in what of a server's insides such a call shows.

use crate::suite::{Case, CaseBody, Control, WireAction};

/// Words of flags under which calls leave something behind that cases look at.
const WATCHFUL: &[&str] = &["debug", "trace", "log", "metrics"];

/// Whether a case cannot see that a program ran before it: it looks into no log, trace, ring or counter.
pub fn is_unseen(case: &Case) -> bool {
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
        WATCHFUL.iter().any(|word| name.contains(word))
    };
    wire.handshake && !names.any(watchful) && !wire.steps.iter().any(|step| watched(&step.action))
}
