//! What to do about an error, by its kind: the general advice, which needs no text of the program.

use super::super::quote::is_unredacted;
use super::super::{Kind, NAMES_MAX, Place, Redact, ValuePreview};
use super::first_word;
use super::names::{
    context_advice, decimal_point_advice, member_advice, method_advice, unbound_advice,
};
use crate::absent::advice as absent;
use crate::builtins;
use crate::value::Type;

impl Kind {
    /// The error of a failed branch; any other error itself.
    pub(in crate::error) fn cause(&self) -> &Kind {
        match self {
            Kind::Branch { cause, .. } => cause.cause(),
            other => other,
        }
    }

    /// The function that rejected a value, and the value.
    pub(super) fn rejected_value(&self) -> Option<(&str, &ValuePreview)> {
        match self {
            Kind::Type {
                function, found, ..
            } => Some((function, found)),
            Kind::Value { function, problem } => Some((function, problem.about()?)),
            Kind::Parallel { form, problem } => Some((form, problem.about()?)),
            _ => None,
        }
    }

    pub(super) fn advice(&self, place: &Place, redact: &Redact<'_>) -> Vec<String> {
        let one = |text: &str| vec![text.to_owned()];
        match self {
            Kind::Unbound(names) => {
                let names = names.iter().take(NAMES_MAX);
                names
                    .filter_map(|(name, near)| unbound_advice(name, near.is_some(), place, redact))
                    .collect()
            }
            Kind::Method(name) | Kind::Member(name) if is_unredacted(name, redact) => absent(name)
                .or_else(|| decimal_point_advice(name))
                .or_else(|| member_advice(name))
                .or_else(|| method_advice(name))
                .into_iter()
                .collect(),
            Kind::UnknownTool { available, .. } if available.is_empty() => {
                one("no tools can be called here: work with what the program and data/ hold")
            }
            Kind::UnknownTool { name, available } if *available == ["call"] => {
                let name = redact(name.trim_start_matches("tool/"));
                one(&format!(
                    "a tool of an upstream is called as (tool/call {{:server \"NAME\" :tool \"{name}\" :args {{…}}}})"
                ))
            }
            Kind::Data { name, known } => vec![context_advice(name, known, redact)],
            Kind::Type {
                function,
                expected,
                found,
            } => type_advice(function, expected, found.kind, place),
            Kind::Value { function, problem }
                if problem.begin_with("there is no date") && !function.is_empty() =>
            {
                one(
                    "the month does not have that day, or the year that month: the first of a month is (LocalDate/of year month 1), and (.lengthOfMonth d) counts its days",
                )
            }
            Kind::Value { function, .. } if function == "parse" => one(
                "take text of another shape apart with (re-matches re s), and make a date of its numbers: (LocalDate/of year month day); a time with a space for the T is read by (java.util.Date. s)",
            ),
            Kind::Value { function, problem } if function == "format" => {
                one(if problem.begin_with("unknown directive") {
                    "write %% for a percent sign, %s for any value, %d for an integer and %.2f for a number with two places"
                } else if problem.begin_with("%") {
                    "give one value for each directive, or take one again by its number, as in %1$s"
                } else if problem.begin_with("a precision") {
                    "a precision belongs to %s, %f, %e and %g, as in %.2f; write %5d, %05d or %,d for an integer"
                } else if problem.begin_with("a width") {
                    "write a width behind the flag, as in %-8s or %05d"
                } else {
                    "leave the flags out that the directive does not have: %-8s, %05d, %+d, %,d and %,.2f are known"
                })
            }
            Kind::Value { function, problem }
                if function.is_empty() && problem.begin_with("index ") =>
            {
                one("(get v index) gives nil there, and (get v index default) the default")
            }
            Kind::Value { function, problem }
                if function == "assoc" && problem.begin_with("index ") =>
            {
                one(
                    "a vector grows at its end, as in (conj v x); what is there is changed at its index, from 0",
                )
            }
            Kind::Value { function, .. } if function == "keyword" => one(
                "text may be a key as it is, as in (get m \"has space\"); make it fit with (keyword (clojure.string/replace s #\"[^A-Za-z0-9]+\" \"-\"))",
            ),
            Kind::Value { problem, .. } if problem.begin_with("expected an integer, got float") => {
                one("(quot a b) divides and stays whole, where (/ a b) makes a float")
            }
            Kind::Value { problem, .. } if problem.begin_with("a delimiter ") => one(
                "a longer delimiter is written as a regex, as in (clojure.string/split s #\", \"), and one that is a value as (re-pattern sep)",
            ),
            Kind::Value { problem, .. } if problem.begin_with("a map takes entries") => one(
                "give it pairs, as in (into {} [[:a 1] [:b 2]]), or make them, as in (into {} (map (fn [x] [(:id x) x]) rows))",
            ),
            Kind::Value { function, .. } => call_shape(function).into_iter().collect(),
            Kind::Arity {
                function,
                accepts,
                given,
            } => {
                let more = accepts.max.is_some_and(|max| *given > max.into());
                let meant = EXTRA_ARGUMENTS
                    .iter()
                    .filter(|(name, _)| more && name == function);
                let meant = meant.map(|(_, advice)| (*advice).to_owned());
                call_shape(function).into_iter().chain(meant).collect()
            }
            Kind::Pairs(problem) => {
                let function = first_word(problem);
                function.and_then(call_shape).into_iter().collect()
            }
            Kind::Form(problem) => form_advice(problem).into_iter().collect(),
            Kind::NotCallable(_) => one(
                "what stands first in (…) is called; write [ … ] for a list of values, and leave out brackets around a single value",
            ),
            Kind::Destructure { expected, found }
                if found.kind == Type::Map && !expected.contains("map") =>
            {
                one("take a map apart by its keys, as in (let [{:keys [a b]} m] …)")
            }
            Kind::Destructure { expected, found }
                if found.kind == Type::Vector && !expected.contains("vector") =>
            {
                one("take a vector apart by its places, as in (let [[a b] v] …)")
            }
            Kind::Destructure { .. } => one(
                "test the value before it is taken apart, or give a default, as in (or value {})",
            ),
            Kind::Arithmetic(problem) if problem.contains("zero") => {
                one("test the divisor first, as in (when-not (zero? d) (/ n d))")
            }
            Kind::Duplicate { literal, .. } => one(if literal.contains("set") {
                "a member stands once in #{…}: make a set of a collection with (set coll)"
            } else {
                "a key stands once in {…}: the last of several is kept by (assoc m k v) or (merge m1 m2)"
            }),
            Kind::Timeout => one(
                "do less in one program: take a part of the data, look things up in a map instead of filtering again and again, or split the work over several calls",
            ),
            Kind::Memory => one(
                "keep less at once: reduce instead of collecting, take only the fields that are needed, or end a recursion that does not end",
            ),
            Kind::Branch { cause, .. } => cause.advice(place, redact),
            _ => Vec::new(),
        }
    }
}

