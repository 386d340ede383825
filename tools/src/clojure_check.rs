//! `cargo tool clojure-check`: the programs of the corpus in JVM Clojure, and the list of those that give
//! something else, each with the divergence that says why. Knows nothing of how programs are evaluated.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::process::{Command, Stdio};

use serde_json::Value;

/// Files of programs; the others ask for a server, or are about the wording of errors and descriptions.
const AREAS: &[&str] = &[
    "aggregates-order",
    "maps-sets",
    "natural",
    "numbers",
    "printing",
    "programs",
    "reader",
    "seqs",
    "special-forms",
    "strings",
    "time",
];

/// Why a program has to fail that is worth asking Clojure for; limits are the implementation's own.
const REASONS: &[&str] = &["parse_error", "runtime_error"];

/// Evaluates what it is given in one JVM.
const SCRIPT: &str = include_str!("clojure_check.clj");

/// A JVM leaves out the message of an exception that it has thrown often; the table reads them.
const KEEP_MESSAGES: &str = "-XX:-OmitStackTraceInFastThrow";

/// The page that records the divergences.
const PAGE: &str = "spec/divergences/clojure.md";

/// A divergence and the disagreements that it explains: those of a case whose id starts with a word of the second, of
/// a program that names a word of the third, and whose likeness, expectation and answer (tabs between and in front)
/// hold a text of the fourth. An empty one asks for nothing.
struct Because(
    &'static str,
    &'static str,
    &'static str,
    &'static [&'static str],
);

