//! Laws that hold for every value and every program: order and equality, sequence functions against
//! simple models, old values that never change, and an evaluator that never panics and keeps its limits.

mod clock;
mod values;

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicIsize, Ordering as Memory};
use std::time::Duration;

use clock::cpu_time;
use proptest::prelude::*;
use ptc_lang::meter::Unwatched;
use ptc_lang::value::{Map, Set, equal, key_cmp, term_cmp};
use ptc_lang::{Ended, Env, Host, Limits, Program, Pulse, Value, heap, print, run};

ptc_lang::counting_allocator!();

struct NullHost;

impl Host for NullHost {
    fn now_micros(&self) -> i64 {
        0
    }
}

fn env(context: &[(&str, Value)]) -> Env {
    let entries = context
        .iter()
        .map(|(name, value)| (Value::from(*name), value.clone()));
    Env::new().with_context(entries.collect())
}

/// The value of `program`, with `context` as its context.
fn check(program: &str, context: &[(&str, Value)]) -> Value {
    let limits = Limits {
        memory_bytes: 100 << 20,
        ..Limits::default()
    };
    let (outcome, _) = run(&Program::new(program), &env(context), &limits, &NullHost);
    match outcome.ended {
        Ended::Value(value) => value,
        other => panic!("{program}: {other:?}"),
    }
}

fn vector(items: impl IntoIterator<Item = Value>) -> Value {
    items.into_iter().collect::<Vec<_>>().into()
}

fn ints(items: &[i64]) -> Value {
    vector(items.iter().map(|item| Value::Int(*item)))
}

fn items(value: &Value) -> Vec<Value> {
    match value {
        Value::Vector(items) => items.iter().cloned().collect(),
        Value::Nil => Vec::new(),
        other => panic!("a vector, not {other:?}"),
    }
}

// --- equality and order

/// Whether a map that is built step by step keeps one entry for both keys: a keyword and a string with the same name
/// are one key (`keys.writes`).
fn is_same_key(a: &Value, b: &Value) -> bool {
    let names = a.key_text().zip(b.key_text());
    a == b || names.is_some_and(|(a, b)| a == b)
}

/// Values from a small domain, so that equal ones are frequent; it includes 1 and 1.0, nil and :nil.
fn small() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Nil),
        any::<bool>().prop_map(Value::from),
        (-1i64..3).prop_map(Value::Int),
        (-1i64..3).prop_map(|int| Value::Float(int as f64)),
        Just(Value::Float(-0.0)),
        Just(Value::Float(0.5)),
        Just(Value::Float(f64::INFINITY)),
        Just(Value::Int(i64::MAX)),
        Just(Value::Float(i64::MAX as f64)),
        Just(Value::integer((1u128 << 63).into())),
        "nil|true|a|b|".prop_map(Value::keyword),
        "nil|true|a|b|".prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 12, 3, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
            prop::collection::vec(inner.clone(), 0..3)
                .prop_map(|members| Value::Set(members.into_iter().collect::<Set>())),
            prop::collection::vec((inner.clone(), inner), 0..3)
                .prop_map(|entries| Value::Map(entries.into_iter().collect::<Map>())),
        ]
    })
}

