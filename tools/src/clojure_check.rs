//! `cargo tool clojure-check`: the programs of the corpus in JVM Clojure, and the list of those that give
//! something else, each with the divergence that says why. Knows nothing of how programs are evaluated.

use std::io::{self, Write};
use std::process::{Command, Stdio};

use serde_json::Value;

/// Files of programs; the others ask for a server or for errors, which Clojure words otherwise.
const AREAS: &[&str] = &[
    "aggregates-order",
    "maps-sets",
    "numbers",
    "printing",
    "programs",
    "reader",
    "seqs",
    "special-forms",
    "strings",
    "time",
];

/// Evaluates what it is given in one JVM.
const SCRIPT: &str = include_str!("clojure_check.clj");

/// What stands somewhere in a disagreement, and the divergence that explains it: the first row counts.
const SIGNS: &[(Where, &str, &str)] = &[
    (Where::Id, "/flex-", "clojure.lang.flexible-keys"),
    (Where::Id, "string-keyed", "clojure.lang.flexible-keys"),
    (Where::Id, "string-key-flex", "clojure.lang.flexible-keys"),
    (
        Where::Id,
        "special-forms/destructure-map/",
        "clojure.lang.flexible-keys",
    ),
    (
        Where::Id,
        "special-forms/calling/",
        "clojure.lang.flexible-keys",
    ),
    (
        Where::Id,
        "maps-sets/destructuring/",
        "clojure.lang.flexible-keys",
    ),
    (Where::Id, "maps-sets/get-in/", "clojure.lang.flexible-keys"),
    (Where::Id, "maps-sets/find/", "clojure.lang.flexible-keys"),
    (Where::Id, "maps-sets/select-keys/", "clojure.library.keys"),
    (Where::Id, "maps-sets/update-", "clojure.library.keys"),
    (
        Where::Answer,
        "class java.lang.Character",
        "clojure.reader.characters",
    ),
    (
        Where::Answer,
        "java.lang.Character",
        "clojure.reader.characters",
    ),
    (
        Where::Answer,
        "on this type: Character",
        "clojure.reader.characters",
    ),
    (Where::Id, "reader/characters/", "clojure.reader.characters"),
    (Where::Id, "strings/char/", "clojure.reader.characters"),
    (Where::Id, "time/", "clojure.library.time"),
    (Where::Id, "date", "clojure.library.time"),
    (Where::Id, "temporal", "clojure.library.time"),
    (Where::Id, "numbers/matrix/", "clojure.library.numbers"),
    (Where::Answer, "long overflow", "clojure.library.numbers"),
    (Where::Answer, "Divide by zero", "clojure.library.numbers"),
    (
        Where::Id,
        "numbers/quot-rem-mod/",
        "clojure.library.numbers",
    ),
    (Where::Id, "numbers/divide/", "clojure.library.numbers"),
    (Where::Id, "numbers/rounding/", "clojure.library.numbers"),
    (Where::Id, "numbers/convert/", "clojure.library.numbers"),
    (Where::Id, "numbers/bitwise/", "clojure.library.numbers"),
    (
        Where::Id,
        "slash-alone-is-division",
        "clojure.library.numbers",
    ),
    (Where::Id, "numbers/literal/octal", "clojure.reader.numbers"),
    (Where::Id, "many-leading-zeros", "clojure.reader.numbers"),
    (Where::Id, "numbers/parse/", "clojure.library.parsing"),
    (
        Where::Id,
        "numbers/predicate/",
        "clojure.library.predicates",
    ),
    (Where::Id, "numbers/order/", "clojure.library.order"),
    (Where::Id, "numbers/equality/", "clojure.library.order"),
    (Where::Id, "numbers/min-max/", "clojure.library.order"),
    (Where::Id, "maps-sets/equality/", "clojure.library.order"),
    (Where::Id, "maps-sets/contains/", "clojure.library.contains"),
    (
        Where::Id,
        "aggregates-order/unicode-strings/",
        "clojure.library.graphemes",
    ),
    (Where::Id, "aggregates-order/", "clojure.library.order"),
    (Where::Id, "strings/grapheme", "clojure.library.graphemes"),
    (Where::Id, "strings/seq", "clojure.library.graphemes"),
    (Where::Id, "strings/subs/", "clojure.library.out-of-range"),
    (Where::Id, "strings/index-of/", "clojure.library.graphemes"),
    (Where::Id, "combining", "clojure.library.graphemes"),
    (Where::Id, "emoji", "clojure.library.graphemes"),
    (Where::Id, "unicode", "clojure.library.graphemes"),
    (Where::Id, "crlf", "clojure.library.graphemes"),
    (
        Where::Id,
        "seqs/strings-as-sequences/",
        "clojure.library.graphemes",
    ),
    (Where::Id, "/string", "clojure.library.graphemes"),
    (Where::Id, "strings/split/", "clojure.library.split"),
    (Where::Id, "strings/replace/", "clojure.library.split"),
    (Where::Id, "strings/format/", "clojure.library.format"),
    (Where::Id, "strings/pr-str/", "clojure.lang.printing"),
    (Where::Id, "strings/str/", "clojure.lang.printing"),
    (Where::Id, "strings/join/", "clojure.lang.printing"),
    (Where::Id, "printing/", "clojure.lang.printing"),
    (Where::Id, "seqs/subvec/", "clojure.library.out-of-range"),
    (Where::Id, "seqs/pop/", "clojure.library.out-of-range"),
    (Where::Id, "order", "clojure.lang.order"),
    (Where::Id, "sorted", "clojure.lang.order"),
    (Where::Id, "seqs/maps-as-sequences/", "clojure.lang.order"),
    (Where::Id, "maps-sets/key-val/", "clojure.lang.order"),
    (Where::Id, "seqs/", "clojure.library.vectors"),
    (
        Where::Id,
        "special-forms/destructure-vector/",
        "clojure.lang.sequences",
    ),
    (Where::Id, "special-forms/fn/rest", "clojure.lang.sequences"),
    (
        Where::Id,
        "special-forms/effects/",
        "clojure.lang.sequences",
    ),
    (Where::Id, "special-forms/def/", "clojure.lang.sequences"),
    (Where::Id, "special-forms/fn/pre", "clojure.lang.conditions"),
    (Where::Id, "special-forms/case/", "clojure.lang.case"),
    (Where::Id, "reader/short-fn/", "clojure.lang.short-fn"),
    (Where::Id, "lone-cr", "clojure.reader.whitespace"),
    (
        Where::Id,
        "maps-sets/map-entry-pred/",
        "clojure.library.vectors",
    ),
];

