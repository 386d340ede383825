//! Reads the events of a `text/event-stream` body, which a server may answer a POST with.
//! Knows nothing of HTTP or JSON-RPC.

/// The data of each event, in order; comments, event names, ids and retry hints are left out.
pub fn events(body: &str) -> Vec<String> {
    let mut events = Vec::new();
    let mut data: Option<String> = None;
    for line in body.strip_prefix('\u{feff}').unwrap_or(body).lines() {
        if line.is_empty() {
            events.extend(data.take());
            continue;
        }
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        if field == "data" {
            let value = value.strip_prefix(' ').unwrap_or(value);
            match &mut data {
                Some(data) => {
                    data.push('\n');
                    data.push_str(value);
                }
                None => data = Some(value.to_owned()),
            }
        }
    }
    // The format drops an event that no blank line ended.
    events
}

#[cfg(test)]
mod tests {
    use super::events;

    #[test]
    fn data_lines_join_and_unfinished_events_are_dropped() {
        let body =
            ": hello\nevent: message\nid: 1\ndata: {\"a\":\ndata: 1}\n\ndata:x\n\ndata: lost\n";
        assert_eq!(events(body), ["{\"a\":\n1}", "x"]);
    }
}