fn any_value() -> impl Strategy<Value = Value> {
    prop_oneof![4 => small(), 1 => values::value()]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(250))]

    #[test]
    fn comparisons_are_total_orders(a in any_value(), b in any_value(), c in any_value()) {
        for order in [key_cmp, term_cmp] {
            prop_assert_eq!(order(&a, &a), Ordering::Equal);
            prop_assert_eq!(order(&a, &b), order(&b, &a).reverse());
            let mut sorted = [&a, &b, &c];
            sorted.sort_by(|a, b| order(a, b));
            prop_assert!(order(sorted[0], sorted[2]).is_le(), "{:?}", sorted);
            if order(&a, &b).is_eq() {
                prop_assert_eq!(order(&a, &c), order(&b, &c));
            }
        }
        // Without a NaN inside, `=` agrees with term order, and one key is one value.
        prop_assert!(equal(&a, &a));
        prop_assert_eq!(equal(&a, &b), equal(&b, &a));
        prop_assert_eq!(equal(&a, &b), term_cmp(&a, &b).is_eq(), "{:?} {:?}", a, b);
        prop_assert!(a != b || equal(&a, &b));
        prop_assert!(a == b || print::readable(&a) != print::readable(&b), "{:?} {:?}", a, b);
    }

    #[test]
    fn programs_agree_with_the_comparison_laws(a in any_value(), b in any_value()) {
        let context = [("a", a.clone()), ("b", b.clone())];
        let program = "(let [a data/a b data/b]
            [(= a b) (not (not= b a)) (contains? #{a} b) (= 1 (get {[a] 1} [b])) (= 1 (count (distinct [a b])))
             (= 1 (count (frequencies [a b]))) (= 1 (count (group-by identity [a b]))) (= 1 (count (conj #{a} b)))
             (= 1 (count (assoc {a 1} b 2))) (= {} (dissoc {a 1} b))])";
        let (level, same, one) = (equal(&a, &b), a == b, is_same_key(&a, &b));
        let wanted = [level, level, same, same, same, one, one, same, one, one];
        prop_assert_eq!(check(program, &context), vector(wanted.map(Value::from)));
    }

    #[test]
    fn sorting_is_a_stable_permutation(list in prop::collection::vec(any_value(), 0..12)) {
        let context = [("xs", vector(list.clone()))];
        let mut model = list.clone();
        model.sort_by(term_cmp);
        prop_assert_eq!(check("(sort data/xs)", &context), vector(model.clone()));
        prop_assert_eq!(check("(sort-by identity data/xs)", &context), vector(model));
        let mut model = list;
        model.sort_by(|a, b| term_cmp(b, a));
        prop_assert_eq!(check("(sort :desc data/xs)", &context), vector(model));
    }

    #[test]
    fn maps_and_sets_agree_with_btreemap(list in prop::collection::vec((any_value(), 0i64..9), 0..12)) {
        let mut model: BTreeMap<Value, i64> = BTreeMap::new();
        for (key, value) in &list {
            let stored = model.keys().find(|stored| is_same_key(stored, key)).unwrap_or(key).clone();
            model.insert(stored, *value);
        }
        let pairs = vector(list.iter().map(|(key, value)| vector([key.clone(), Value::Int(*value)])));
        let entries = vector(model.iter().map(|(key, value)| vector([key.clone(), Value::Int(*value)])));
        let context = [("pairs", pairs)];
        prop_assert_eq!(check("(vec (into {} data/pairs))", &context), entries.clone());
        prop_assert_eq!(check("(vec (reduce conj {} data/pairs))", &context), entries);
        let members: BTreeSet<Value> = list.iter().map(|(key, _)| key.clone()).collect();
        let members = vector(members);
        prop_assert_eq!(check("(vec (set (map first data/pairs)))", &context), members.clone());
        prop_assert_eq!(check("(vec (reduce conj #{} (map first data/pairs)))", &context), members);
        for (key, value) in &model {
            let found = check("(get (into {} data/pairs) data/k)", &[context[0].clone(), ("k", key.clone())]);
            prop_assert_eq!(found, Value::Int(*value));
        }
    }
}

// --- sequence functions

fn grouped(list: &[i64], key: impl Fn(i64) -> i64) -> Value {
    let mut groups: BTreeMap<i64, Vec<i64>> = BTreeMap::new();
    for item in list {
        groups.entry(key(*item)).or_default().push(*item);
    }
    let groups = groups
        .into_iter()
        .map(|(key, group)| (Value::Int(key), ints(&group)));
    Value::Map(groups.collect())
}

fn parts<'a>(parts: impl Iterator<Item = &'a [i64]>) -> Value {
    vector(parts.map(ints))
}

fn nil_if_empty(list: &[i64]) -> Value {
    if list.is_empty() {
        Value::Nil
    } else {
        ints(list)
    }
}

fn without_repeats(list: &[i64]) -> Vec<i64> {
    let mut seen = BTreeSet::new();
    list.iter()
        .copied()
        .filter(|item| seen.insert(*item))
        .collect()
}

fn windows(list: &[i64], size: usize, step: usize, all: bool) -> Value {
    let starts = (0..list.len()).step_by(step);
    let windows = starts.map(|start| &list[start..(start + size).min(list.len())]);
    parts(windows.filter(|window| all || window.len() == size))
}

fn sorted(list: &[i64]) -> Vec<i64> {
    let mut list = list.to_vec();
    list.sort();
    list
}

type Model = fn(&[i64], usize) -> Value;

/// Programs over the integers `xs` and the number `n`, with models of their results.
const MODELS: &[(&str, Model)] = &[
    ("(map inc xs)", |xs, _| {
        vector(xs.iter().map(|x| Value::Int(x + 1)))
    }),
    ("(mapv + xs (reverse xs))", |xs, _| {
        vector(
            xs.iter()
                .zip(xs.iter().rev())
                .map(|(a, b)| Value::Int(a + b)),
        )
    }),
    ("(map-indexed vector xs)", |xs, _| {
        vector(xs.iter().enumerate().map(|(at, x)| ints(&[at as i64, *x])))
    }),
    ("(mapcat (fn [x] [x x]) xs)", |xs, _| {
        vector(xs.iter().flat_map(|x| [Value::Int(*x), Value::Int(*x)]))
    }),
    ("(filter even? xs)", |xs, _| {
        ints(
            &xs.iter()
                .copied()
                .filter(|x| x % 2 == 0)
                .collect::<Vec<_>>(),
        )
    }),
    ("(remove even? xs)", |xs, _| {
        ints(
            &xs.iter()
                .copied()
                .filter(|x| x % 2 != 0)
                .collect::<Vec<_>>(),
        )
    }),
    ("(keep (fn [x] (if (even? x) (* x x))) xs)", |xs, _| {
        ints(
            &xs.iter()
                .filter(|x| *x % 2 == 0)
                .map(|x| x * x)
                .collect::<Vec<_>>(),
        )
    }),
    ("(take n xs)", |xs, n| ints(&xs[..n.min(xs.len())])),
    ("(drop n xs)", |xs, n| ints(&xs[n.min(xs.len())..])),
    ("(vec (take-last n xs))", |xs, n| {
        ints(&xs[xs.len() - n.min(xs.len())..])
    }),
    ("(drop-last n xs)", |xs, n| {
        ints(&xs[..xs.len() - n.min(xs.len())])
    }),
    ("(take-while (fn [x] (< x 20)) xs)", |xs, _| {
        ints(
            &xs.iter()
                .copied()
                .take_while(|x| *x < 20)
                .collect::<Vec<_>>(),
        )
    }),
    ("(drop-while (fn [x] (< x 20)) xs)", |xs, _| {
        ints(
            &xs.iter()
                .copied()
                .skip_while(|x| *x < 20)
                .collect::<Vec<_>>(),
        )
    }),
    ("(split-at n xs)", |xs, n| {
        parts([&xs[..n.min(xs.len())], &xs[n.min(xs.len())..]].into_iter())
    }),
    ("(rest xs)", |xs, _| ints(xs.get(1..).unwrap_or_default())),
    ("(next xs)", |xs, _| {
        nil_if_empty(xs.get(1..).unwrap_or_default())
    }),
    ("(butlast xs)", |xs, _| {
        nil_if_empty(&xs[..xs.len().saturating_sub(1)])
    }),
    ("(seq xs)", |xs, _| nil_if_empty(xs)),
    ("(first xs)", |xs, _| {
        xs.first().map_or(Value::Nil, |x| Value::Int(*x))
    }),
    ("(last xs)", |xs, _| {
        xs.last().map_or(Value::Nil, |x| Value::Int(*x))
    }),
    ("(nth xs n :none)", |xs, n| {
        xs.get(n).map_or(Value::keyword("none"), |x| Value::Int(*x))
    }),
    ("(get xs n)", |xs, n| {
        xs.get(n).map_or(Value::Nil, |x| Value::Int(*x))
    }),
    ("(reverse xs)", |xs, _| {
        ints(&xs.iter().rev().copied().collect::<Vec<_>>())
    }),
    ("(sort xs)", |xs, _| ints(&sorted(xs))),
    ("(sort > xs)", |xs, _| {
        ints(&sorted(xs).into_iter().rev().collect::<Vec<_>>())
    }),
    ("(sort (fn [a b] (- b a)) xs)", |xs, _| {
        ints(&sorted(xs).into_iter().rev().collect::<Vec<_>>())
    }),
    ("(sort-by (fn [x] (mod x 3)) xs)", |xs, _| {
        let mut list = xs.to_vec();
        list.sort_by_key(|x| x.rem_euclid(3));
        ints(&list)
    }),
    (
        "(sort-by (fn [x] (mod x 3)) (fn [a b] (> a b)) xs)",
        |xs, _| {
            let mut list = xs.to_vec();
            list.sort_by_key(|x| std::cmp::Reverse(x.rem_euclid(3)));
            ints(&list)
        },
    ),
    ("(distinct xs)", |xs, _| ints(&without_repeats(xs))),
    ("(dedupe xs)", |xs, _| {
        let mut list = xs.to_vec();
        list.dedup();
        ints(&list)
    }),
    ("(set xs)", |xs, _| {
        Value::Set(xs.iter().map(|x| Value::Int(*x)).collect())
    }),
    ("(group-by (fn [x] (mod x 5)) xs)", |xs, _| {
        grouped(xs, |x| x.rem_euclid(5))
    }),
    ("(update-vals (group-by identity xs) count)", |xs, _| {
        frequencies(xs)
    }),
    ("(frequencies xs)", |xs, _| frequencies(xs)),
    (
        "(reduce (fn [m x] (update m x (fnil inc 0))) {} xs)",
        |xs, _| frequencies(xs),
    ),
    ("(interleave xs (map str xs))", |xs, _| {
        vector(
            xs.iter()
                .flat_map(|x| [Value::Int(*x), Value::from(x.to_string())]),
        )
    }),
    ("(interpose :x xs)", |xs, _| {
        let spaced = xs
            .iter()
            .flat_map(|x| [Value::keyword("x"), Value::Int(*x)]);
        vector(spaced.skip(1))
    }),
    ("(partition (inc n) xs)", |xs, n| {
        windows(xs, n + 1, n + 1, false)
    }),
    ("(partition (inc n) 2 xs)", |xs, n| {
        windows(xs, n + 1, 2, false)
    }),
    ("(partition-all (inc n) xs)", |xs, n| {
        windows(xs, n + 1, n + 1, true)
    }),
    ("(partition-all (inc n) 3 xs)", |xs, n| {
        windows(xs, n + 1, 3, true)
    }),
    ("(partition-by even? xs)", |xs, _| {
        parts(xs.chunk_by(|a, b| (a - b) % 2 == 0))
    }),
    ("(concat xs [1] nil xs)", |xs, _| {
        ints(&[xs, &[1], xs].concat())
    }),
    ("(into xs xs)", |xs, _| ints(&[xs, xs].concat())),
    ("(into [] (reverse xs))", |xs, _| {
        ints(&xs.iter().rev().copied().collect::<Vec<_>>())
    }),
    ("(cons n xs)", |xs, n| ints(&[&[n as i64], xs].concat())),
    ("(conj xs n n)", |xs, n| {
        ints(&[xs, &[n as i64; 2]].concat())
    }),
    ("(reduce + xs)", |xs, _| Value::Int(xs.iter().sum())),
    ("(reduce conj [] xs)", |xs, _| ints(xs)),
    ("(apply max 0 xs)", |xs, _| {
        Value::Int(xs.iter().copied().fold(0, i64::max))
    }),
    (
        "(count (filter (fn [x] (some #{x} xs)) (range 40)))",
        |xs, _| Value::from((0..40).filter(|x| xs.contains(x)).count()),
    ),
    ("(vals (zipmap (range (count xs)) xs))", |xs, _| ints(xs)),
    ("(vec (keys (zipmap xs xs)))", |xs, _| {
        let mut keys = sorted(xs);
        keys.dedup();
        ints(&keys)
    }),
    ("(select-keys (zipmap xs xs) (range n))", |xs, n| {
        let kept = xs.iter().filter(|x| (0..n as i64).contains(*x));
        Value::Map(kept.map(|x| (Value::Int(*x), Value::Int(*x))).collect())
    }),
    (
        "(reduce-kv (fn [acc k v] (+ acc k v)) 0 (zipmap xs xs))",
        |xs, _| {
            Value::Int(
                xs.iter()
                    .collect::<BTreeSet<_>>()
                    .into_iter()
                    .map(|x| 2 * x)
                    .sum(),
            )
        },
    ),
    ("(split-with even? xs)", |xs, _| {
        let at = xs.iter().position(|x| x % 2 != 0).unwrap_or(xs.len());
        parts([&xs[..at], &xs[at..]].into_iter())
    }),
    ("(for [x xs :when (odd? x) :let [y (* x x)]] y)", |xs, _| {
        ints(
            &xs.iter()
                .filter(|x| *x % 2 != 0)
                .map(|x| x * x)
                .collect::<Vec<_>>(),
        )
    }),
    (
        "(loop [left xs acc []] (if (seq left) (recur (rest left) (conj acc (first left))) acc))",
        |xs, _| ints(xs),
    ),
    ("(flatten (partition-all (inc n) xs))", |xs, _| ints(xs)),
    ("(subvec xs (min n (count xs)))", |xs, n| {
        ints(&xs[n.min(xs.len())..])
    }),
];

fn frequencies(xs: &[i64]) -> Value {
    let mut counts: BTreeMap<i64, i64> = BTreeMap::new();
    for x in xs {
        *counts.entry(*x).or_default() += 1;
    }
    let counts = counts
        .into_iter()
        .map(|(x, count)| (Value::Int(x), Value::Int(count)));
    Value::Map(counts.collect())
}

/// The integers as a flat vector and as a tree.
fn both_ways(xs: &[i64]) -> [Value; 2] {
    let tree = check(
        "(let [kept data/xs changed (if (seq kept) (assoc kept 0 (first kept)) kept)] [kept changed])",
        &[("xs", ints(xs))],
    );
    let pair = items(&tree);
    [pair[0].clone(), pair[1].clone()]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    #[test]
    fn sequence_functions_agree_with_their_models(
        xs in prop_oneof![prop::collection::vec(-5i64..40, 0..12), prop::collection::vec(-5i64..40, 60..150)],
        n in 0usize..9,
    ) {
        for (program, model) in MODELS {
            for list in both_ways(&xs) {
                let whole = format!("(let [xs data/xs n data/n result {program}] [xs result])");
                let found = items(&check(&whole, &[("xs", list), ("n", n.into())]));
                prop_assert_eq!(&found[1], &model(&xs, n), "{}", program);
                prop_assert_eq!(&found[0], &ints(&xs), "{} changed its input", program);
            }
        }
    }
}

// --- versions of one collection

#[derive(Clone, Debug)]
enum Change {
    Put(i64),
    Take(i64),
    Update(i64),
}

fn changes() -> impl Strategy<Value = Vec<(usize, Change)>> {
    let change = prop_oneof![
        (0i64..150).prop_map(Change::Put),
        (0i64..150).prop_map(Change::Take),
        (0i64..150).prop_map(Change::Update),
    ];
    prop::collection::vec((0usize..1000, change), 1..25)
}

/// A program that makes one version after the other, each from an earlier one, and returns them all.
fn versions(changes: &[(usize, Change)], text: impl Fn(&Change) -> String) -> String {
    let mut bindings = "v0 data/v".to_owned();
    for (at, (from, change)) in changes.iter().enumerate() {
        let from = from % (at + 1);
        bindings += &format!(
            " v{} {}",
            at + 1,
            text(change).replace('@', &format!("v{from}"))
        );
    }
    let all: Vec<String> = (0..=changes.len()).map(|at| format!("v{at}")).collect();
    format!("(let [{bindings}] [{}])", all.join(" "))
}

/// The versions according to the model.
fn model_versions<T: Clone>(
    first: T,
    changes: &[(usize, Change)],
    apply: impl Fn(&mut T, &Change),
) -> Vec<T> {
    let mut all = vec![first];
    for (at, (from, change)) in changes.iter().enumerate() {
        let mut next = all[from % (at + 1)].clone();
        apply(&mut next, change);
        all.push(next);
    }
    all
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn vector_versions_are_immutable(len in prop_oneof![0usize..4, 60usize..140], changes in changes()) {
        let first: Vec<i64> = (0..len as i64).collect();
        let program = versions(&changes, |change| match change {
            Change::Put(x) => format!("(conj @ {x})"),
            Change::Take(_) => "(vec (pop @))".to_owned(),
            Change::Update(x) => format!("(if (< {x} (count @)) (update @ {x} + 1000) (assoc @ (count @) {x}))"),
        });
        let model = model_versions(first.clone(), &changes, |items, change| match change {
            Change::Put(x) => items.push(*x),
            Change::Take(_) => { items.pop(); }
            Change::Update(x) => match items.get_mut(*x as usize) {
                Some(item) => *item += 1000,
                None => items.push(*x),
            },
        });
        let context = [("v", ints(&first))];
        prop_assert_eq!(check(&program, &context), vector(model.iter().map(|items| ints(items))), "{}", program);
        prop_assert_eq!(&context[0].1, &ints(&first));
    }

    #[test]
    fn map_versions_are_immutable(len in prop_oneof![0i64..4, 60i64..140], changes in changes()) {
        let first: BTreeMap<i64, i64> = (0..len).map(|key| (key, key)).collect();
        let value = |map: &BTreeMap<i64, i64>| {
            Value::Map(map.iter().map(|(key, value)| (Value::Int(*key), Value::Int(*value))).collect())
        };
        let program = versions(&changes, |change| match change {
            Change::Put(x) => format!("(assoc @ {x} -1)"),
            Change::Take(x) => format!("(dissoc @ {x})"),
            Change::Update(x) => format!("(update @ {x} (fnil + 0) 1000)"),
        });
        let model = model_versions(first.clone(), &changes, |map, change| match change {
            Change::Put(x) => { map.insert(*x, -1); }
            Change::Take(x) => { map.remove(x); }
            Change::Update(x) => *map.entry(*x).or_default() += 1000,
        });
        let context = [("v", value(&first))];
        prop_assert_eq!(check(&program, &context), vector(model.iter().map(value)), "{}", program);
        prop_assert_eq!(&context[0].1, &value(&first));
    }

    #[test]
    fn set_versions_are_immutable(len in prop_oneof![0i64..4, 60i64..140], changes in changes()) {
        let first: BTreeSet<i64> = (0..len).collect();
        let value = |set: &BTreeSet<i64>| Value::Set(set.iter().map(|x| Value::Int(*x)).collect());
        let program = versions(&changes, |change| match change {
            Change::Put(x) => format!("(conj @ {x})"),
            Change::Take(x) => format!("(disj @ {x})"),
            Change::Update(x) => format!("(union @ #{{{x} {}}})", x + 500),
        });
        let model = model_versions(first.clone(), &changes, |set, change| match change {
            Change::Put(x) => { set.insert(*x); }
            Change::Take(x) => { set.remove(x); }
            Change::Update(x) => set.extend([*x, x + 500]),
        });
        let context = [("v", value(&first))];
        prop_assert_eq!(check(&program, &context), vector(model.iter().map(value)), "{}", program);
        prop_assert_eq!(&context[0].1, &value(&first));
    }
}

// --- programs that read everything again

/// Choices that shrink: when the bytes are used up, every choice is the first.
struct Choices<'b>(std::slice::Iter<'b, u8>);