/// Advice about the special form that `problem` begins with.
fn form_advice(problem: &str) -> Option<String> {
    if problem.starts_with("regex #") && problem.contains("unknown ") {
        return Some(
            "a pattern knows (…), (?:…), (?<name>…), (?=…), (?!…), (?<=…), (?<!…), (?>…), \\1, x*, x+, x?, x{2,5}, [a-z], \\d \\w \\s \\b, \\p{L}, and the flags (?i) (?m) (?s) (?x); \\ in front of a sign takes it as it is"
                .to_owned(),
        );
    }
    const FORM_SHAPES: &[(&str, &str)] = &[
        ("let ", "(let [name value …] body …)"),
        ("loop ", "(loop [name value …] … (recur value …))"),
        ("for ", "(for [x xs :when test] result)"),
        ("doseq ", "(doseq [x xs] (println x))"),
        ("fn ", "(fn [x y] body …)"),
        ("defn ", "(defn name [x y] body …)"),
        ("def ", "(def name value)"),
        (
            "the parameters ",
            "(fn [x y] body …) or (defn name [x y] body …)",
        ),
        ("cond ", "(cond test result … :else result)"),
        (
            "recur ",
            "(loop [i 0] (if (< i 10) (recur (inc i)) i)), with nothing around the recur but if, when, cond, let and do; elsewhere a function calls itself by its name",
        ),
        (
            "condp :>>",
            "(condp pred value test :>> (fn [found] …) … default)",
        ),
        (
            "case test values",
            "(condp = value a result … default) or (cond …) to compare with what a name or a call gives",
        ),
        (":keys", "{:keys [a b]}"),
        (
            "placeholder '%' ",
            "% for the argument inside #(…), and (mod a b) for a remainder",
        ),
        (
            "unsupported pattern",
            "(let [name value] …), (let [[a b] pair] …) or (let [{:keys [a b]} map] …)",
        ),
    ];
    let row = FORM_SHAPES
        .iter()
        .find(|(start, _)| problem.starts_with(start))?;
    Some(format!("write {}", row.1))
}

