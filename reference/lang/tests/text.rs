//! Text functions compared with simple models, and texts that are read back, through the public interface.

mod values;

use proptest::prelude::*;
use ptc_lang::sink::Sink;
use ptc_lang::value::{BigInt, Map, Text};
use ptc_lang::{Ended, Env, Host, Limits, Program, Value, json, print, run};
use unicode_segmentation::UnicodeSegmentation;
use values::{leaf, rich_text, value};

ptc_lang::counting_allocator!();

struct NullHost;

impl Host for NullHost {
    fn now_micros(&self) -> i64 {
        0
    }
}

/// The value of `program`, with `context` as its context.
fn check(program: &str, context: &[(&str, Value)]) -> Value {
    let context = context
        .iter()
        .map(|(name, value)| (Value::from(*name), value.clone()))
        .collect::<Map>();
    let env = Env::new().with_context(context);
    let limits = Limits::default();
    let (outcome, _) = run(&Program::new(program), &env, &limits, &NullHost);
    match outcome.ended {
        Ended::Value(value) => value,
        other => panic!("{program}: {other:?}"),
    }
}

fn text_of(value: &Value) -> String {
    match value {
        Value::Str(text) => text.to_string(),
        other => panic!("a string, not {other:?}"),
    }
}

fn graphemes(text: &str) -> Vec<&str> {
    text.graphemes(true).collect()
}

/// A value that survives a round trip through JSON.
fn json_value() -> impl Strategy<Value = Value> {
    let leaf = leaf().prop_filter("JSON has no keywords and infinities", |leaf| match leaf {
        Value::Float(float) => float.is_finite(),
        Value::Keyword(_) => false,
        _ => true,
    });
    leaf.prop_recursive(4, 40, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            prop::collection::vec((rich_text(), inner), 0..6).prop_map(|entries| {
                let entries = entries.into_iter();
                Value::Map(entries.map(|(key, value)| (key.into(), value)).collect())
            }),
        ]
    })
}

/// `numerator / denominator`, not negative, rounded to an integer with halves away from zero.
fn rounded(numerator: &BigInt, denominator: &BigInt) -> BigInt {
    (numerator * 2 + denominator) / (denominator * 2)
}

/// The exact value of a double that is not negative.
fn ratio(float: f64) -> (BigInt, BigInt) {
    let bits = float.to_bits();
    let (exponent, fraction) = ((bits >> 52) as i64 & 0x7ff, bits & ((1 << 52) - 1));
    let (mantissa, exponent) = match exponent {
        0 => (fraction, -1074),
        _ => (fraction | 1 << 52, exponent - 1075),
    };
    let power = BigInt::from(1) << exponent.unsigned_abs();
    if exponent < 0 {
        (mantissa.into(), power)
    } else {
        (BigInt::from(mantissa) * power, BigInt::from(1))
    }
}

fn power_of_ten(exponent: u32) -> BigInt {
    BigInt::from(10).pow(exponent)
}

/// Doubles that are often exact halves after a few decimal places.
fn float() -> impl Strategy<Value = f64> {
    prop_oneof![
        any::<f64>().prop_filter("finite", |float| float.is_finite()),
        (any::<i32>(), 0u32..12)
            .prop_map(|(size, places)| f64::from(size) / f64::from(1 << places)),
        (0u32..100_000, 0i32..8).prop_map(|(size, places)| f64::from(size) / 10f64.powi(places)),
    ]
}