impl Choices<'_> {
    fn choose(&mut self, sides: usize) -> usize {
        usize::from(self.0.next().copied().unwrap_or(0)) % sides
    }
}

/// An expression whose value is a vector.
enum Node {
    Var(char),
    Leaf(&'static str),
    Form {
        row: &'static ModelForm,
        names: Vec<char>,
        parts: Vec<Node>,
    },
}

/// A form with `@0` … for its parts and `$0` … for the names that it binds, and a model of its result.
struct ModelForm {
    text: &'static str,
    /// The parts that see names of the form, each with the indices of those names.
    sees: &'static [(usize, &'static [usize])],
    model: fn(&mut Reference, &Node) -> Option<Value>,
}

/// The reference evaluator: it copies everything and moves nothing.
struct Reference {
    names: Vec<(char, Value)>,
    fuel: usize,
}

const LEAVES: &[&str] = &["[]", "[1 2]", "data/big", "(range 66)", "[[] [3]]"];
const BIG: i64 = 70;

impl Reference {
    fn eval(&mut self, node: &Node) -> Option<Value> {
        let value = match node {
            Node::Var(name) => {
                let found = self.names.iter().rev().find(|(known, _)| known == name);
                found.expect("bound").1.clone()
            }
            Node::Leaf("data/big") => ints(&(0..BIG).collect::<Vec<_>>()),
            Node::Leaf("(range 66)") => ints(&(0..66).collect::<Vec<_>>()),
            Node::Leaf("[1 2]") => ints(&[1, 2]),
            Node::Leaf("[[] [3]]") => vector([ints(&[]), ints(&[3])]),
            Node::Leaf(_) => ints(&[]),
            Node::Form { row, .. } => (row.model)(self, node)?,
        };
        // Repeatedly shared structure takes too long to compare.
        let size = items(&value).len().max(value.shape().weight as usize / 64);
        self.fuel = self.fuel.checked_sub(1 + size)?;
        Some(value)
    }