fn call_shape(function: &str) -> Option<String> {
    match function {
        "recur" => {
            return Some(
                "`recur` is called as (recur value …), with as many values as the loop or the function has names"
                    .into(),
            );
        }
        "a map" => return Some("a map is called as (m key) or (m key default)".into()),
        "a set" => return Some("a set is called as (s member)".into()),
        "a vector" => {
            return Some(
                "a vector is called as (v index); (get v index default) does without an error"
                    .into(),
            );
        }
        _ if function.starts_with(':') => {
            return Some(format!(
                "`{function}` is called as (:key m) or (:key m default)"
            ));
        }
        _ => {}
    }
    let builtin = builtins::lookup(function)?;
    Some(format!("`{function}` is called as {}", builtin.signatures))
}

/// For functions that are called with too many arguments: what is probably meant.
#[rustfmt::skip]
const EXTRA_ARGUMENTS: &[(&str, &str)] = &[
    ("sum", "what a function or a key gives for each item is added by (sum-by :total rows)"),
    ("avg", "the mean of what a function or a key gives for each item is (avg-by :total rows)"),
    ("distinct", "items with different values under a key are kept by (distinct-by :id rows)"),
    ("frequencies", "what a function or a key gives for each item is counted by (frequencies (map :status rows))"),
    ("group-by", "groups by two keys at once are made by (group-by (juxt :a :b) rows)"),
    ("round", "two places are kept by (/ (Math/round (* 100.0 x)) 100.0), or in text by (format \"%.2f\" x)"),
    ("parse", "there are no formats: take text of another shape apart with (re-matches re s), and make a date of its numbers: (LocalDate/of year month day)"),
    ("json/parse-string", "there are no options: keys stay strings, and (:name m) finds them as well"),
    ("json/generate-string", "there are no options: the text is compact"),
];

/// Functions that take a collection in every position, so that swapped arguments are never the problem.
pub(in crate::error) const COLLECTIONS_ONLY: &[&str] =
    &["concat", "into", "interleave", "join", "merge", "zip"];