/// Where a sign is looked for.
enum Where {
    Id,
    Answer,
}

/// Runs the check and writes the list.
///
/// Errors: Clojure is not there, or did not answer.
pub fn run() -> Result<(), String> {
    let answers = clojure(&programs()?)?;
    let mut unexplained = 0usize;
    let mut list = String::new();
    let mut compared = "";
    for line in answers.lines() {
        let mut columns = line.splitn(3, '\t');
        let (Some(id), Some(expected), Some(answer)) =
            (columns.next(), columns.next(), columns.next())
        else {
            continue;
        };
        if id == "compared" {
            compared = expected;
            continue;
        }
        let why = divergence(id, answer).unwrap_or_else(|| {
            unexplained += 1;
            "-"
        });
        list += &format!("{id}\t{why}\t{expected}\t{answer}\n");
    }
    let differ = list.lines().count();
    list += &format!(
        "{compared} programs compared, {differ} differ, {unexplained} of them without a recorded divergence (-)\n"
    );
    crate::say(&list);
    Ok(())
}

/// The divergence that explains why `id` gives `answer` in Clojure.
fn divergence(id: &str, answer: &str) -> Option<&'static str> {
    let found = SIGNS.iter().find(|(place, sign, _)| match place {
        Where::Id => id.contains(sign),
        Where::Answer => answer.contains(sign),
    });
    found.map(|(.., divergence)| *divergence)
}

/// Ids, programs and results as Clojure reads them.
fn programs() -> Result<String, String> {
    let mut all = "[".to_owned();
    for area in AREAS {
        let path = crate::root().join(format!("spec/corpus/{area}.jsonl"));
        let text = std::fs::read_to_string(&path)
            .map_err(|error| format!("{}: {error}", path.display()))?;
        for line in text.lines() {
            let case: Value = serde_json::from_str(line)
                .map_err(|error| format!("{}: {error}", path.display()))?;
            if let Some(case) = in_both(&case) {
                all += &case;
            }
        }
    }
    all.push(']');
    Ok(all)
}

/// A case whose program needs nothing that only our language has, as a vector of strings.
fn in_both(case: &Value) -> Option<String> {
    let program = case["program"].as_str()?;
    let result = case["expect"]["result"].as_str()?;
    let ours = case.get("context").is_some()
        || case["expect"].get("truncated").is_some()
        || ["data/", "tool/"].iter().any(|name| program.contains(name))
        || ["#fn[", "#'"].iter().any(|text| result.contains(text));
    let result = result.strip_prefix("user=> ").unwrap_or(result);
    // Text in JSON is text in Clojure.
    (!ours).then(|| {
        format!(
            "[{} {} {}]\n",
            case["id"],
            case["program"],
            Value::from(result)
        )
    })
}

/// What the script prints for `programs`.
fn clojure(programs: &str) -> Result<String, String> {
    let script = std::env::temp_dir().join("ptc-clojure-check.clj");
    std::fs::write(&script, SCRIPT).map_err(|error| error.to_string())?;
    let mut child = Command::new("clojure")
        .arg(&script)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => {
                "clojure is not installed; on Debian: apt-get install clojure".to_owned()
            }
            _ => error.to_string(),
        })?;
    let mut stdin = child.stdin.take().ok_or("clojure takes no input")?;
    // The script reads everything before it prints anything.
    stdin
        .write_all(programs.as_bytes())
        .map_err(|error| format!("clojure: {error}"))?;
    drop(stdin);
    let output = child
        .wait_with_output()
        .map_err(|error| error.to_string())?;
    if !output.status.success() {
        return Err(format!("clojure ended with {}", output.status));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