/// The first row that explains a disagreement counts: reader and forms first, then functions.
const BECAUSE: &[Because] = &[
    Because(
        "clojure.lang.flexible-keys",
        "special-forms/destructure-map/keys-dash special-forms/destructure-map/strs-match \
         special-forms/destructure-map/or-string special-forms/destructure-map/rename- \
         special-forms/calling/map-head-string-flex maps-sets/destructuring/keys- \
         maps-sets/destructuring/strs-keyword-data maps-sets/destructuring/or-default-flex-hit \
         maps-sets/destructuring/rename-keyword-string-data maps-sets/contains/string-key-flex \
         maps-sets/contains/keyword-data-string-arg maps-sets/find/flex maps-sets/get-in/path-as-string \
         maps-sets/update/string-keyed-data",
        "",
        &[],
    ),
    Because(
        "clojure.lang.pattern-keys",
        "special-forms/fn/map-param-number special-forms/fn/rest-kwargs-odd time/render/date-destructure",
        "",
        &[],
    ),
    Because(
        "clojure.lang.sequences",
        "special-forms/destructure-vector/rest- special-forms/fn/rest-only-empty",
        "",
        &[],
    ),
    Because(
        "clojure.lang.definitions",
        "special-forms/effects/def-in- special-forms/def/def-in- seqs/pmap/def-isolated",
        "",
        &[],
    ),
    Because(
        "clojure.lang.conditions",
        "special-forms/fn/pre-condition-map",
        "",
        &[],
    ),
    Because(
        "clojure.reader.numbers",
        "numbers/literal/ reader/bad-numbers/ reader/floats/ reader/integers/ programs/mistakes/ratio-literal \
         programs/mistakes/hex-literal programs/mistakes/bigint-suffix",
        "",
        &["\tfails\t"],
    ),
    Because(
        "clojure.reader.whitespace",
        "reader/whitespace/ reader/comments/comment-ended-by-lone-cr reader/strings/multiline-crlf-kept",
        "",
        &[],
    ),
    Because(
        "clojure.reader.names",
        "reader/keywords/ reader/symbols/ programs/mistakes/namespaced-keyword \
         programs/mistakes/auto-namespaced-keyword reader/unsupported-dispatch/auto-gensym",
        "",
        &[],
    ),
    Because(
        "clojure.reader.octal",
        "reader/strings/escape-octal reader/characters/octal-escape-form",
        "",
        &[],
    ),
    Because(
        "clojure.reader.characters",
        "reader/characters/",
        "",
        &["Unsupported character"],
    ),
    Because(
        "clojure.reader.quote",
        "reader/quote/ reader/deep-nesting/quotes- special-forms/quote-var-comment/quote- \
         reader/comments/comment-between-quote-and-symbol reader/lists/empty-list-in-vector",
        "",
        &["\tfails\t"],
    ),
    Because(
        "clojure.reader.nesting",
        "reader/deep-nesting/ reader/nesting-limit/",
        "",
        &["\tfails\t"],
    ),
    Because(
        "clojure.reader.unsupported",
        "reader/unsupported-dispatch/ reader/metadata/ reader/var-quote/ reader/comments/shebang-like \
         reader/maps/namespaced-map-literal programs/mistakes/type-hint",
        "",
        &["\tfails\t"],
    ),
    Because(
        "clojure.reader.characters",
        "reader/characters/char-in-set strings/char/ strings/seq/ seqs/strings-as-sequences/ \
         seqs/take-while/string seqs/drop-while/string seqs/split-with/string seqs/set/string-membership \
         seqs/every-pred-coll/set-pred programs/algo/bracket-match programs/algo/roman-decode-get \
         programs/matrix/flood-fill-count-vec",
        "",
        &[],
    ),
    Because(
        "clojure.library.absent",
        "",
        "spit ns require import eval read-string defmulti defmethod defprotocol defrecord letfn let* try atom \
         agent swap! gensym fn* new .. var assert time prn printf print pr dotimes defn- iterate repeat \
         repeatedly cycle lazy-seq doall dorun reductions shuffle run! transduce sequence bounded-count \
         identical? any? list? inst? long unsigned-bit-shift-right clojure.set/subset? \
         clojure.set/rename-keys clojure.set/join clojure.set/select set/index",
        &["\tfails\t"],
    ),
    Because(
        "clojure.library.absent",
        "",
        "Math/rint Math/cbrt Math/log Math/exp Boolean/valueOf Long/valueOf Double/valueOf .trim .replace \
         .charAt .equals .between .plusMonths .plusWeeks .getDayOfWeek LocalDate/of .toEpochMilli \
         java.time.LocalDateTime/parse java.time.Period/between .isEqual .compareTo .before .lastIndexOf \
         java.lang.Integer/parseInt java.lang.Math/abs",
        &["\tfails\t"],
    ),
    Because("clojure.lang.order", "", "", &["order\t"]),
    Because(
        "clojure.lang.order",
        "maps-sets/reduce-kv/string-keys maps-sets/mixed-key-maps/pr-str programs/config/build-query-string \
         seqs/maps-as-sequences/first-via-keys strings/format/s-map",
        "",
        &[],
    ),
    Because("clojure.lang.printing", "", "", &["spelling\t"]),
    Because(
        "clojure.lang.printing",
        "",
        "str join pr-str",
        &[
            "E8\"",
            "E7\"",
            "E15\"",
            "LazySeq",
            "\"(0 1 2 3)\"",
            "\"#f\"",
            "\"#\"",
            "u0001",
            "u0000",
            "u007F",
        ],
    ),
    Because(
        "clojure.library.numbers",
        "",
        "/",
        &[
            "numbers\t",
            "Divide by zero",
            "\t##Inf",
            "\ttrue\tfalse",
            "\"1/3\"",
            "\"2/3\"",
            "\t1/7",
        ],
    ),
    Because(
        "clojure.library.numbers",
        "",
        "quot rem mod",
        &[
            "numbers\t",
            "Divide by zero",
            "Infinite or NaN",
            "\t##NaN\t",
        ],
    ),
    Because(
        "clojure.library.numbers",
        "",
        "floor ceil round Math/floor Math/ceil Math/round",
        &["numbers\t", "\t-4\t-3"],
    ),
    Because(
        "clojure.library.numbers",
        "",
        "float Float/parseFloat",
        &[
            "2.14748365E9",
            "1.2345679E29",
            "0.12345679",
            "Value out of range for float",
        ],
    ),
    Because(
        "clojure.library.numbers",
        "",
        "+ - * inc dec reduce abs",
        &["long overflow"],
    ),
    Because(
        "clojure.library.bits",
        "",
        "bit-and bit-or bit-xor bit-not bit-and-not bit-shift-left bit-shift-right bit-set bit-clear bit-flip \
         bit-test",
        &[
            "bit operation not supported",
            "\tfails\t",
            "922337203685477580",
            "\t18446744073709551617\t",
        ],
    ),
    Because("clojure.library.order", "", "min max", &["numbers\t"]),
    Because(
        "clojure.library.equality",
        "",
        "= not= == filter",
        &["\ttrue\tfalse", "\tfalse\ttrue", "[2 2.0]"],
    ),
    Because(
        "clojure.library.order",
        "",
        "< <= > >= sort sort-by compare max min max-key min-key ==",
        &["cannot be cast to class", "\"x\" is null", "\"y\" is null"],
    ),
    Because(
        "clojure.library.order",
        "",
        "compare",
        &["\t1\t-", "\t-1\t", "\t1\t"],
    ),
    Because(
        "clojure.library.order",
        "aggregates-order/sort-by/unknown-comparator-keyword",
        "",
        &[],
    ),
    Because(
        "clojure.library.key-paths",
        "",
        "sort-by",
        &["Key must be integer"],
    ),
    Because(
        "clojure.library.nan",
        "",
        "NaN",
        &[
            "\tfails\t",
            "\t[true true]\t",
            "\t2\t3",
            "\t[2]\t",
            "\t1\t2",
        ],
    ),
    Because("clojure.lang.flexible-keys", "maps-sets/flex-", "", &[]),
    Because("clojure.library.keys", "", "select-keys", &["\t{}"]),
    Because(
        "clojure.library.keys",
        "",
        "update-keys update-vals",
        &["\t[nil]\t", "\tfails\t"],
    ),
    Because(
        "clojure.lang.pattern-keys",
        "",
        ":syms let",
        &[
            "\tfails\t10",
            "\tfails\t1",
            "\tfails\tnil",
            "\tfails\t:zero",
            "\tfails\t[:a]",
            "\tfails\t[nil nil]",
        ],
    ),
    Because(
        "clojure.library.contains",
        "",
        "contains?",
        &["\ttrue\tfalse", "not supported on type", "\tfails\ttrue"],
    ),
    Because("clojure.library.contains", "", "get", &["\tfails\t"]),
    Because("clojure.library.contains", "", "get-in", &["\tnil\t"]),
    Because(
        "clojure.library.empty-results",
        "",
        "merge merge-with keys clojure.set/intersection nthrest take-last re-seq",
        &["\t[{}]\t[nil]", "\t[[]]\t[nil]", "\t#{}\tnil", "\t[]\tnil"],
    ),
    Because(
        "clojure.library.kinds",
        "",
        "merge clojure.set/union reduce-kv lower-case blank? starts-with? ends-with? includes? index-of join \
         str/join keyword .indexOf empty flatten map replace",
        &[
            "\tfails\t5",
            "\tfails\t[1",
            "\tfails\t#{",
            "\tfails\t[[0",
            "\tfails\t\"",
            "\tfails\ttrue",
            "\tfails\tfalse",
            "\tfails\t2",
            "\tfails\t1",
            "\tfails\t4",
            "\tfails\tnil",
            "\tfails\t[]",
        ],
    ),
    Because(
        "clojure.library.keyword-names",
        "",
        "keyword",
        &["\tfails\t:"],
    ),
    Because(
        "clojure.library.counts",
        "",
        "nth nthnext nthrest take take-last drop drop-last split-at subvec subs .substring index-of \
         last-index-of .minusDays",
        &["\tfails\t"],
    ),
    Because(
        "clojure.library.counts",
        "",
        "partition partition-all range",
        &["\tfails\t["],
    ),
    Because(
        "clojure.library.transducers",
        "",
        "map mapcat filter remove keep take drop replace into",
        &["\tfails\t#object", "\tfails\t[[]]"],
    ),
    Because(
        "clojure.library.predicates",
        "",
        "type",
        &["java.", "clojure.", "$fn__"],
    ),
    Because(
        "clojure.library.predicates",
        "numbers/matrix/ numbers/predicate/",
        "zero? pos? neg? even? odd? NaN? infinite? pos-int? nat-int? neg-int? int? number? seq? seqable? \
         counted? indexed? reversible? not=",
        &[],
    ),
    Because(
        "clojure.library.parsing",
        "",
        "parse-long parse-double parse-boolean Integer/parseInt Long/parseLong Double/parseDouble \
         Float/parseFloat",
        &[
            "Expected string, got",
            "NumberFormatException",
            "\"in\" is null",
            "cannot be cast to class java.lang.String",
            "\tnil\t42",
            "\tnil\t1.5",
        ],
    ),
    Because(
        "clojure.reader.characters",
        "",
        "",
        &[
            "class java.lang.Character",
            "ISeq from: java.lang.Character",
            "on this type: Character",
            "Unsupported character",
            "\t\"\\\"a\\\"\"\t\"\\\\a\"",
            "\t\"\\\"z\\\"\"\t",
            "formfeed\"",
        ],
    ),
    Because(
        "clojure.library.graphemes",
        "strings/grapheme/ strings/subs/emoji strings/subs/zwj strings/subs/combining strings/subs/flags \
         strings/index-of/grapheme strings/index-of/flag strings/index-of/last-grapheme \
         strings/java/index-of-combining strings/java/substring-emoji \
         strings/split/regex-empty-pattern-unicode seqs/first/string-emoji seqs/count/string-combining \
         seqs/count/newline-crlf seqs/reverse/string reader/strings/combining reader/strings/emoji \
         aggregates-order/unicode-strings/sort-combining",
        "",
        &[],
    ),
    Because(
        "clojure.library.out-of-range",
        "",
        "nth pop subvec subs",
        &["IndexOutOfBounds", "Can't pop", "out of range for long"],
    ),
    Because(
        "clojure.library.vectors",
        "",
        "vector? seq?",
        &["\ttrue\tfalse"],
    ),
    Because(
        "clojure.library.vectors",
        "",
        "conj pop flatten",
        &[
            "cannot be cast to class java.util.Map$Entry",
            "\t[:x :y]\t",
            "\t[1]\t[]",
        ],
    ),
    Because(
        "clojure.lang.definitions",
        "",
        "defonce",
        &["Wrong number of args (3)"],
    ),
    Because("clojure.lang.loops", "", "recur", &["\tfails\t1001"]),
    Because(
        "clojure.lang.arities",
        "special-forms/fn/ special-forms/defn/",
        "",
        &["\tfails\t"],
    ),
    Because(
        "clojure.lang.case",
        "",
        "case condp",
        &[
            "No matching clause",
            "Duplicate case test constant",
            "\tfails\t",
        ],
    ),
    Because(
        "clojure.lang.if-let",
        "",
        "if-let when-let if-some when-some as->",
        &["\tfails\t"],
    ),
    Because("clojure.lang.doseq", "", "doseq", &["\tfails\tnil"]),
    Because(
        "clojure.lang.threading",
        "",
        "cond-> some->",
        &["Can't call nil"],
    ),
    Because("clojure.lang.duplicates", "", "", &["Duplicate key: "]),
    Because(
        "clojure.lang.short-fn",
        "reader/short-fn/body-vector-literal reader/short-fn/body-single-number reader/short-fn/percent-",
        "",
        &[],
    ),
    Because(
        "clojure.lang.size",
        "reader/symbol-limit/ reader/deep-nesting/plus-with-1000-args",
        "",
        &["Method code too large", "StackOverflowError"],
    ),
    Because(
        "clojure.library.split",
        "",
        "split replace clojure.core/replace str/replace",
        &[
            "cannot be cast to class java.util.regex.Pattern",
            "\tfails\t[\"a\" \"b,c\"]",
            "\"\\\\2\\\\1\"",
            "No group",
            "\"[\\\\g{1}]b\"",
            "\"\\\\\\\\b\"",
            "\tfails\t\"x=1",
            "Wrong number of args (3)",
        ],
    ),
    Because(
        "clojure.library.regex",
        "strings/regex-find/ strings/regex-pattern/invalid-backreference",
        "",
        &[],
    ),
    Because(
        "clojure.library.whitespace",
        "",
        "blank? triml",
        &["\ttrue\tfalse", "\t2\t3"],
    ),
    Because("clojure.library.format", "", "format", &[]),
    Because(
        "clojure.library.time",
        "",
        "LocalDate/parse Instant/parse java.time.LocalDate/parse java.time.Instant/parse",
        &[
            "DateTimeParseException",
            "123456789Z",
            ".500Z",
            "\tfails\t\"2025-03-",
            "\tfails\t\"+",
            "#object",
            "\tfails\tnil",
        ],
    ),
    Because(
        "clojure.library.time",
        "",
        "java.util.Date.",
        &[
            "IllegalArgumentException",
            "java.time.temporal.Temporal",
            "\tfails\t\"",
            "Z\"\t\"",
            "\t60000\t60",
            "\t[0 1000]\t[0 1]",
            "cannot be cast to class",
        ],
    ),
    Because(
        "clojure.library.time",
        "",
        "Duration/between",
        &["PT1S", "cannot be cast to class"],
    ),
    Because("clojure.reader.numbers", "", "017 08 000042", &[]),
];

