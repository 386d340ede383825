//! Programs and values generated from bytes, and the properties that each must have. The grammar uses the tables of
//! builtins, methods and special forms, so that additions there are tested without a change here.

use std::fmt::Write as _;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::meter::Unwatched;
use crate::sink::Sink;
use crate::value::{Map, Set, Value, equal};
use crate::{Ended, Env, Host, HostFault, Limits, METHODS, Outcome, Program, Pulse, run};
use crate::{builtins, print, reader, special_forms};

/// The number of pulses after which a program is stopped.
const PULSES_MAX: u32 = 40;
/// The most characters of a message, which may quote a name.
const MESSAGE_CHARS_MAX: usize = 4_000;
const DEPTH_MAX: u32 = 6;
/// The approximate size of a generated program, in bytes.
const PROGRAM_BYTES_MAX: usize = 2_000;

/// A world without a clock, with one tool that returns its argument.
struct EchoHost {
    names: Vec<String>,
    pulses: AtomicU32,
}

impl Host for EchoHost {
    fn tool_names(&self) -> &[String] {
        &self.names
    }

    fn call(&self, _: &str, args: &Value) -> Result<Value, HostFault> {
        Ok(args.clone())
    }

    fn now_micros(&self) -> i64 {
        1_700_000_000_000_000
    }

    fn pulse(&self) -> Pulse {
        match self.pulses.fetch_add(1, Ordering::Relaxed) {
            asked if asked < PULSES_MAX => Pulse::Continue,
            _ => Pulse::TimedOut,
        }
    }
}

/// What must hold for every program: it ends; its outcome can be shown, within limits; an error has a message; printed
/// lines are truncated; the next program works with the environment that it leaves behind.
pub fn eval(text: &str) {
    let (outcome, env) = run_program(text, &Env::new());
    check_outcome(&outcome, text);
    let (next, _) = run_program("(clojure.core/+ 1 2)", &env);
    assert!(
        matches!(next.ended, Ended::Value(Value::Int(3))),
        "the next program works after {text}"
    );
}

/// [`eval`] of a program generated from bytes.
pub fn generated_program(bytes: &[u8]) {
    eval(&program(bytes));
}

/// Printed values are read back as equal values, which print the same again.
pub fn print_read(bytes: &[u8]) {
    let value = Bytes(bytes).value(0);
    let printed = print::readable(&value);
    let (outcome, _) = run_program(&printed, &Env::new());
    let Ended::Value(again) = outcome.ended else {
        panic!("{printed} reads as no value: {:?}", outcome.ended);
    };
    assert!(
        equal(&value, &again),
        "{printed} reads as {}",
        print::readable(&again)
    );
    assert_eq!(printed, print::readable(&again), "printing is stable");
}

pub(super) fn run_program(text: &str, env: &Env) -> (Outcome, Env) {
    let limits = Limits {
        memory_bytes: 2 * 1024 * 1024,
        workers: 2,
        ..Limits::default()
    };
    let host = EchoHost {
        names: vec!["echo".to_owned()],
        pulses: AtomicU32::new(0),
    };
    run(&Program::new(text), env, &limits, &host)
}

fn check_outcome(outcome: &Outcome, text: &str) {
    for line in &outcome.prints {
        let marked = Limits::default().print_graphemes + 40;
        assert!(
            line.chars().take(marked * 40).count() < marked * 40,
            "a printed line is cut: {text}"
        );
    }
    match &outcome.ended {
        Ended::Value(value) | Ended::Return(value) | Ended::Fail(value) => {
            let shown = print::preview(value, print::PREVIEW_ITEMS, print::PREVIEW_GRAPHEMES);
            drop(shown);
            let mut whole = Sink::new(String::new(), 64 * 1024, &Unwatched);
            let _ = print::write_readable(&mut whole, value);
            assert!(whole.len() <= 64 * 1024, "printing keeps its bound: {text}");
            if let Ok(json) = crate::json::to_string_within(value, 64 * 1024, &Unwatched) {
                assert!(
                    crate::json::from_str(&json).is_ok(),
                    "{json} is JSON: {text}"
                );
            }
        }
        Ended::Error(error) => {
            let message = error.message();
            assert!(!message.is_empty(), "an error has a message: {text}");
            let length = message.chars().count();
            assert!(
                length <= MESSAGE_CHARS_MAX + text.len(),
                "a message is short: {text}"
            );
            assert!(!error.reason().name().is_empty());
            drop(error.explained(text, &|quoted| quoted.to_owned()));
        }
    }
}

/// A program generated from bytes. The same bytes give the same program, and no bytes give a short one.
pub fn program(bytes: &[u8]) -> String {
    let mut writer = Writer {
        bytes: Bytes(bytes),
        out: String::new(),
        names: vec!["x"],
    };
    writer.out.push_str("(def x [1 2 {:a 1}]) ");
    for _ in 0..=writer.bytes.below(3) {
        writer.expression(0);
        writer.out.push(' ');
    }
    writer.out
}