    /// The value of a part, with the names of its form that the part sees.
    fn part(&mut self, node: &Node, at: usize, sees: &[(usize, &Value)]) -> Option<Value> {
        let Node::Form { names, parts, .. } = node else {
            return None;
        };
        let mark = self.names.len();
        for (name, value) in sees {
            self.names.push((names[*name], (*value).clone()));
        }
        let value = self.eval(&parts[at]);
        self.names.truncate(mark);
        value
    }

    fn one(&mut self, node: &Node) -> Option<Vec<Value>> {
        Some(items(&self.part(node, 0, &[])?))
    }

    fn two(&mut self, node: &Node) -> Option<(Value, Value)> {
        Some((self.part(node, 0, &[])?, self.part(node, 1, &[])?))
    }
}

fn plus(value: &Value, more: impl IntoIterator<Item = Value>) -> Value {
    vector(items(value).into_iter().chain(more))
}

fn short(value: &Value, below: usize) -> bool {
    items(value).len() < below
}

/// Iterations of a loop: applies `step` to its own result `count` times.
fn rounds(
    count: usize,
    mut acc: Value,
    mut step: impl FnMut(&Value) -> Option<Value>,
) -> Option<Value> {
    for _ in 0..count {
        acc = step(&acc)?;
    }
    Some(acc)
}