/// A program that gives something else in Clojure.
struct Disagreement<'a> {
    id: &'a str,
    program: &'a str,
    /// `likeness\texpected\tanswer`, with a tab in front.
    said: String,
}

/// Runs the check and writes the list, with a count for each divergence.
///
/// Errors: Clojure is not there, or did not answer; a disagreement has no divergence, a row of the table explains
/// nothing, or a divergence is not on the page.
pub fn run() -> Result<(), String> {
    let programs = programs()?;
    let answers = clojure(&programs)?;
    let mut compared = None;
    let mut explained = vec![0usize; BECAUSE.len()];
    let mut unexplained = 0usize;
    let mut list = String::new();
    for line in answers.lines() {
        let (id, said) = line.split_once('\t').ok_or("a line without columns")?;
        if id == "compared" {
            compared = Some(said);
            continue;
        }
        let program = programs.get(id).ok_or("an answer to no program")?;
        let disagreement = Disagreement {
            id,
            program: &program.text,
            said: format!("\t{said}"),
        };
        let why = BECAUSE.iter().position(|row| row.explains(&disagreement));
        let Some(row) = why else {
            unexplained += 1;
            list += &format!("{id}\t-\t{said}\n");
            continue;
        };
        if let Some(count) = explained.get_mut(row) {
            *count += 1;
        }
        list += &format!("{id}\t{}\t{said}\n", BECAUSE[row].0);
    }
    let compared = compared.ok_or("clojure ended before its last program")?;
    list += &summary(&explained);
    let differ = explained.iter().sum::<usize>() + unexplained;
    list += &format!("{compared} programs compared, {differ} differ\n");
    crate::say(&list);
    verdict(unexplained, &explained)
}

