//! W3C trace context: validates what a request carries, and says what its upstream calls carry. Knows nothing of tracing itself.

/// The trace that a call belongs to. Holds only well-formed values, so that they can be sent in a header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TraceContext {
    parent: String,
    state: Option<String>,
}

/// Names of the two values, both in headers and in `_meta`.
const PARENT: &str = "traceparent";
const STATE: &str = "tracestate";
/// The flags of version 00: the trace is sampled, and its id is random.
const FLAGS: u8 = 0b11;
/// Maximum bytes of a `tracestate` that is passed on.
const STATE_BYTES_MAX: usize = 512;

impl TraceContext {
    /// `None` when `parent` is no valid `traceparent`. An invalid `state` is left out.
    pub fn new(parent: &str, state: Option<&str>) -> Option<Self> {
        let well_formed = |state: &&str| {
            (1..=STATE_BYTES_MAX).contains(&state.len())
                && state.bytes().all(|byte| (0x20..0x7F).contains(&byte))
                && state.contains('=')
        };
        is_parent(parent).then(|| Self {
            parent: parent.to_owned(),
            state: state.filter(well_formed).map(str::to_owned),
        })
    }

    /// That of a span inside: the same trace, with `span_id` (16 hex digits) as the parent of what follows. It has the oldest version, and
    /// only the flags that it defines, because nobody knows what the rest of a later one means.
    #[must_use]
    pub fn child(&self, span_id: &str) -> Self {
        let flags = u8::from_str_radix(&self.parent[53..55], 16).unwrap_or(0) & FLAGS;
        Self {
            parent: format!("00-{}-{span_id}-{flags:02x}", self.trace_id()),
            state: self.state.clone(),
        }
    }

    /// The value of `traceparent`.
    pub fn traceparent(&self) -> &str {
        &self.parent
    }

    pub fn state(&self) -> Option<&str> {
        self.state.as_deref()
    }

    /// The trace id: 32 hex digits.
    pub fn trace_id(&self) -> &str {
        &self.parent[3..35]
    }

    /// The id of the caller's span: 16 hex digits.
    pub fn span_id(&self) -> &str {
        &self.parent[36..52]
    }

    /// Names and values to pass on.
    pub fn fields(&self) -> impl Iterator<Item = (&'static str, &str)> {
        let state = self.state.as_deref().map(|state| (STATE, state));
        std::iter::once((PARENT, self.parent.as_str())).chain(state)
    }
}

/// `VERSION-TRACE-PARENT-FLAGS` in lower-case hex digits, neither id all zeros. Later versions may append more.
fn is_parent(text: &str) -> bool {
    let hex = |part: &str, digits: usize| {
        part.len() == digits
            && part
                .bytes()
                .all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
    };
    let id = |part: &str, digits: usize| hex(part, digits) && part.bytes().any(|byte| byte != b'0');
    let parts: Vec<&str> = text.split('-').collect();
    let [version, trace, parent, flags, rest @ ..] = parts.as_slice() else {
        return false;
    };
    hex(version, 2)
        && *version != "ff"
        && id(trace, 32)
        && id(parent, 16)
        && hex(flags, 2)
        && (rest.is_empty() || *version != "00")
        && text.len() <= STATE_BYTES_MAX
        && text.bytes().all(|byte| (0x21..0x7F).contains(&byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    const PARENT_TEXT: &str = "00-0af7651916cd43dd8448eb211c80319c-00f067aa0ba902b7-01";

    #[test]
    fn only_well_formed_trace_context_is_accepted() {
        let context = TraceContext::new(PARENT_TEXT, Some("a=1,b=2")).unwrap();
        assert_eq!(context.trace_id(), "0af7651916cd43dd8448eb211c80319c");
        assert_eq!(
            context.fields().collect::<Vec<_>>(),
            [("traceparent", PARENT_TEXT), ("tracestate", "a=1,b=2")]
        );
        let child = context.child("1111111111111111");
        assert_eq!(
            child.fields().collect::<Vec<_>>(),
            [
                (
                    "traceparent",
                    "00-0af7651916cd43dd8448eb211c80319c-1111111111111111-01"
                ),
                ("tracestate", "a=1,b=2")
            ]
        );
        let later = PARENT_TEXT.replacen("00", "0b", 1).replace("-01", "-fe-x");
        let later = TraceContext::new(&later, None).unwrap();
        assert_eq!(
            later.child("1111111111111111").traceparent(),
            "00-0af7651916cd43dd8448eb211c80319c-1111111111111111-02"
        );
        for wrong in [
            "",
            "00",
            "00-0AF7651916CD43DD8448EB211C80319C-00f067aa0ba902b7-01",
            "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
            "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
            "ff-0af7651916cd43dd8448eb211c80319c-00f067aa0ba902b7-01",
            "00-0af7651916cd43dd8448eb211c80319c-00f067aa0ba902b7-01-more",
            "00-0af7651916cd43dd8448eb211c80319c-00f067aa0ba902b7-01\r\nX: y",
        ] {
            assert!(TraceContext::new(wrong, None).is_none(), "{wrong}");
        }
        for state in ["", "a=1\r\nX: y", "ä=1", "nothing", &"a=1,".repeat(200)] {
            let context = TraceContext::new(PARENT_TEXT, Some(state)).unwrap();
            assert_eq!(context.state(), None, "{state}");
        }
    }
}