const FORMS: &[ModelForm] = &[
    // Functions.
    ModelForm {
        text: "(conj @0 7)",
        sees: &[],
        model: |m, n| {
            let v = m.part(n, 0, &[])?;
            Some(plus(&v, [Value::Int(7)]))
        },
    },
    ModelForm {
        text: "(vec (pop @0))",
        sees: &[],
        model: |m, n| {
            let mut v = m.one(n)?;
            v.pop();
            Some(vector(v))
        },
    },
    ModelForm {
        text: "(assoc @0 0 :h)",
        sees: &[],
        model: |m, n| {
            let mut v = m.one(n)?;
            if v.is_empty() {
                v.push(Value::Nil);
            }
            v[0] = Value::keyword("h");
            Some(vector(v))
        },
    },
    ModelForm {
        text: "(update (conj @0 1) 0 vector)",
        sees: &[],
        model: |m, n| {
            let mut v = m.one(n)?;
            v.push(Value::Int(1));
            v[0] = vector([v[0].clone()]);
            Some(vector(v))
        },
    },
    ModelForm {
        text: "(conj @0 @1)",
        sees: &[],
        model: |m, n| {
            let (a, b) = m.two(n)?;
            Some(plus(&a, [b]))
        },
    },
    ModelForm {
        text: "(into @0 @1)",
        sees: &[],
        model: |m, n| {
            let (a, b) = m.two(n)?;
            Some(plus(&a, items(&b)))
        },
    },
    ModelForm {
        text: "(concat @0 @1)",
        sees: &[],
        model: |m, n| {
            let (a, b) = m.two(n)?;
            Some(plus(&a, items(&b)))
        },
    },
    ModelForm {
        text: "(reduce conj @0 @1)",
        sees: &[],
        model: |m, n| {
            let (a, b) = m.two(n)?;
            Some(plus(&a, items(&b)))
        },
    },
    ModelForm {
        text: "(apply conj @0 @1)",
        sees: &[],
        model: |m, n| {
            let (a, b) = m.two(n)?;
            Some(plus(&a, items(&b)))
        },
    },
    ModelForm {
        text: "(reverse @0)",
        sees: &[],
        model: |m, n| Some(vector(m.one(n)?.into_iter().rev())),
    },
    ModelForm {
        text: "(rest @0)",
        sees: &[],
        model: |m, n| Some(vector(m.one(n)?.into_iter().skip(1))),
    },
    ModelForm {
        text: "(mapv vector @0)",
        sees: &[],
        model: |m, n| Some(vector(m.one(n)?.into_iter().map(|item| vector([item])))),
    },
    ModelForm {
        text: "(cons @0 @1)",
        sees: &[],
        model: |m, n| {
            let (a, b) = m.two(n)?;
            Some(plus(&vector([a]), items(&b)))
        },
    },
    ModelForm {
        text: "[@0 @1]",
        sees: &[],
        model: |m, n| {
            let (a, b) = m.two(n)?;
            Some(vector([a, b]))
        },
    },
    ModelForm {
        text: "(vals {:b @0 :a @1})",
        sees: &[],
        model: |m, n| {
            let (a, b) = m.two(n)?;
            Some(vector([b, a]))
        },
    },
    ModelForm {
        text: "(get (assoc {:a @0} :b @1) :a)",
        sees: &[],
        model: |m, n| Some(m.two(n)?.0),
    },
    ModelForm {
        text: "(get (update {:a @0} :a conj @1) :a)",
        sees: &[],
        model: |m, n| {
            let (a, b) = m.two(n)?;
            Some(plus(&a, [b]))
        },
    },
    ModelForm {
        text: "(:b (:a (update-in {:a {:b @0}} [:a :b] into @1)))",
        sees: &[],
        model: |m, n| {
            let (a, b) = m.two(n)?;
            Some(plus(&a, items(&b)))
        },
    },
    ModelForm {
        text: "(:a (merge-with into {:a @0} {:a @1}))",
        sees: &[],
        model: |m, n| {
            let (a, b) = m.two(n)?;
            Some(plus(&a, items(&b)))
        },
    },
    ModelForm {
        text: "(vec (vals (dissoc {:a @0 :b @1} :a)))",
        sees: &[],
        model: |m, n| Some(vector([m.two(n)?.1])),
    },
    ModelForm {
        text: "(assoc-in (conj @0 1) [0] @1)",
        sees: &[],
        model: |m, n| {
            let (a, b) = m.two(n)?;
            let mut v = items(&plus(&a, [Value::Int(1)]));
            v[0] = b;
            Some(vector(v))
        },
    },
    ModelForm {
        text: "(peek [@0 @1])",
        sees: &[],
        model: |m, n| Some(m.two(n)?.1),
    },
    ModelForm {
        text: "(do @0 @1)",
        sees: &[],
        model: |m, n| Some(m.two(n)?.1),
    },
    ModelForm {
        text: "(if (= @0 @1) [1] [2])",
        sees: &[],
        model: |m, n| {
            let (a, b) = m.two(n)?;
            Some(ints(&[if a == b { 1 } else { 2 }]))
        },
    },
    // Control.
    ModelForm {
        text: "(if (< (count @0) 3) @1 @2)",
        sees: &[],
        model: |m, n| {
            let test = m.part(n, 0, &[])?;
            m.part(n, if short(&test, 3) { 1 } else { 2 }, &[])
        },
    },
    ModelForm {
        text: "(cond (< (count @0) 1) @1 (< (count @2) 3) @3 :else @4)",
        sees: &[],
        model: |m, n| {
            if short(&m.part(n, 0, &[])?, 1) {
                return m.part(n, 1, &[]);
            }
            let test = m.part(n, 2, &[])?;
            m.part(n, if short(&test, 3) { 3 } else { 4 }, &[])
        },
    },
    ModelForm {
        text: "(case (count @0) 0 @1 (1 2) @2 @3)",
        sees: &[],
        model: |m, n| {
            let branch = match items(&m.part(n, 0, &[])?).len() {
                0 => 1,
                1 | 2 => 2,
                _ => 3,
            };
            m.part(n, branch, &[])
        },
    },
    ModelForm {
        text: "(or (and (< (count @0) 2) @1) @2)",
        sees: &[],
        model: |m, n| {
            let test = m.part(n, 0, &[])?;
            m.part(n, if short(&test, 2) { 1 } else { 2 }, &[])
        },
    },
    ModelForm {
        text: "(cond-> @0 (< (count @1) 2) (into @2))",
        sees: &[],
        model: |m, n| {
            let (start, test) = m.two(n)?;
            if !short(&test, 2) {
                return Some(start);
            }
            let more = m.part(n, 2, &[])?;
            Some(plus(&start, items(&more)))
        },
    },
    ModelForm {
        text: "(some-> @0 (into @1) (conj 5))",
        sees: &[],
        model: |m, n| {
            let (a, b) = m.two(n)?;
            Some(plus(&plus(&a, items(&b)), [Value::Int(5)]))
        },
    },
    ModelForm {
        text: "(if-let [$0 (seq @0)] @1 @2)",
        sees: &[(1, &[0])],
        model: |m, n| {
            let value = m.part(n, 0, &[])?;
            if short(&value, 1) {
                m.part(n, 2, &[])
            } else {
                m.part(n, 1, &[(0, &value)])
            }
        },
    },
    ModelForm {
        text: "(if-some [$0 @0] [@1 $0] [])",
        sees: &[(1, &[0])],
        model: |m, n| {
            let value = m.part(n, 0, &[])?;
            let body = m.part(n, 1, &[(0, &value)])?;
            Some(vector([body, value]))
        },
    },
    ModelForm {
        text: "(as-> @0 $0 (conj $0 8) (into $0 @1))",
        sees: &[(1, &[0])],
        model: |m, n| {
            let start = plus(&m.part(n, 0, &[])?, [Value::Int(8)]);
            let more = m.part(n, 1, &[(0, &start)])?;
            Some(plus(&start, items(&more)))
        },
    },
    // Bindings.
    ModelForm {
        text: "(let [$0 @0 $1 @1] [@2 $1])",
        sees: &[(1, &[0]), (2, &[0, 1])],
        model: |m, n| {
            let a = m.part(n, 0, &[])?;
            let b = m.part(n, 1, &[(0, &a)])?;
            let body = m.part(n, 2, &[(0, &a), (1, &b)])?;
            Some(vector([body, b]))
        },
    },
    ModelForm {
        text: "(let [$0 @0 $1 (conj $0 1) $2 (assoc $1 0 :x)] [(into @1 $1) $2])",
        sees: &[(1, &[0, 1, 2])],
        model: |m, n| {
            let a = m.part(n, 0, &[])?;
            let Node::Form { names, .. } = n else {
                return None;
            };
            let b = plus(&a, [Value::Int(1)]);
            let mut c = items(&b);
            c[0] = Value::keyword("x");
            let c = vector(c);
            let body = m.part(n, 1, &[(0, &a), (1, &b), (2, &c)])?;
            // The names may be the same: then the last one is visible.
            let b = if names[2] == names[1] { c.clone() } else { b };
            Some(vector([plus(&body, items(&b)), c]))
        },
    },
    ModelForm {
        text: "(let [[$0 $1 :as $2] [@0 @1]] @2)",
        sees: &[(2, &[0, 1, 2])],
        model: |m, n| {
            let (a, b) = m.two(n)?;
            let all = vector([a.clone(), b.clone()]);
            m.part(n, 2, &[(0, &a), (1, &b), (2, &all)])
        },
    },
    ModelForm {
        text: "(let [[$0 & $1] [@0 @1 @2]] @3)",
        sees: &[(3, &[0, 1])],
        model: |m, n| {
            let (a, b) = m.two(n)?;
            let rest = vector([b, m.part(n, 2, &[])?]);
            m.part(n, 3, &[(0, &a), (1, &rest)])
        },
    },
    ModelForm {
        text: "(let [{$0 :k :or {$0 @0}} {:z @1}] [@2 $0])",
        sees: &[(2, &[0])],
        model: |m, n| {
            m.part(n, 1, &[])?;
            let value = m.part(n, 0, &[])?;
            let body = m.part(n, 2, &[(0, &value)])?;
            Some(vector([body, value]))
        },
    },
    ModelForm {
        text: "((fn [$0 $1] @2) @0 @1)",
        sees: &[(2, &[0, 1])],
        model: |m, n| {
            let (a, b) = m.two(n)?;
            m.part(n, 2, &[(0, &a), (1, &b)])
        },
    },
    ModelForm {
        text: "(let [$1 (fn [$0] @2)] [($1 @0) ($1 @1)])",
        sees: &[(2, &[0])],
        model: |m, n| {
            let (a, b) = m.two(n)?;
            let (a, b) = (m.part(n, 2, &[(0, &a)])?, m.part(n, 2, &[(0, &b)])?);
            Some(vector([a, b]))
        },
    },
    ModelForm {
        text: "(mapv (fn [$0] @2) [@0 @1 @0])",
        sees: &[(2, &[0])],
        model: |m, n| {
            let (a, b) = m.two(n)?;
            m.part(n, 0, &[])?;
            let mut made = Vec::new();
            for item in [&a, &b, &a] {
                made.push(m.part(n, 2, &[(0, item)])?);
            }
            Some(vector(made))
        },
    },
    ModelForm {
        text: "(reduce (fn [$0 $1] @3) @0 [@1 @2])",
        sees: &[(3, &[0, 1])],
        model: |m, n| {
            let (a, b) = m.two(n)?;
            let c = m.part(n, 2, &[])?;
            let made = m.part(n, 3, &[(0, &a), (1, &b)])?;
            m.part(n, 3, &[(0, &made), (1, &c)])
        },
    },
    // Repetition.
    ModelForm {
        text: "(loop [i 0 $0 @0] (if (< i 3) (recur (inc i) @1) [@2 $0]))",
        sees: &[(1, &[0]), (2, &[0])],
        model: |m, n| {
            let start = m.part(n, 0, &[])?;
            let last = rounds(3, start, |acc| m.part(n, 1, &[(0, acc)]))?;
            let body = m.part(n, 2, &[(0, &last)])?;
            Some(vector([body, last]))
        },
    },
    ModelForm {
        text: "(loop [i 0 $0 @0 $1 @1] (if (< i 2) (recur (inc i) @2 (conj $1 $0)) @3))",
        sees: &[(1, &[0]), (2, &[0, 1]), (3, &[0, 1])],
        model: |m, n| {
            let Node::Form { names, .. } = n else {
                return None;
            };
            let mut a = m.part(n, 0, &[])?;
            let mut b = m.part(n, 1, &[(0, &a)])?;
            for _ in 0..2 {
                let next = m.part(n, 2, &[(0, &a), (1, &b)])?;
                let seen = if names[0] == names[1] { &b } else { &a };
                b = plus(&b, [seen.clone()]);
                a = next;
            }
            m.part(n, 3, &[(0, &a), (1, &b)])
        },
    },
    ModelForm {
        text: "(loop [i 0 {$0 :k :or {$0 @0}} {} acc []] (if (< i 3) (recur (inc i) {} (conj acc @1)) acc))",
        sees: &[(1, &[0])],
        model: |m, n| {
            let mut made = Vec::new();
            for _ in 0..3 {
                let value = m.part(n, 0, &[])?;
                made.push(m.part(n, 1, &[(0, &value)])?);
            }
            m.part(n, 0, &[])?;
            Some(vector(made))
        },
    },
    ModelForm {
        text: "((fn [i $0 & [$1]] (if (< i 3) (recur (inc i) @2 [@3]) [$0 $1])) 0 @0 @1)",
        sees: &[(2, &[0, 1]), (3, &[0, 1])],
        model: |m, n| {
            let Node::Form { names, .. } = n else {
                return None;
            };
            let (mut a, mut b) = m.two(n)?;
            for _ in 0..3 {
                let next = m.part(n, 2, &[(0, &a), (1, &b)])?;
                b = m.part(n, 3, &[(0, &a), (1, &b)])?;
                a = next;
            }
            let first = if names[0] == names[1] { b.clone() } else { a };
            Some(vector([first, b]))
        },
    },
    ModelForm {
        text: "((fn self [i $0] (if (< i 2) (conj (self (inc i) @1) $0) @2)) 0 @0)",
        sees: &[(1, &[0]), (2, &[0])],
        model: |m, n| {
            let first = m.part(n, 0, &[])?;
            let second = m.part(n, 1, &[(0, &first)])?;
            let third = m.part(n, 1, &[(0, &second)])?;
            let body = m.part(n, 2, &[(0, &third)])?;
            Some(plus(&body, [second, first]))
        },
    },
    ModelForm {
        text: "(for [$0 [@0 @1] $1 [@2 @3] :let [$2 @4] :when (< (count $2) 9)] [@5 $2 $0])",
        sees: &[(2, &[0]), (3, &[0]), (4, &[0, 1]), (5, &[0, 1, 2])],
        model: |m, n| {
            let Node::Form { names, .. } = n else {
                return None;
            };
            let names = names.clone();
            let (a, b) = m.two(n)?;
            let mut made = Vec::new();
            for outer in [&a, &b] {
                let inner = [m.part(n, 2, &[(0, outer)])?, m.part(n, 3, &[(0, outer)])?];
                for item in &inner {
                    let third = m.part(n, 4, &[(0, outer), (1, item)])?;
                    if !short(&third, 9) {
                        continue;
                    }
                    let body = m.part(n, 5, &[(0, outer), (1, item), (2, &third)])?;
                    let seen = match names[0] {
                        name if name == names[2] => &third,
                        name if name == names[1] => item,
                        _ => outer,
                    };
                    made.push(vector([body, third.clone(), seen.clone()]));
                }
            }
            Some(vector(made))
        },
    },
    ModelForm {
        text: "(for [{$0 :k :or {$0 @0}} [{} {:k @1} {}] :while (< (count @2) 99)] @3)",
        sees: &[(2, &[0]), (3, &[0])],
        model: |m, n| {
            let given = m.part(n, 1, &[])?;
            let mut made = Vec::new();
            for item in [None, Some(&given), None] {
                let value = match item {
                    Some(item) => item.clone(),
                    None => m.part(n, 0, &[])?,
                };
                if !short(&m.part(n, 2, &[(0, &value)])?, 99) {
                    break;
                }
                made.push(m.part(n, 3, &[(0, &value)])?);
            }
            Some(vector(made))
        },
    },
    ModelForm {
        text: "(do (doseq [$0 [@0 @1]] @2) @3)",
        sees: &[(2, &[0])],
        model: |m, n| {
            let (a, b) = m.two(n)?;
            for item in [&a, &b] {
                m.part(n, 2, &[(0, item)])?;
            }
            m.part(n, 3, &[])
        },
    },
];