impl Because {
    fn explains(&self, disagreement: &Disagreement<'_>) -> bool {
        let Self(_, cases, uses, says) = self;
        let id = disagreement.id;
        (cases.is_empty() || words(cases).any(|case| id.starts_with(case)))
            && (uses.is_empty()
                || names(disagreement.program).any(|name| words(uses).any(|word| word == name)))
            && (says.is_empty() || says.iter().any(|text| disagreement.said.contains(text)))
    }
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split_ascii_whitespace()
}

/// What stands between brackets, quotes and whitespace.
fn names(program: &str) -> impl Iterator<Item = &str> {
    program.split(|c: char| c.is_whitespace() || ",()[]{}\"#".contains(c))
}

/// A line for each divergence: how many programs it explains.
fn summary(explained: &[usize]) -> String {
    let mut counts = BTreeMap::new();
    for (Because(id, ..), count) in BECAUSE.iter().zip(explained) {
        *counts.entry(id).or_insert(0) += count;
    }
    counts
        .iter()
        .map(|(id, count)| format!("{count:5} {id}\n"))
        .collect()
}

/// What is wrong with the table, by what it was seen to explain.
fn verdict(unexplained: usize, explained: &[usize]) -> Result<(), String> {
    let page = crate::root().join(PAGE);
    let page = std::fs::read_to_string(&page).map_err(|e| format!("{}: {e}", page.display()))?;
    let mut faults = Vec::new();
    if unexplained > 0 {
        faults.push(format!(
            "{unexplained} disagreements (marked -) have no divergence"
        ));
    }
    for (row, Because(id, ..)) in BECAUSE.iter().enumerate() {
        if !page.contains(&format!("{{#{id}}}")) {
            faults.push(format!("{PAGE} has no {id}"));
        }
        if explained.get(row) == Some(&0) {
            faults.push(format!("row {row} of the table, {id}, explains nothing"));
        }
    }
    if faults.is_empty() {
        Ok(())
    } else {
        Err(faults.join("\n"))
    }
}