/// Long text with graphemes of one byte, of several bytes, and of several code points.
fn long_text() -> impl Strategy<Value = String> {
    let part = prop::sample::select(vec![
        "a",
        "é",
        "e\u{301}",
        "\r\n",
        "🇨🇭",
        "👩\u{200d}🚀",
        "漢",
        " ",
    ]);
    prop::collection::vec(part, 0..700).prop_map(|parts| parts.concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn long_text_positions_count_graphemes(text in long_text(), at in 0usize..720) {
        let parts = graphemes(&text);
        let given = Text::from(&*text);
        // Twice, because the first look-up may build an index.
        for _ in 0..2 {
            prop_assert_eq!(given.count(), parts.len());
            prop_assert_eq!(given.grapheme(at), parts.get(at).copied());
            let offset = (at <= parts.len()).then(|| parts[..at].concat().len());
            prop_assert_eq!(given.byte_offset(at), offset);
            if let Some(offset) = offset {
                prop_assert_eq!(given.grapheme_index(offset), at);
            }
        }
    }

    #[test]
    fn printed_values_read_back(value in value()) {
        let printed = print::readable(&value);
        prop_assert_eq!(&check(&printed, &[]), &value, "{}", printed);
        let by_program = check("(pr-str data/v)", &[("v", value)]);
        prop_assert_eq!(text_of(&by_program), printed);
    }

    #[test]
    fn json_reads_back(value in json_value()) {
        let written = json::to_string(&value).unwrap();
        prop_assert_eq!(&json::from_str(&written).unwrap(), &value, "{}", written);
        let again = check("(json/parse-string (json/generate-string data/v))", &[("v", value.clone())]);
        prop_assert_eq!(again, value);
    }

    #[test]
    fn previews_are_truncated_at_their_limit(value in value(), graphemes_max in 0usize..40) {
        let preview = print::preview(&value, 3, graphemes_max);
        let note = format!(" ... (truncated at {graphemes_max} chars; use println on specific fields)");
        let mut whole = Sink::unbounded();
        print::write_preview(&mut whole, &value, 3).expect("there is room");
        let whole = whole.into_text();
        match preview.strip_suffix(&note) {
            Some(shown) => prop_assert_eq!(shown, graphemes(&whole)[..graphemes_max].concat()),
            None => prop_assert_eq!(preview, whole),
        }
    }

    #[test]
    fn substrings_count_graphemes(text in rich_text(), start in 0usize..12, end in 0usize..12) {
        let parts = graphemes(&text);
        let model = parts.get(start.min(parts.len())..end.min(parts.len())).unwrap_or_default().concat();
        let context = [("s", text.as_str().into()), ("start", start.into()), ("end", end.into())];
        let found = check("(subs data/s data/start data/end)", &context);
        prop_assert_eq!(text_of(&found), model);
        prop_assert_eq!(check("(.length data/s)", &context), Value::from(parts.len()));
        let shared = check("(= (split data/s \"\") (if (= data/s \"\") [\"\"] (vec data/s)))", &context);
        prop_assert_eq!(shared, Value::Bool(true));
    }

    #[test]
    fn indexes_count_graphemes(text in rich_text(), wanted in "[a-c ,]{0,2}|e|\u{301}|👩|🚀", from in 0usize..8) {
        let starts: Vec<usize> = text.grapheme_indices(true).map(|(at, _)| at).chain([text.len()]).collect();
        let grapheme_of = |at: usize| starts.iter().rposition(|start| *start <= at).unwrap();
        let from_byte = starts.get(from).copied().unwrap_or(text.len());
        let places: Vec<usize> = (0..=text.len())
            .filter(|at| text.get(*at..).is_some_and(|rest| rest.starts_with(&wanted)))
            .collect();
        let first = places.iter().find(|at| **at >= from_byte).map(|at| grapheme_of(*at));
        let last = places.iter().rfind(|at| grapheme_of(**at) <= from).map(|at| grapheme_of(*at));
        let context = [("s", text.as_str().into()), ("w", wanted.as_str().into()), ("from", from.into())];
        let found = check("(index-of data/s data/w data/from)", &context);
        prop_assert_eq!(found, first.map_or(Value::Nil, Value::from));
        let found = check("(last-index-of data/s data/w data/from)", &context);
        prop_assert_eq!(found, last.map_or(Value::Nil, Value::from));
    }

    #[test]
    fn split_text_joins_back(parts in prop::collection::vec("[a-z]{0,3}", 1..6)) {
        let text = parts.join(",");
        let context = [("s", text.as_str().into()), ("parts", Value::vector(parts.iter().map(|part| part.as_str().into()).collect()))];
        prop_assert_eq!(text_of(&check("(join \",\" data/parts)", &context)), text.clone());
        let split = check("(split data/s #\",\")", &context);
        prop_assert_eq!(&split, &check("(split data/s \",\")", &context));
        let joined = check("(join \",\" (split data/s #\",\"))", &context);
        let trimmed = text.trim_end_matches(',');
        prop_assert_eq!(text_of(&joined), trimmed);
        let (found, wanted) = (check("(re-seq #\"[^,]+\" data/s)", &context), check("(filterv (fn [p] (not= p \"\")) data/parts)", &context));
        prop_assert_eq!(found, wanted);
    }

    #[test]
    fn replace_agrees_with_std(text in rich_text(), wanted in "[a-c]{0,2}", with in "[$0-9x]{0,4}") {
        let context = [("s", text.as_str().into()), ("w", wanted.as_str().into()), ("r", with.as_str().into())];
        let replaced = check("(replace data/s data/w data/r)", &context);
        prop_assert_eq!(text_of(&replaced), text.replace(&wanted, &with));
        let by_regex = check("(replace data/s (re-pattern data/w) \"<$0>\")", &context);
        prop_assert_eq!(text_of(&by_regex), text.replace(&wanted, &format!("<{wanted}>")));
    }

    #[test]
    fn fixed_notation_rounds_exactly(float in float(), places in 0u32..12) {
        let written = text_of(&check(&format!("(format \"%.{places}f\" data/x)"), &[("x", float.into())]));
        let (numerator, denominator) = ratio(float.abs());
        let model = rounded(&(numerator * power_of_ten(places)), &denominator);
        let digits = written.replace(['.', '-'], "");
        prop_assert_eq!(digits.parse::<BigInt>().unwrap(), model, "{}", written);
        prop_assert_eq!(written.starts_with('-'), float.is_sign_negative());
        let fraction = written.split_once('.').map_or("", |(_, fraction)| fraction);
        prop_assert_eq!(fraction.len() as u32, places);
    }

    #[test]
    fn scientific_notation_rounds_exactly(float in float(), places in 0u32..12) {
        prop_assume!(float != 0.0);
        let written = text_of(&check(&format!("(format \"%.{places}e\" data/x)"), &[("x", float.into())]));
        let (mantissa, exponent) = written.split_once('e').unwrap();
        let digits = mantissa.replace(['.', '-'], "");
        prop_assert_eq!(digits.len() as u32, places + 1, "{}", written);
        prop_assert!(!digits.starts_with('0'), "{}", written);
        let (mut numerator, mut denominator) = ratio(float.abs());
        let scale = places as i32 - exponent.parse::<i32>().unwrap();
        match u32::try_from(scale) {
            Ok(scale) => numerator *= power_of_ten(scale),
            Err(_) => denominator *= power_of_ten(scale.unsigned_abs()),
        }
        let model = rounded(&numerator, &denominator);
        prop_assert_eq!(digits.parse::<BigInt>().unwrap(), model, "{}", written);
    }

    #[test]
    fn number_parsing_agrees_with_std(text in "[-+]?[0-9]{0,20}(\\.[0-9]{0,4})?(e-?[0-9]{1,2})?| 1|1 |0x1|1_0|inf|nan") {
        let context = [("s", text.as_str().into())];
        let long = text.parse::<i64>().map_or(Value::Nil, Value::Int);
        prop_assert_eq!(check("(parse-long data/s)", &context), long);
        let double = match text.trim_ascii() {
            "inf" | "nan" => Value::Nil,
            number => number.parse().map_or(Value::Nil, Value::Float),
        };
        prop_assert_eq!(check("(parse-double data/s)", &context), double);
    }
}