/// The number of different placeholders, `mark` followed by a digit, in `text`.
fn marks(text: &str, mark: char) -> usize {
    (0..9)
        .filter(|digit| text.contains(&format!("{mark}{digit}")))
        .count()
}

fn node(choices: &mut Choices<'_>, depth: usize, scope: &mut Vec<char>) -> Node {
    if depth == 0 || choices.choose(5) == 0 {
        if scope.is_empty() || choices.choose(4) == 0 {
            return Node::Leaf(LEAVES[choices.choose(LEAVES.len())]);
        }
        return Node::Var(scope[choices.choose(scope.len())]);
    }
    let row = &FORMS[choices.choose(FORMS.len())];
    // Only a few names, so that they shadow each other.
    let mut names: Vec<char> = (0..marks(row.text, '$'))
        .map(|_| ['a', 'b', 'c', 'd'][choices.choose(4)])
        .collect();
    if row.text.contains("[$1 (fn") {
        // Nothing reads the name of a function.
        names[1] = 'f';
    }
    let parts = (0..marks(row.text, '@'))
        .map(|at| {
            let mark = scope.len();
            for (_, sees) in row.sees.iter().filter(|(part, _)| *part == at) {
                scope.extend(sees.iter().map(|name| names[*name]));
            }
            let part = node(choices, depth - 1, scope);
            scope.truncate(mark);
            part
        })
        .collect();
    Node::Form { row, names, parts }
}