/// A program of the corpus and the text of what it gives; without one it has to fail.
struct Program {
    text: String,
    expected: Option<String>,
}

/// Programs by the id of their case.
fn programs() -> Result<BTreeMap<String, Program>, String> {
    let mut all = BTreeMap::new();
    for area in AREAS {
        let path = crate::root().join(format!("spec/corpus/{area}.jsonl"));
        let text = std::fs::read_to_string(&path)
            .map_err(|error| format!("{}: {error}", path.display()))?;
        for line in text.lines() {
            let case: Value = serde_json::from_str(line)
                .map_err(|error| format!("{}: {error}", path.display()))?;
            let (Some(id), Some(program)) = (case["id"].as_str(), in_both(&case)) else {
                continue;
            };
            all.insert(id.to_owned(), program);
        }
    }
    Ok(all)
}

/// A case whose program needs nothing that only our language has.
fn in_both(case: &Value) -> Option<Program> {
    let text = case["program"].as_str()?;
    let expect = &case["expect"];
    let ours = case.get("context").is_some()
        || expect.get("truncated").is_some()
        || ["data/", "tool/"].iter().any(|name| text.contains(name));
    if ours {
        return None;
    }
    let expected = match expect.get("error").and_then(Value::as_str) {
        Some(reason) if REASONS.contains(&reason) => None,
        Some(_) => return None,
        None => Some(value(expect.get("result")?)?),
    };
    Some(Program {
        text: text.to_owned(),
        expected,
    })
}