/// Advice about an argument of the wrong kind.
fn type_advice(function: &str, expected: &str, found: Type, place: &Place) -> Vec<String> {
    const COMPARISONS: &[&str] = &["<", ">", "<=", ">=", "max", "min", "max-key", "min-key"];
    const PREDICATE_CALLERS: &[&str] = &[
        "some",
        "every?",
        "not-any?",
        "not-every?",
        "filter",
        "filterv",
        "remove",
    ];
    let called = || call_shape(function).into_iter().collect::<Vec<_>>();
    if expected.starts_with("a path") {
        let shape = match function {
            "assoc-in" => "(assoc-in m [:a :b] value)",
            "update-in" => "(update-in m [:a :b] f)",
            _ => "(get-in m [:a :b])",
        };
        return vec![format!("write the path in brackets, as in {shape}")];
    }
    if function == "find" && found == Type::Function {
        return vec![
            "the first item that passes is (first (filter pred coll)); find takes the entry of a key"
                .to_owned(),
        ];
    }
    if place.swapped {
        let called = called().into_iter();
        return called
            .map(|called| format!("perhaps the arguments are swapped: {called}"))
            .collect();
    }
    let compares = COMPARISONS.contains(&function);
    let counts = !compares && expected.contains("a number");
    let advice = match found {
        Type::Nil if compares || counts => {
            "leave nil out, as in (filter some? xs), or give a default, as in (or x 0)"
        }
        Type::String if compares => {
            "make text a number with (parse-long s) or (parse-double s), or a date with (LocalDate/parse s); compare text with (neg? (compare a b))"
        }
        Type::String if counts || function == "int" || expected.contains("an integer for %") => {
            "make text a number with (parse-long s) or (parse-double s), or join text with (str a b)"
        }
        Type::Vector if counts && !place.items.is_empty() => {
            "an item that is a vector, as an entry of a map is, is taken apart first, as in (fn [[k v]] …)"
        }
        Type::Function if counts => {
            "call the function, as in (f x); a step of -> or ->> with arguments stands in brackets, as in (map inc)"
        }
        Type::Vector | Type::Set if counts => {
            "give the items one by one, as in (apply + xs), or work on each, as in (map inc xs)"
        }
        Type::Map if counts => {
            "take a value out of the map first, as in (:total m), or work on all, as in (map :total rows)"
        }
        Type::Date | Type::Instant if counts => {
            "count between dates with (.until a b ChronoUnit/DAYS), and go on with (.plusDays d n)"
        }
        Type::Date if expected.contains("an instant") => {
            "count between dates with (.until a b ChronoUnit/DAYS); (java.util.Date. d) is the midnight of a date"
        }
        Type::String if expected.contains("a date") => "make text a date with (LocalDate/parse s)",
        Type::String if expected.contains("an instant") => {
            "make text an instant with (Instant/parse s)"
        }
        Type::Regex if function.starts_with('.') => {
            "give the pattern as text, or use (clojure.string/replace s re t), split or re-matches"
        }
        Type::String if function == "contains?" => {
            "look for a part of a text with (clojure.string/includes? s part)"
        }
        Type::String if function == "replace" && expected.contains("of replacements") => {
            "in a text it takes three: (clojure.string/replace s pattern replacement)"
        }
        Type::Keyword if counts || compares || function == "int" => {
            "a keyword takes its value out of a map, as in (:total m)"
        }
        Type::Keyword if function == "assoc" => {
            "a vector has an index for each item, from 0; a key is set in each map of it by (map (fn [m] (assoc m :key x)) rows)"
        }
        Type::Vector if function == "dissoc" => {
            "an item is left out by (filterv pred v), or at an index by (into (subvec v 0 i) (subvec v (inc i))); a key of each map in it by (map (fn [m] (dissoc m :key)) rows)"
        }
        Type::Vector if function == "select-keys" => {
            "keys of each map in it are taken by (map (fn [m] (select-keys m [:a :b])) rows)"
        }
        Type::Map if function == "a vector" => {
            "several keys of a map are taken by ((juxt :a :b) m), or by (select-keys m [:a :b])"
        }
        Type::Keyword
            if ["map", "mapv", "pmap"].contains(&function) && expected == "a collection" =>
        {
            "several keys of each item are taken by (map (juxt :a :b) rows)"
        }
        Type::Date | Type::Instant | Type::Duration if expected.contains("a string") => {
            "make it text with (str x)"
        }
        Type::Boolean | Type::Nil
            if expected == "a function" && PREDICATE_CALLERS.contains(&function) =>
        {
            "a predicate asks each item, as in (filter (fn [x] (= (:k x) v)) coll); a value that is looked for stands in a set, as in (some #{x} coll)"
        }
        Type::Map if function == "key" || function == "val" => {
            "ask the map itself, as in (keys m) and (vals m), or each of its entries, as in (map key m)"
        }
        Type::Integer | Type::Float if expected == "a string, a function or a map" => {
            "make it text with (str x)"
        }
        Type::String if expected == "an integer" => "make text a number with (parse-long s)",
        Type::Float if expected == "an integer" => {
            "make it whole with (int x); (quot a b) divides and stays whole, where (/ a b) makes a float"
        }
        Type::String if expected.contains("a regex") && !expected.contains("string") => {
            "write a pattern as #\"…\", or make one of text with (re-pattern s)"
        }
        Type::Vector | Type::Set if function == "includes?" || function == ".contains" => {
            "look for an item with (some #{x} coll), or for a member of a set with (contains? s x)"
        }
        Type::Vector if ["keys", "vals"].contains(&function) => {
            "ask one map, as in (keys (first rows)), or each, as in (map keys rows)"
        }
        Type::Integer | Type::Float | Type::String
            if expected == "a function" && PREDICATE_CALLERS.contains(&function) =>
        {
            "a value that is looked for stands in a set, as in (some #{x} coll)"
        }
        _ if function == "mapcat" && place.argument.is_none() => {
            "the function has to give a collection for each item: use map or keep where it gives one value"
        }
        _ if function.is_empty() && expected == "a collection" => {
            "for and doseq go through the items of a collection: a single value goes in brackets, as in [x], and (range n) counts from 0"
        }
        Type::Float if expected.contains("an integer for") => {
            "make it whole with (Math/round x) or (int x), or write it with a directive such as %.2f"
        }
        Type::Integer | Type::Float | Type::Keyword | Type::Boolean
            if COLLECTIONS_ONLY.contains(&function) && expected.contains("collection") =>
        {
            "a single value goes in brackets, as in [x]"
        }
        Type::Vector | Type::Set | Type::Map if function == "join" => {
            "the separator comes first, as in (clojure.string/join \", \" coll)"
        }
        Type::Nil if expected.contains("string") => {
            "give a default, as in (or s \"\"), or test it first, as in (when s …)"
        }
        Type::Vector if function == "index-of" || function == "last-index-of" => {
            "the place of an item is told by (.indexOf coll x), or by (first (keep-indexed (fn [i x] (when (pred x) i)) coll))"
        }
        Type::Vector | Type::Set | Type::Map if function == ".length" => "use (count coll)",
        Type::Vector if expected.contains("a set") => "make a set of it with (set coll)",
        Type::Vector | Type::Set if expected == "maps" => {
            "put the items of collections together with (into a b) or (concat a b); merge takes maps"
        }
        Type::Float if function == "java.util.Date." => {
            "make it whole with (Math/round x) or (int x)"
        }
        Type::Instant if expected.contains("a date") => {
            "make an instant a date with (LocalDate/parse (subs (str t) 0 10)), or go on from it with (.plusHours t 24)"
        }
        Type::Integer if expected.contains("ISO-8601") => {
            "make a number a time with (Instant/ofEpochMilli n) or (Instant/ofEpochSecond n)"
        }
        Type::Integer | Type::Float | Type::Keyword if expected.contains("string") => {
            "make it text with (str x), or (name k) of a keyword"
        }
        Type::Function if expected.contains("a collection") => {
            "a function stands where its result is meant: map and its kin without a collection make one, as (apply map f rows) does when there are no rows: test for none first, as in (when (seq rows) …)"
        }
        Type::Integer | Type::Float | Type::Keyword | Type::Boolean
            if expected.contains("a collection") =>
        {
            let single = "a single value goes in brackets, as in [x]".to_owned();
            return std::iter::once(single).chain(called()).collect();
        }
        _ => return called(),
    };
    vec![advice.to_owned()]
}
