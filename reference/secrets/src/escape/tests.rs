//! Every form of an escape, and the character it stands for.

use super::names::Names;
use super::*;

#[test]
fn names_without_semicolon_fit_the_length_range() {
    let open = Names::all().filter(|(name, _)| !name.ends_with(b";"));
    let lengths: std::collections::BTreeSet<usize> = open.map(|(name, _)| name.len()).collect();
    assert_eq!(lengths.first(), Some(OPEN_NAME_LETTERS.start()));
    assert_eq!(lengths.last(), Some(OPEN_NAME_LETTERS.end()));
}

fn read(text: &str) -> Readings {
    let mut readings = Readings::new();
    let mut escapes = Escapes::new(text.as_bytes());
    match escapes.read_single(0) {
        Some(one) => readings.push(one),
        None => escapes.read(0, &mut readings, &mut Watch::unlimited()),
    }
    readings
}

fn decoded(text: &str) -> Vec<String> {
    let readings = read(text);
    let whole = readings.iter().filter(|reading| reading.end == text.len());
    whole
        .map(|reading| String::from_utf8_lossy(reading.bytes()).into_owned())
        .collect()
}

/// The fast paths give the same readings as the full parser: random texts of a few characters (up to eleven), and of entities and
/// parts of them.
#[test]
fn fast_path_agrees_with_the_full_parser() {
    let letters = b"\\\\\\%%2f5nq0uxe\"&&;#amp";
    let parts = [
        "&", "&amp;", "&lt;", "&lt", "&q", "&#39;", "&#x3A;", "&#", "%26", "amp;", "lt;", "gt",
        ";", "#", "x", "7", " ", "\\",
    ];
    let mut random = fastrand::Rng::with_seed(5);
    let (mut usual, mut alone, mut entities) = (0, 0, 0);
    for number in 0..600_000 {
        // Some begin with a long run of backslashes.
        let run = match random.usize(..4) {
            0 => random.usize(..17),
            _ => 0,
        };
        let mut text = vec![b'\\'; run];
        let more = random.usize(1..12);
        match number % 2 {
            0 => text.extend((0..more).map(|_| letters[random.usize(..letters.len())])),
            _ => (0..more.min(5)).for_each(|_| {
                text.extend_from_slice(parts[random.usize(..parts.len())].as_bytes());
            }),
        }
        if !introduces(text[0]) {
            continue;
        }
        let mut quick = Readings::new();
        let mut escapes = Escapes::new(&text);
        let is_usual = escapes.read_usual(0, &mut quick);
        if is_usual {
            usual += 1;
            entities += usize::from(text[0] == b'&' && !quick.is_empty());
        } else if escapes.read_alone(0, &mut quick) {
            alone += 1;
        } else {
            continue;
        }
        let mut slow = Readings::new();
        escapes.known = 0..text.len();
        escapes.places = vec![Place::default(); text.len()];
        for at in (0..text.len()).rev().filter(|at| introduces(text[*at])) {
            slow.clear();
            escapes.read_all(at, &mut slow);
            escapes.places[at].escapes = escapes.store(&slow);
        }
        // The layer matters only where an escape is a character of another one.
        if !is_usual {
            let forget = |reading: &mut Reading| reading.layer = 0;
            quick.iter_mut().chain(&mut slow).for_each(forget);
        }
        let order = |reading: &Reading| (reading.end, reading.bytes().to_vec(), reading.style);
        slow.sort_by_key(order);
        quick.sort_by_key(order);
        assert_eq!(quick[..], slow[..], "{}", String::from_utf8_lossy(&text));
    }
    assert!(usual > 10_000, "only {usual} were usual");
    assert!(entities > 10_000, "only {entities} were entities");
    assert!(alone > 10_000, "only {alone} stood alone");
}

#[test]
fn every_escape_decodes_to_its_character() {
    for (text, expected) in [
        ("%2f", "/"),
        ("%2F", "/"),
        ("%252F", "/"),
        ("%25252F", "/"),
        ("%u00e4", "ä"),
        ("\\/", "/"),
        ("\\\\/", "/"),
        ("\\\\\\/", "/"),
        ("\\\"", "\""),
        ("\\\\\\\"", "\""),
        ("\\\\\\\\\\\\\\\"", "\""),
        ("\\u002f", "/"),
        ("\\\\u002F", "/"),
        ("\\\\\\\\u002F", "/"),
        ("\\u{2f}", "/"),
        ("\\x2f", "/"),
        ("\\057", "/"),
        ("\\U0000002f", "/"),
        ("\\ud83d\\ude00", "😀"),
        ("\\\\ud83d\\\\ude00", "😀"),
        ("\\xe4", "ä"),
        ("&#47;", "/"),
        ("&#0047", "/"),
        ("&#x2f;", "/"),
        ("&#X2F", "/"),
        ("&sol;", "/"),
        ("&amp;", "&"),
        ("&amp", "&"),
        ("&amp;#x2f;", "/"),
        ("&amp;amp;sol;", "/"),
        ("&#38;#47;", "/"),
        ("%26%2347%3B", "/"),
        ("\\u0026#47;", "/"),
        ("\\u00252f", "/"),
        ("&auml;", "ä"),
        ("%5Cu002f", "/"),
        ("%5c%2f", "/"),
        ("&#92;\\", "\\"),
        ("%5c\\", "\\"),
        ("&amp;#92;\\", "\\"),
        ("\\n", "\n"),
        ("%255C%255C%255C%2522", "\""),
        ("%252526amp%25253B", "&"),
        ("%25%32%35%36%31", "a"),
        ("%25253%37", "7"),
        ("&#38;#38;#4&#53;;", "-"),
        ("%257%31", "q"),
        ("\\\\x7\\x31", "q"),
        ("&amp;#&#x35;7;", "9"),
        ("&#%357;", "9"),
        // Eight digits, each with several readings in deeper layers.
        (
            "\\\\\\u0075\\u0030\\u0030\\u0035\\u0043\\\\\\u0075\\u0030\\u0030\\u0035\\u0035\\\\\\u0030\\u0036\
             \\u0030\\\\\\u0030\\u0036\\u0030\\\\\\u0030\\u0036\\u0030\\\\\\u0075\\u0030\\u0030\\u0033\\u0030\
             \\\\\\u0030\\u0036\\u0030\\\\\\u0030\\u0036\\u0030\\u0032\\\\\\u0055\\u0030\\u0030\\u0030\\u0030\
             \\u0030\\u0030\\u0036\\u0032",
            "+",
        ),
    ] {
        assert!(
            decoded(text).contains(&expected.to_owned()),
            "{text}: {:?}",
            decoded(text)
        );
    }
    for text in [
        "%2",
        "%zz",
        "\\q",
        "&nonsense;",
        "&#;",
        "\\u12",
        "%%",
        "&",
        // A writer that escapes these digits this way would escape the introducer this way, too.
        "%7%31",
        "\\x7\\x31",
        "&#&#x35;7;",
    ] {
        let readings = read(text);
        assert!(readings.is_empty(), "{text}: {readings:?}");
        assert_eq!(decoded(text), Vec::<String>::new(), "{text}");
    }
}