fn text(node: &Node) -> String {
    match node {
        Node::Var(name) => name.to_string(),
        Node::Leaf(leaf) => (*leaf).to_owned(),
        Node::Form { row, names, parts } => {
            let mut out = String::new();
            let mut rest = row.text;
            while let Some(at) = rest.find(['@', '$']) {
                out.push_str(&rest[..at]);
                let which = usize::from(rest.as_bytes()[at + 1] - b'0');
                match rest.as_bytes()[at] {
                    b'@' => out.push_str(&text(&parts[which])),
                    _ => out.push(names[which]),
                }
                rest = &rest[at + 2..];
            }
            out.push_str(rest);
            out
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    #[test]
    fn reread_values_are_unchanged(bytes in prop::collection::vec(any::<u8>(), 5..160)) {
        let root = node(&mut Choices(bytes.iter()), 5, &mut Vec::new());
        let mut reference = Reference { names: Vec::new(), fuel: 4_000 };
        let Some(wanted) = reference.eval(&root) else {
            return Ok(());
        };
        let program = text(&root);
        let big = ints(&(0..BIG).collect::<Vec<_>>());
        let context = [("big", big.clone())];
        prop_assert_eq!(check(&program, &context), wanted, "{}", program);
        prop_assert_eq!(&context[0].1, &big, "{}", program);
    }
}

// --- any program at all

/// Ends a program when its time is up, and observes the memory that it holds.
struct DeadlineHost {
    start: Duration,
    patience: Duration,
    thread: std::thread::ThreadId,
    base: isize,
    most: AtomicIsize,
}

impl Host for DeadlineHost {
    fn now_micros(&self) -> i64 {
        1_700_000_000_000_000
    }

    fn pulse(&self) -> Pulse {
        if std::thread::current().id() == self.thread {
            self.most
                .fetch_max(heap::thread_balance() - self.base, Memory::Relaxed);
        }
        if cpu_time().saturating_sub(self.start) < self.patience {
            Pulse::Continue
        } else {
            Pulse::TimedOut
        }
    }
}

/// Checks that any `program` ends in time and within its memory limit, and that its value can be shown.
fn check_ends(program: &str) {
    const MEMORY_BYTES: u64 = 4 << 20;
    const PATIENCE: Duration = Duration::from_millis(200);
    /// The longest time between two checks of the clock in a test build.
    const GRACE: Duration = Duration::from_millis(2_000);
    let limits = Limits {
        memory_bytes: MEMORY_BYTES,
        ..Limits::default()
    };
    let context = env(&[
        ("xs", ints(&[3, 1, 2])),
        (
            "m",
            Value::Map(Map::from(vec![(Value::from("a"), Value::Int(1))])),
        ),
    ]);
    let host = DeadlineHost {
        start: cpu_time(),
        patience: PATIENCE,
        thread: std::thread::current().id(),
        base: heap::thread_balance(),
        most: AtomicIsize::new(0),
    };
    let (outcome, _env) = run(&Program::new(program), &context, &limits, &host);
    let took = cpu_time() - host.start;
    let most = host
        .most
        .into_inner()
        .max(heap::thread_balance() - host.base);
    assert!(
        most <= 2 * MEMORY_BYTES as isize,
        "{program}: held {most} bytes"
    );
    assert!(took <= PATIENCE + GRACE, "{program}: took {took:?}");
    match &outcome.ended {
        Ended::Value(value) | Ended::Return(value) | Ended::Fail(value) => {
            print::preview(value, 50, 250);
            let _ = ptc_lang::json::to_string_within(value, 10_000, &Unwatched);
        }
        Ended::Error(error) => assert!(!error.message().is_empty(), "{program}"),
    }
}

const ATOMS: &[&str] = &[
    "nil",
    "true",
    "false",
    "0",
    "1",
    "2",
    "-1",
    "3",
    "1.5",
    "-0.0",
    "1e300",
    "##Inf",
    "##-Inf",
    "##NaN",
    "9223372036854775807",
    "-9223372036854775808",
    "99999999999999999999",
    "\"\"",
    "\"a\"",
    "\"a,b c\"",
    "\"é👩\u{200d}🚀\"",
    "\"2024-02-30\"",
    "\"2024-01-31\"",
    "\"2024-01-31T10:00:00Z\"",
    "\"%s %5d %.3f\"",
    "\"(a+)+$\"",
    "\"[\"",
    "\"{\\\"a\\\":[1,2.5,null]}\"",
    "\"$1\"",
    ":a",
    ":b",
    ":asc",
    ":desc",
    "[]",
    "[1 2 3]",
    "[[1 :a] [2 :b]]",
    "[:a 0]",
    "[{:a 1 :b \"x\"} {:a 2}]",
    "{}",
    "{:a 1}",
    "{\"a\" {:b [1]}}",
    "{1 2 1.0 3}",
    "#{}",
    "#{1 :a}",
    "'x",
    "'(a b)",
    "#\"a(b)?\"",
    "#\"\"",
    "inc",
    "+",
    "map",
    "conj",
    "count",
    "identity",
    "<",
    "(fn [x] x)",
    "(fn [x y] [y x])",
    "(fn [& xs] xs)",
    "(fn [] 1)",
    "#(conj [%] %&)",
    "(partial + 1)",
    "(comp inc inc)",
    "(range 5)",
    "(range 70)",
    "(range 20000)",
    "data/xs",
    "data/m",
    "data/none",
    "x",
    "y",
    "*1",
    "#'v",
    "v",
    "tool/nothing",
    "(LocalDate/parse \"2024-01-31\")",
    "(Instant/parse \"2024-01-31T10:00:00Z\")",
    "(Duration/ofDays 3)",
    "(java.util.Date.)",
    "&",
    "%",
    ".",
    "_",
    ":when",
    ":let",
    ":as",
    ":keys",
    ":else",
];

/// Forms with holes, in addition to those made from the tables.
const SHAPES: &[&str] = &[
    "(let [x @ y @] @)",
    "(fn [x] @)",
    "#(map % @)",
    "(if @ @ @)",
    "(loop [x @ y @] (if @ @ (recur @ @)))",
    "(for [x @ y @] @)",
    "(for [x @ :when @ :let [y @] :while @] @)",
    "(doseq [x @] @)",
    "(do (def v @) @)",
    "(defn v [x & y] @)",
    "(case @ @ @ @)",
    "(cond @ @ @ @)",
    "(-> @ @ @)",
    "(->> @ (map @) (filter @))",
    "(some-> @ @)",
    "(cond-> @ @ (conj @))",
    "(as-> @ x @)",
    "(let [[x & y :as z] @ {:keys [a] :or {a @}} @] [x y z a])",
    "(if-let [x @] @ @)",
    "(when-let [x @] @)",
    "(and @ @)",
    "(or @ @)",
    "(@ @)",
    "(@ @ @)",
    "(map @ @)",
    "(filter @ @)",
    "(reduce @ @ @)",
    "(sort-by @ @)",
    "(group-by @ @)",
    "(update @ @ @)",
    "(apply @ @)",
    "(pmap @ @)",
    "(println @ @)",
    "(return @)",
    "(fail @)",
    "(task @ @)",
    "[@ @]",
    "{@ @}",
    "#{@}",
    "(= @ @)",
    "(reduce (fn [x y] @) @ (range 30))",
    "((fn x [y] @) @)",
    "(str @ @)",
    "(reduce (fn [x _] @) @ (range 500))",
    "(defn x [y] (x @)) (x @)",
];

fn any_form(choices: &mut Choices<'_>, depth: usize) -> String {
    if depth == 0 {
        return ATOMS[choices.choose(ATOMS.len())].to_owned();
    }
    match choices.choose(8) {
        0 | 1 => ATOMS[choices.choose(ATOMS.len())].to_owned(),
        2 | 3 => {
            let shape = SHAPES[choices.choose(SHAPES.len())];
            let mut pieces = shape.split('@');
            let mut out = pieces.next().unwrap_or_default().to_owned();
            for piece in pieces {
                out += &any_form(choices, depth - 1);
                out += piece;
            }
            out
        }
        4 => {
            let forms = ptc_lang::special_forms();
            let name = forms[(choices.choose(256) * 7 + choices.choose(7)) % forms.len()].name;
            let args: Vec<String> = (0..choices.choose(5))
                .map(|_| any_form(choices, depth - 1))
                .collect();
            format!("({name} {})", args.join(" "))
        }
        _ => {
            let all: Vec<_> = ptc_lang::builtins().collect();
            let builtin = all[(choices.choose(256) * 256 + choices.choose(256)) % all.len()];
            let least = usize::from(builtin.arity.min);
            let most = builtin.arity.max.map_or(least + 3, usize::from);
            let count = match choices.choose(12) {
                0 => choices.choose(5),
                _ => least + choices.choose(most - least + 1),
            };
            let args: Vec<String> = (0..count).map(|_| any_form(choices, depth - 1)).collect();
            format!("({} {})", builtin.name, args.join(" "))
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn every_program_ends(bytes in prop::collection::vec(any::<u8>(), 4..60)) {
        check_ends(&any_form(&mut Choices(bytes.iter()), 3));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn every_text_ends(text in "\\PC{0,60}|[\\[\\](){}#'^`~@%&:/\\\\\"; a-z0-9.\n-]{0,60}") {
        check_ends(&text);
    }

    #[test]
    fn every_truncated_program_ends(bytes in prop::collection::vec(any::<u8>(), 4..40), cut in any::<prop::sample::Index>()) {
        let program = any_form(&mut Choices(bytes.iter()), 3);
        let starts: Vec<usize> = program.char_indices().map(|(at, _)| at).collect();
        check_ends(&program[..starts[cut.index(starts.len())]]);
    }
}
