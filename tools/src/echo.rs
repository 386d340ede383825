//! A JSON-RPC server that does nothing: every request gets an empty result. Its cost is the minimum for any server.
//! Knows no methods.

use std::io::{ErrorKind, Read, Write};

use anyhow::Result;

/// Bytes read at once.
const CHUNK_BYTES: usize = 64 << 10;

/// Answers until the end of input.
///
/// # Errors
/// When reading or writing fails.
pub fn run() -> Result<()> {
    let (mut input, mut output) = (std::io::stdin().lock(), std::io::stdout().lock());
    let (mut chunk, mut lines, mut replies) = (vec![0; CHUNK_BYTES], Vec::new(), Vec::new());
    loop {
        match input.read(&mut chunk) {
            Ok(0) => return Ok(()),
            Ok(read) => lines.extend_from_slice(&chunk[..read]),
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(error) => return Err(error.into()),
        }
        let Some(end) = lines.iter().rposition(|byte| *byte == b'\n') else {
            continue;
        };
        for line in lines.drain(..=end).as_slice().split(|byte| *byte == b'\n') {
            answer(line, &mut replies);
        }
        output.write_all(&replies).and_then(|()| output.flush())?;
        replies.clear();
    }
}

/// Answers a request; ignores a notification.
fn answer(line: &[u8], replies: &mut Vec<u8>) {
    let request = serde_json::from_slice::<serde_json::Value>(line).ok();
    if let Some(id) = request.as_ref().and_then(|request| request.get("id")) {
        let reply = format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{{}}}}\n");
        replies.extend_from_slice(reply.as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_answered_and_notifications_are_not() {
        let mut replies = Vec::new();
        answer(br#"{"jsonrpc":"2.0","method":"a"}"#, &mut replies);
        answer(br#"{"jsonrpc":"2.0","id":"x","method":"b"}"#, &mut replies);
        answer(b"", &mut replies);
        let replies = String::from_utf8(replies).unwrap();
        assert_eq!(
            replies,
            "{\"jsonrpc\":\"2.0\",\"id\":\"x\",\"result\":{}}\n"
        );
    }
}
