//! Reads the events of a `text/event-stream` body, which a server may answer a POST with.
//! Knows nothing of HTTP or JSON-RPC.

/// An event, as far as MCP has a use for it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Event {
    /// Its id, by which a stream is resumed behind it.
    pub id: Option<String>,
    /// Its data. There may be none, or none but an empty line.
    pub data: Option<String>,
}

/// Whether a `Content-Type` is that of an event stream. Media types have no case (RFC 9110, 8.3.1).
pub fn is_stream(content_type: &str) -> bool {
    let media = content_type.split(';').next().unwrap_or_default();
    media.trim().eq_ignore_ascii_case("text/event-stream")
}

/// The data of each event, in order; comments, event names, ids and retry hints are left out.
pub fn events(body: &str) -> Vec<String> {
    let events = read(body).into_iter();
    events.filter_map(|event| event.data).collect()
}

/// Where the last event that is complete ends.
pub fn end_of_events(bytes: &[u8]) -> Option<usize> {
    let ends = [&b"\n\n"[..], b"\n\r\n"];
    let last = |end: &&[u8]| {
        let at = bytes.windows(end.len()).rposition(|seen| seen == *end)?;
        Some(at + end.len())
    };
    ends.iter().filter_map(last).max()
}

/// Each event, in order.
pub fn read(body: &str) -> Vec<Event> {
    let mut events = Vec::new();
    let mut event = Event::default();
    for line in body.strip_prefix('\u{feff}').unwrap_or(body).lines() {
        if line.is_empty() {
            if event != Event::default() {
                events.push(std::mem::take(&mut event));
            }
            continue;
        }
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match (field, &mut event.data) {
            ("data", Some(data)) => {
                data.push('\n');
                data.push_str(value);
            }
            ("data", data) => *data = Some(value.to_owned()),
            ("id", _) => event.id = Some(value.to_owned()),
            _ => {}
        }
    }
    // The format drops an event that no blank line ended.
    events
}

#[cfg(test)]
mod tests {
    use super::{Event, end_of_events, events, read};

    #[test]
    fn an_event_ends_with_an_empty_line() {
        assert_eq!(end_of_events(b"data: x\n\ndata: y\n"), Some(9));
        assert_eq!(end_of_events(b"data: x\r\n\r\ndata: y\r\n"), Some(11));
        assert_eq!(end_of_events(b"data: x\n"), None);
    }

    #[test]
    fn data_lines_join_and_unfinished_events_are_dropped() {
        let body =
            ": hello\nevent: message\nid: 1\ndata: {\"a\":\ndata: 1}\n\ndata:x\n\ndata: lost\n";
        assert_eq!(events(body), ["{\"a\":\n1}", "x"]);
    }

    #[test]
    fn an_event_without_data_keeps_its_id() {
        let event = |id: Option<&str>, data: Option<&str>| Event {
            id: id.map(str::to_owned),
            data: data.map(str::to_owned),
        };
        let body = "id: 1\nretry: 3000\ndata:\n\nid: 2\n\n: comment\n\ndata: x\n\n";
        let seen = [
            event(Some("1"), Some("")),
            event(Some("2"), None),
            event(None, Some("x")),
        ];
        assert_eq!(read(body), seen);
    }
}
