//! Messages between the nodes that share a store.

use super::SharedSessions;
use crate::lock::lock;
use crate::sessions::store::SessionKey;
use ptc_rpc::Id;
use std::time::Duration;

/// Handles messages about protocol sessions.
pub type MessageHandler = Box<dyn Fn(&NodeMessage) + Send + Sync>;

/// Messages between nodes. They name sessions by their keys, because ids are secrets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NodeMessage {
    /// A program session was closed: what runs in it is to be ended.
    Closed(SessionKey),
    /// A client cancelled a call of its protocol session on a node that does not run the call.
    Cancel { session: SessionKey, call: Id },
    /// A protocol session ended.
    Ended(SessionKey),
    /// A login failed; if `block` is set, its source is blocked for that long.
    Login {
        source: String,
        block: Option<Duration>,
    },
}

impl NodeMessage {
    pub(super) fn to_text(&self) -> String {
        match self {
            NodeMessage::Closed(key) => format!("closed {}", key.as_str()),
            NodeMessage::Cancel { session, call } => {
                format!("cancel {} {}", session.as_str(), call.as_json())
            }
            NodeMessage::Ended(key) => format!("ended {}", key.as_str()),
            NodeMessage::Login { source, block } => match block {
                None => format!("failed {source}"),
                Some(block) => format!("blocked {source} {}", block.as_micros()),
            },
        }
    }

    /// Returns `None` for any other text: anybody who can reach the store may have written it.
    fn from_text(text: &str) -> Option<Self> {
        let (word, rest) = text.split_once(' ')?;
        let (name, rest) = rest.split_once(' ').unwrap_or((rest, ""));
        let login = |block| NodeMessage::Login {
            source: name.to_owned(),
            block,
        };
        Some(match word {
            "closed" => NodeMessage::Closed(SessionKey::from_digest(name)),
            "ended" => NodeMessage::Ended(SessionKey::from_digest(name)),
            "failed" => login(None),
            "blocked" => login(Some(Duration::from_micros(rest.parse().ok()?))),
            "cancel" => NodeMessage::Cancel {
                session: SessionKey::from_digest(name),
                call: Id::from_json(ptc_rpc::parse(rest.as_bytes()).ok()?),
            },
            _ => return None,
        })
    }
}

impl SharedSessions {
    /// Broadcasts a message and waits until the nodes acted on it, so that a client which then asks another node finds it done. If the
    /// store is away, the message is lost; messages only speed up what would happen anyway.
    pub fn broadcast(&self, message: &NodeMessage) {
        let message = message.to_text();
        // A directory cannot broadcast, so nothing waits for it.
        let _ = self.request(|store| store.broadcast(&message));
    }

    /// Whether nodes are notified of failed logins.
    pub(in crate::sessions) fn can_broadcast(&self) -> bool {
        self.store.can_broadcast()
    }

    /// Sets the handler for messages about protocol sessions.
    pub fn on_message(&self, act: impl Fn(&NodeMessage) + Send + Sync + 'static) {
        // There is one handler per process.
        let _ = self.handler.set(Box::new(act));
    }

    pub(super) fn receive(&self, text: &str) {
        let Some(message) = NodeMessage::from_text(text) else {
            return;
        };
        match message {
            NodeMessage::Login { source, block } => self.logins.record_failure(source, block),
            NodeMessage::Closed(key) => self.end_running(&key),
            NodeMessage::Cancel { .. } | NodeMessage::Ended(_) => {
                if let Some(act) = self.handler.get() {
                    act(&message);
                }
            }
        }
    }

    /// Ends what runs here in a session that was closed.
    pub(super) fn end_running(&self, key: &SessionKey) {
        let here = lock(&self.running).get(key).cloned();
        here.iter().flatten().for_each(|running| running.close());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_survive_a_round_trip() {
        let key = SessionKey::of("mcp_1");
        let login = |block| NodeMessage::Login {
            source: "0a1b".into(),
            block,
        };
        for message in [
            NodeMessage::Closed(key.clone()),
            NodeMessage::Ended(key.clone()),
            NodeMessage::Cancel {
                session: key.clone(),
                call: Id::from_json(ptc_rpc::parse(br#""a b""#).ok().unwrap()),
            },
            login(None),
            login(Some(Duration::from_micros(1_500))),
        ] {
            let text = message.to_text();
            assert!(!text.contains("mcp_1"), "{text}");
            assert_eq!(NodeMessage::from_text(&text), Some(message));
        }
        for text in [
            "",
            "closed",
            "opened 1",
            "blocked 1 soon",
            "cancel 1",
            "cancel 1 {",
        ] {
            assert_eq!(NodeMessage::from_text(text), None, "{text:?}");
        }
    }
}
