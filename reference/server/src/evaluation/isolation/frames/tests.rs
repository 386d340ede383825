//! Round trips of frames; hostile bytes are read or refused.

use super::*;

#[test]
fn frames_survive_any_split_of_their_bytes() {
    let frame = ToServer::Ask {
        number: 7,
        question: HostRequest::Call {
            tool: "call".into(),
            arguments: vec![1; 100],
        },
    };
    let bytes = encode(&frame).unwrap();
    for cut in 1..bytes.len() {
        let mut inbox = FrameReader::default();
        for part in [&bytes[..cut], &bytes[cut..]] {
            assert!(inbox.next::<ToServer>(1_000).unwrap().is_none());
            assert!(inbox.fill(part).unwrap());
        }
        let found = inbox.next::<ToServer>(1_000).unwrap().unwrap();
        assert_eq!(format!("{found:?}"), format!("{frame:?}"));
        assert!(!inbox.fill(&[][..]).unwrap());
    }
}

#[test]
fn send_writes_what_encode_returns() {
    for bytes in [0, 1, 100, 100_000] {
        let frame = ToServer::Done(RunResult {
            end: RunEnd::Value,
            left: vec![7; bytes],
            changed: "a\nb".into(),
        });
        let mut sent = Vec::new();
        send(&mut sent, &frame).unwrap();
        assert_eq!(sent, encode(&frame).unwrap());
    }
}

#[test]
fn oversized_or_malformed_frames_are_rejected_before_allocation() {
    let mut inbox = FrameReader::default();
    inbox.fill(&[0xff, 0xff, 0xff, 0x7f, 0][..]).unwrap();
    assert!(inbox.next::<ToServer>(1_000).is_err());
    let mut long = encode(&ToServer::Printed("x".repeat(2_000))).unwrap();
    let mut inbox = FrameReader::default();
    inbox.fill(&long[..]).unwrap();
    assert!(inbox.next::<ToServer>(1_000).is_err());
    // A length that is claimed inside a frame allocates nothing.
    long.truncate(12);
    long[0] = 8;
    long[1] = 0;
    let mut inbox = FrameReader::default();
    inbox.fill(&long[..]).unwrap();
    assert!(inbox.next::<ToServer>(1_000).is_err());
}

/// Bytes from a compromised process: each sequence is read as a frame or refused.
#[test]
fn arbitrary_bytes_are_decoded_or_rejected() {
    const BYTES_MAX: usize = 4_096;
    let question = |question| ToServer::Ask {
        number: 3,
        question,
    };
    let frames = [
        ToServer::Ready(Confinement { landlock: true }),
        ToServer::Began,
        ToServer::Printed("a line".into()),
        ToServer::Failed("why".into()),
        question(HostRequest::Now),
        question(HostRequest::Quotes(vec!["quoted".into(), "again".into()])),
        question(HostRequest::Apropos {
            query: "q".into(),
            limit: u64::MAX,
            load: true,
            local: vec![0x9f; 40],
        }),
        ToServer::Done(RunResult {
            end: RunEnd::Error {
                reason: "timeout".into(),
                code: String::new(),
                message: "m".into(),
                span: Some((9, 2)),
                explained: "e".into(),
            },
            left: vec![0xff; 60],
            changed: "a\nb".into(),
        }),
    ];
    let mut random = fastrand::Rng::with_seed(11);
    let (mut read, mut refused) = (0, 0);
    for round in 0..20_000 {
        let frame = &frames[round % frames.len()];
        let mut bytes = encode(frame).unwrap();
        for _ in 0..random.usize(..4) {
            let at = random.usize(..bytes.len());
            bytes[at] = random.u8(..);
        }
        if random.u8(..) == 0 {
            bytes.extend_from_within(..);
        }
        let mut inbox = FrameReader::default();
        let mut rest = &bytes[..];
        while !rest.is_empty() {
            let (part, behind) = rest.split_at(random.usize(1..=rest.len()));
            rest = behind;
            assert!(inbox.fill(part).unwrap());
            match inbox.next::<ToServer>(BYTES_MAX) {
                Ok(Some(_)) => read += 1,
                Ok(None) => {}
                Err(_) => {
                    refused += 1;
                    break;
                }
            }
        }
    }
    assert!(
        read > 1_000 && refused > 1_000,
        "{read} read, {refused} refused"
    );
}