/// The text of a result as Clojure reads it; none for functions and vars.
fn value(result: &Value) -> Option<String> {
    let Some(text) = result.as_str() else {
        return Some("nil".to_owned());
    };
    let text = text.strip_prefix("user=> ").unwrap_or(text);
    let printed = ["#fn[", "#'"].iter().any(|mark| text.contains(mark));
    (!printed).then(|| text.to_owned())
}

/// What the script prints for `programs`.
fn clojure(programs: &BTreeMap<String, Program>) -> Result<String, String> {
    let script = std::env::temp_dir().join("ptc-clojure-check.clj");
    std::fs::write(&script, SCRIPT).map_err(|error| error.to_string())?;
    let mut child = Command::new("clojure")
        .arg(&script)
        .env("JDK_JAVA_OPTIONS", KEEP_MESSAGES)
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
        .write_all(vectors(programs).as_bytes())
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

/// Ids, programs and results as Clojure reads them. Text in JSON is text in Clojure, null is nil but for its name.
fn vectors(programs: &BTreeMap<String, Program>) -> String {
    let mut all = "[".to_owned();
    for (id, Program { text, expected }) in programs {
        let expected = match expected {
            Some(text) => Value::from(text.as_str()).to_string(),
            None => "nil".to_owned(),
        };
        all += &format!(
            "[{} {} {expected}]\n",
            Value::from(id.as_str()),
            Value::from(text.as_str())
        );
    }
    all.push(']');
    all
}