/// A source of choices; all are zero after the bytes are used up.
pub(super) struct Bytes<'b>(pub(super) &'b [u8]);

impl Bytes<'_> {
    fn byte(&mut self) -> u8 {
        let Some((first, rest)) = self.0.split_first() else {
            return 0;
        };
        self.0 = rest;
        *first
    }

    pub(super) fn below(&mut self, count: usize) -> usize {
        let choice = usize::from(self.byte());
        let choice = if count > 256 {
            choice << 8 | usize::from(self.byte())
        } else {
            choice
        };
        choice % count.max(1)
    }

    /// A value whose printed form can be read.
    fn value(&mut self, depth: u32) -> Value {
        let kinds = if depth < DEPTH_MAX { 10 } else { 7 };
        match self.below(kinds) {
            0 => Value::Nil,
            1 => Value::from(self.byte().is_multiple_of(2)),
            2 => Value::from(i64::from(self.byte()) - 128),
            3 => {
                let mut bits = [0; 8];
                bits.fill_with(|| self.byte());
                Value::from(i64::from_le_bytes(bits))
            }
            4 => {
                let mut bits = [0; 8];
                bits.fill_with(|| self.byte());
                let float = f64::from_le_bytes(bits);
                // NaN differs from itself.
                Value::from(if float.is_nan() { 0.5 } else { float })
            }
            5 => Value::str(self.text()),
            6 => Value::keyword(KEYWORDS[self.below(KEYWORDS.len())]),
            7 => (0..self.below(4))
                .map(|_| self.value(depth + 1))
                .collect::<Vec<_>>()
                .into(),
            8 => {
                let entries =
                    (0..self.below(4)).map(|_| (self.value(depth + 1), self.value(depth + 1)));
                Value::from(entries.collect::<Map>())
            }
            _ => Value::Set(
                (0..self.below(4))
                    .map(|_| self.value(depth + 1))
                    .collect::<Set>(),
            ),
        }
    }

    fn text(&mut self) -> String {
        (0..self.below(6))
            .filter_map(|_| match self.below(4) {
                0 => char::from_u32(u32::from(self.byte())),
                1 => char::from_u32(u32::from(self.byte()) << 8 | u32::from(self.byte())),
                2 => Some(
                    [
                        '\u{301}',
                        '\u{1f600}',
                        '\u{200d}',
                        '\u{fe0f}',
                        '"',
                        '\\',
                        '\u{7f}',
                        '\0',
                    ][self.below(8)],
                ),
                _ => Some(char::from(b'a' + self.byte() % 26)),
            })
            .collect()
    }
}

const KEYWORDS: &[&str] = &[
    "a", "b", "due-date", "due_date", "nil", "true", "x?", "->y", "+",
];
const LITERALS: &[&str] = &[
    "nil",
    "true",
    "false",
    "0",
    "1",
    "-1",
    "2",
    "3",
    "7",
    "100",
    "9223372036854775807",
    "123456789012345678901234567890",
    "0.5",
    "-0.0",
    "1.5e10",
    "1e308",
    "##Inf",
    "##-Inf",
    "##NaN",
    "\"\"",
    "\"a\"",
    "\"b c\"",
    "\"2025-03-09\"",
    "\"é\u{1f600}\"",
    "\"{\\\"a\\\": [1, 2.5]}\"",
    "\"%s %d %5.2f\"",
    "\"a+\"",
    "\\a",
    "\\newline",
    ":a",
    ":b",
    ":desc",
    ":nil",
    "#\"a|b\"",
    "#\"(\\d+)-(x)?\"",
    "[]",
    "{}",
    "#{}",
    "[1 2 3]",
    "[[1 2] [3 4]]",
    "{:a 1 :b {:c 2}}",
    "{\"a\" 1}",
    "#{1 2}",
    "[:a 0]",
    "(range 20)",
    "(list 1 2)",
    "(LocalDate/parse \"2025-03-09\")",
    "(Instant/parse \"2025-03-09T10:00:00Z\")",
    "#'x",
    "*1",
    "data/x",
    "inc",
    "+",
    "str",
];

