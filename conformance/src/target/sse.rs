//! Parses the events of a `text/event-stream` body, with which a server may answer a POST.
//! Knows nothing of HTTP or JSON-RPC.

/// An event, as far as MCP uses it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Event {
    /// Its id, after which a stream can be resumed.
    pub id: Option<String>,
    /// Its data, which may be absent or an empty line. The data of an event whose name is not `message` is dropped, since no
    /// client receives it as a message.
    pub data: Option<String>,
}

/// The default name of an event.
const MESSAGE: &str = "message";

/// Whether a `Content-Type` is that of an event stream. Media types are case-insensitive (RFC 9110, 8.3.1).
pub fn is_stream(content_type: &str) -> bool {
    let media = content_type.split(';').next().unwrap_or_default();
    media.trim().eq_ignore_ascii_case("text/event-stream")
}

/// The data of each event, in order; comments, ids, retry hints, events of other names and those without data, which only let a client
/// resume a stream, are left out.
pub fn events(body: &str) -> Vec<String> {
    let data = read(body).into_iter().filter_map(|event| event.data);
    data.filter(|data| !data.is_empty()).collect()
}

/// The offset at which the last complete event ends.
pub fn end_of_events(bytes: &[u8]) -> Option<usize> {
    // A line ends with CRLF, LF or CR.
    let ends = [&b"\n\n"[..], b"\n\r\n", b"\n\r", b"\r\r"];
    let last = |end: &&[u8]| {
        let at = bytes.windows(end.len()).rposition(|seen| seen == *end)?;
        Some(at + end.len())
    };
    ends.iter().filter_map(last).max()
}

/// All events, in order.
pub fn read(body: &str) -> Vec<Event> {
    let mut events = Vec::new();
    let mut event = Event::default();
    let mut named = MESSAGE;
    for line in lines(body.strip_prefix('\u{feff}').unwrap_or(body)) {
        if line.is_empty() {
            if std::mem::replace(&mut named, MESSAGE) != MESSAGE {
                event.data = None;
            }
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
            ("event", _) if !value.is_empty() => named = value,
            ("event", _) => named = MESSAGE,
            _ => {}
        }
    }
    // The format drops an event that is not ended by a blank line.
    events
}

/// The terminated lines of a stream.
fn lines(body: &str) -> impl Iterator<Item = &str> {
    let mut rest = body;
    std::iter::from_fn(move || {
        let (line, behind) = rest.split_once(['\r', '\n'])?;
        let crlf = rest[line.len()..].starts_with("\r\n");
        rest = if crlf { &behind[1..] } else { behind };
        Some(line)
    })
}

#[cfg(test)]
mod tests {
    use super::{Event, end_of_events, events, read};

    #[test]
    fn an_event_ends_with_an_empty_line() {
        assert_eq!(end_of_events(b"data: x\n\ndata: y\n"), Some(9));
        assert_eq!(end_of_events(b"data: x\r\n\r\ndata: y\r\n"), Some(11));
        assert_eq!(end_of_events(b"data: x\n"), None);
        assert_eq!(end_of_events(b"data: x\r\n"), None);
        assert_eq!(end_of_events(b"data: x\r\rdata: y\r"), Some(9));
        assert_eq!(end_of_events(b"data: x\n\rdata: y\n"), Some(9));
    }

    #[test]
    fn a_line_ends_in_three_ways() {
        for body in [
            "data: x\ndata: y\n\n",
            "data: x\r\ndata: y\r\n\r\n",
            "data: x\rdata: y\r\r",
            "data: x\rdata: y\n\r",
        ] {
            assert_eq!(events(body), ["x\ny"], "{body:?}");
        }
    }

    #[test]
    fn events_with_other_names_are_not_messages() {
        let body = "event: ping\nid: 1\ndata: now\n\nevent: message\ndata: x\n\nevent:\ndata: y\n\ndata: z\n\n";
        assert_eq!(events(body), ["x", "y", "z"]);
        assert_eq!(read(body)[0].id.as_deref(), Some("1"));
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
        assert_eq!(events(body), ["x"]);
    }
}