/// Forms with gaps: `_` is an expression, `~` an expression that may use the names `a` and `b`.
const SHAPES: &[&str] = &[
    "(let [a _ b _] ~)",
    "(let [[a & b] _] ~)",
    "(let [{:keys [a b] :or {b _} :as c} _] ~)",
    "(fn [a b] ~)",
    "(fn [a & b] ~)",
    "((fn [a b] ~) _ _)",
    "#(_ % %2)",
    "(if _ _ _)",
    "(if-let [a _] a _)",
    "(when _ _ _)",
    "(when-let [a _] a)",
    "(when-first [a _] a)",
    "(cond _ _ :else _)",
    "(condp = _ _ _ _)",
    "(case _ 1 _ :a _ _)",
    "(-> _ (str _) _)",
    "(->> _ (map inc) _)",
    "(as-> _ a a)",
    "(cond-> _ _ (assoc :k _))",
    "(some-> _ :a inc)",
    "(loop [a 0 b _] (if (< a 9) (recur (inc a) _) b))",
    "(for [a _ b _ :when _] [a b])",
    "(for [a _ :let [b _] :while _] ~)",
    "(doseq [a _] (println a _))",
    "(do _ _)",
    "(and _ _)",
    "(or _ _)",
    "(def x _)",
    "(defn f [a b] ~)",
    "(do (defn f [a] ~) (f _))",
    "(reduce (fn [a b] ~) _ _)",
    "(map (fn [a] a) _)",
    "(sort-by (fn [a] a) _ _)",
    "(update _ _ _)",
    "(apply _ _)",
    "(tool/echo {:a _})",
    "(pmap (fn [a] a) _)",
    "(pcalls (fn [] _) (fn [] _))",
    "(return _)",
    "(fail _)",
    "(task \"t\" _)",
    "(try _)",
    "(juxt _ _)",
    "(comp _ _)",
    "(partial _ _)",
    "((complement _) _)",
    "(println _ _)",
    "(iterate _ _)",
    "'(a b 1)",
    "(quote _)",
    "(loop [a _] (recur a))",
    "((fn f [a] (f [a])) _)",
    "(reduce (fn [acc a] (conj acc acc)) _ (range 40))",
    "(reduce str (repeat 50 _))",
];

struct Writer<'b> {
    bytes: Bytes<'b>,
    out: String,
    names: Vec<&'static str>,
}

impl Writer<'_> {
    fn expression(&mut self, depth: u32) {
        let full = depth >= DEPTH_MAX || self.out.len() >= PROGRAM_BYTES_MAX;
        match self.bytes.below(if full { 3 } else { 12 }) {
            0 => self
                .out
                .push_str(LITERALS[self.bytes.below(LITERALS.len())]),
            1 => {
                let name = self.names[self.bytes.below(self.names.len())];
                self.out.push_str(name);
            }
            2 => {
                let value = self.bytes.value(DEPTH_MAX - 1);
                self.out.push_str(&print::readable(&value));
            }
            3 => self.collection(depth),
            4 | 5 => {
                let shape = SHAPES[self.bytes.below(SHAPES.len())];
                self.shape(shape, depth);
            }
            6 => {
                let method = METHODS[self.bytes.below(METHODS.len())];
                let count = 1 + self.bytes.below(3);
                self.call(method, count, depth);
            }
            7 => {
                let forms = special_forms();
                let form = &forms[self.bytes.below(forms.len())];
                let count = self.bytes.below(4);
                self.call(form.name, count, depth);
            }
            _ => {
                let rows = builtins().count();
                let chosen = self.bytes.below(rows);
                let row = builtins()
                    .nth(chosen)
                    .expect("the choice is below the count");
                let least = usize::from(row.arity.min);
                let most = row.arity.max.map_or(least + 3, usize::from);
                // One call in sixteen has a wrong number of arguments.
                let count = match self.bytes.below(16) {
                    15 => most + 1,
                    choice => least + choice % (most - least + 1),
                };
                self.call(row.name, count, depth);
            }
        }
    }

    fn call(&mut self, name: &str, count: usize, depth: u32) {
        let _infallible = write!(self.out, "({name}");
        for _ in 0..count {
            self.out.push(' ');
            self.expression(depth + 1);
        }
        self.out.push(')');
    }

    fn collection(&mut self, depth: u32) {
        let (open, close, step) =
            [("[", "]", 1), ("{", "}", 2), ("#{", "}", 1)][self.bytes.below(3)];
        self.out.push_str(open);
        for _ in 0..self.bytes.below(4) * step {
            self.expression(depth + 1);
            self.out.push(' ');
        }
        self.out.push_str(close);
    }

    fn shape(&mut self, shape: &'static str, depth: u32) {
        for piece in shape.split_inclusive(['_', '~']) {
            match piece.strip_suffix(['_', '~']) {
                None => self.out.push_str(piece),
                Some(text) => {
                    self.out.push_str(text);
                    let known = self.names.len();
                    if piece.ends_with('~') {
                        self.names.extend(["a", "b", "f"]);
                    }
                    self.expression(depth + 1);
                    self.names.truncate(known);
                }
            }
        }
    }
}

/// A generated program can always be read.
pub fn reads(bytes: &[u8]) {
    let text = program(bytes);
    let read = reader::read(&text, &reader::ReadLimits::default());
    assert!(read.is_ok(), "{text}: {read:?}");
}
