//! Text in, forms or the error message out.

use super::*;
use insta::assert_snapshot;
use proptest::prelude::*;

/// The forms, one per line, or the error with its span.
fn shown(text: &str) -> String {
    match read(text, &ReadLimits::default()) {
        Ok(forms) => {
            let lines: Vec<String> = forms.iter().map(show).collect();
            lines.join("\n")
        }
        Err(error) => {
            let Span { start, end } = error.span;
            format!("{start}..{end} {error}")
        }
    }
}

macro_rules! check {
    ($text:expr, @$want:literal) => {
        assert_snapshot!(shown($text), @$want)
    };
}

fn show(form: &Form<'_>) -> String {
    let all = |forms: &[Form<'_>]| -> String {
        let parts: Vec<String> = forms.iter().map(show).collect();
        parts.join(" ")
    };
    match &form.kind {
        FormKind::List(forms) => format!("(List {})", all(forms)),
        FormKind::Vector(forms) => format!("(Vector {})", all(forms)),
        FormKind::Map(forms) => format!("(Map {})", all(forms)),
        FormKind::Set(forms) => format!("(Set {})", all(forms)),
        FormKind::AnonFn(forms) => format!("(AnonFn {})", all(forms)),
        FormKind::Quote(form) => format!("(Quote {})", show(form)),
        atom => format!("{atom:?}"),
    }
}

#[test]
fn atoms() {
    check!("nil true false nil? truex", @r#"
    Nil
    Bool(true)
    Bool(false)
    Symbol("nil?")
    Symbol("truex")
    "#);
    check!("7 -007 +31 08 9223372036854775807 -9223372036854775808 9223372036854775808", @r"
    Int(7)
    Int(-7)
    Int(31)
    Int(8)
    Int(9223372036854775807)
    Int(-9223372036854775808)
    BigInt(9223372036854775808)
    ");
    check!("1.5 3e2 3E2 -1.5e-3 -0.0 ##Inf ##-Inf ##NaN", @r"
    Float(1.5)
    Float(300.0)
    Float(300.0)
    Float(-0.0015)
    Float(-0.0)
    Float(inf)
    Float(-inf)
    Float(NaN)
    ");
    check!(":a :3d :404 :- :a->b :nil", @r#"
    Keyword("a")
    Keyword("3d")
    Keyword("404")
    Keyword("-")
    Keyword("a->b")
    Keyword("nil")
    "#);
    check!("+ - -x +x x' a->b // /foo a/b/c .method *1 % %1 %& & ... clojure.string/join", @r#"
    Symbol("+")
    Symbol("-")
    Symbol("-x")
    Symbol("+x")
    Symbol("x'")
    Symbol("a->b")
    Symbol("//")
    Symbol("/foo")
    Symbol("a/b/c")
    Symbol(".method")
    Symbol("*1")
    Symbol("%")
    Symbol("%1")
    Symbol("%&")
    Symbol("&")
    Symbol("...")
    Symbol("clojure.string/join")
    "#);
    check!("'a 'a/b '+ 'nil #'x", @r#"
    (Quote Symbol("a"))
    (Quote Symbol("a/b"))
    (Quote Symbol("+"))
    Nil
    VarQuote("x")
    "#);
}

#[test]
fn text() {
    check!(r#""plain" "" "a\n\t\r\b\f\\\"z" "\u00e9\uD83C\uDF89" "é""#, @r#"
    Str("plain")
    Str("")
    Str("a\n\t\r\u{8}\u{c}\\\"z")
    Str("é🎉")
    Str("é")
    "#);
    check!(r#"#"a\d\"" #"" #"\\" #"\é""#, @r#"
    Regex("a\\d\\\"")
    Regex("")
    Regex("\\\\")
    Regex("\\é")
    "#);
    check!(r"\a \newline \space \é \( \\ \u0041 \u \, \; \🎉 [\a\b]", @r#"
    Str("a")
    Str("\n")
    Str(" ")
    Str("é")
    Str("(")
    Str("\\")
    Str("A")
    Str("u")
    Str(",")
    Str(";")
    Str("🎉")
    (Vector Str("a") Str("b"))
    "#);
    check!("\\👨‍👩‍👧 \\e\u{301}", @r#"
    Str("👨\u{200d}👩\u{200d}👧")
    Str("e\u{301}")
    "#);
}

#[test]
fn collections() {
    check!("() [] {} #{} #()", @r"
    (List )
    (Vector )
    (Map )
    (Set )
    (AnonFn )
    ");
    check!("(+ 1 [2 {:k #{3}}]) '(1 (a) [b])", @r#"
    (List Symbol("+") Int(1) (Vector Int(2) (Map Keyword("k") (Set Int(3)))))
    (Quote (List Int(1) (List Symbol("a")) (Vector Symbol("b"))))
    "#);
    check!("[1[2]3](str\"x\"\"y\"){:a#{1}}", @r#"
    (Vector Int(1) (Vector Int(2)) Int(3))
    (List Symbol("str") Str("x") Str("y"))
    (Map Keyword("a") (Set Int(1)))
    "#);
    check!("[1 #_ 2 3] #_ #_ a (b) {:a 1 #_ :b #_ 2} #_(c", @r"43..44 unclosed `(` at line 1, column 44: add `)`");
    check!("[1 #_ 2 3] #_ #_ a (b) {:a 1 #_ :b #_ 2} c", @r#"
    (Vector Int(1) Int(3))
    (Map Keyword("a") Int(1))
    Symbol("c")
    "#);
    check!(", 1 ; (((\n2 ;", @r"
    Int(1)
    Int(2)
    ");
    check!("", @r"");
}

#[test]
fn brackets() {
    check!("(+ 1\n  [2 3", @r"7..8 unclosed `[` at line 2, column 3: 2 brackets are open at the end; close them with `])`");
    check!("{:a (b", @r"4..5 unclosed `(` at line 1, column 5: 2 brackets are open at the end; close them with `)}`");
    check!("(", @r"0..1 unclosed `(` at line 1, column 1: add `)`");
    check!("(]", @r"1..2 unexpected `]` at line 1, column 2: the `(` at line 1, column 1 ends with `)`");
    check!("(let [a 1\n  b 2\n  (+ a b))", @r"25..26 unexpected `)` at line 3, column 10: the `[` at line 1, column 6 ends with `]`");
    check!("(+ 1 2))", @r"7..8 unexpected `)` at line 1, column 8: no bracket is open here; remove it");
    check!(") (+ 1 2)", @r"0..1 unexpected `)` at line 1, column 1: no bracket is open here; remove it");
    check!("[1 (str \")\" \\) ; )\n", @r"3..4 unclosed `(` at line 1, column 4: 2 brackets are open at the end; close them with `)]`");
    check!("{:a 1 :b}", @r"0..1 map literal with 3 forms at line 1, column 1: every key needs a value");
    check!("{:a}", @r"0..1 map literal with 1 form at line 1, column 1: every key needs a value");
    check!("(str \"a\nb", @r#"5..6 unclosed string at line 1, column 6: add the closing `"`"#);
    check!("(re-find #\"a\\\" x)", @r#"9..11 unclosed regex literal at line 1, column 10: add the closing `"`"#);
    check!(&"(".repeat(1_000_000), @r"65..66 nesting deeper than 64 brackets at line 1, column 66: give the inner part a name with def, defn or let");
    check!(&"(".repeat(64), @r"63..64 unclosed `(` at line 1, column 64: 64 brackets are open at the end");
}

#[test]
fn nesting() {
    let nest = |depth, inner: &str| format!("{}{inner}{}", "[".repeat(depth), "]".repeat(depth));
    assert!(read(&nest(64, "1"), &ReadLimits::default()).is_ok());
    assert!(read(&nest(65, ""), &ReadLimits::default()).is_ok());
    check!(&nest(65, "1"), @r"65..66 nesting deeper than 64 brackets at line 1, column 66: give the inner part a name with def, defn or let");
    check!(&nest(66, ""), @r"65..66 nesting deeper than 64 brackets at line 1, column 66: give the inner part a name with def, defn or let");
    check!(&nest(1_000_000, ""), @r"65..66 nesting deeper than 64 brackets at line 1, column 66: give the inner part a name with def, defn or let");
}

#[test]
fn numbers() {
    check!("1/2", @r"0..3 `1/2` is not a number at line 1, column 1: there are no ratios; divide with (/ a b)");
    check!("0x1F", @r"0..4 `0x1F` is not a number at line 1, column 1: integers are decimal; write it in base 10");
    check!("16rFF", @r"0..5 `16rFF` is not a number at line 1, column 1: integers are decimal; write it in base 10");
    check!("1N", @r"0..2 `1N` is not a number at line 1, column 1: numbers take no suffix; integers have any size as they are");
    check!("2.5M", @r"0..4 `2.5M` is not a number at line 1, column 1: numbers take no suffix; integers have any size as they are");
    check!("1.", @r"0..2 `1.` is not a number at line 1, column 1: write digits behind the decimal point, or leave it out");
    check!("1.2.3", @r"0..5 `1.2.3` is not a number at line 1, column 1: a number has one decimal point; write a version or an address as a string");
    check!("1_000", @r"0..5 `1_000` is not a number at line 1, column 1: write the digits without separators");
    check!("4.5e", @r"0..4 `4.5e` is not a number at line 1, column 1: the exponent needs digits, as in 1e5");
    check!("12abc", @r"0..5 `12abc` is not a number at line 1, column 1: a name cannot start with a digit; put a space between two forms");
    check!("[3-2]", @r"1..4 `3-2` is not a number at line 1, column 2: a name cannot start with a digit; put a space between two forms");
    check!("1e309", @r"0..5 `1e309` is out of range for a float at line 1, column 1: write ##Inf or ##-Inf for infinity");
    check!("##inf", @r"0..5 `##inf` is not a number at line 1, column 1: the special floats are ##Inf, ##-Inf and ##NaN");
    check!(&"9".repeat(101), @r"0..101 number literal with more than 100 digits in a row at line 1, column 1: calculate it, or keep it as a string");
    check!(&format!("1.{}", "9".repeat(101)), @"Float(2.0)");
}

#[test]
fn names() {
    check!("(get {:a 1} : a)", @r"12..13 `:` without a name at line 1, column 13: write a keyword such as :name, in one piece");
    check!("{\"a\": 1}", @r#"4..5 `:` behind a string at line 1, column 5: a map has no colons between keys and values; write {"key" value} or {:key value}"#);
    check!("{name: \"x\"}", @r"5..6 `:` in symbol `name:` at line 1, column 6: a keyword has its colon in front, as in :name; a map has no other colons");
    check!("::a", @r"0..3 `::a` is not a keyword at line 1, column 1: keywords have one colon and no namespace");
    check!(":a/b", @r"0..4 `:a/b` is not a keyword at line 1, column 1: keywords have no namespace; write `-` instead of `/`");
    check!(":a:b", @r"0..4 `:a:b` is not a keyword at line 1, column 1: a keyword has one colon, in front; put a space between two keywords");
    check!(":a.b", @r"2..3 `.` in keyword `:a.b` at line 1, column 3: keywords are made of ASCII letters, digits and + - * < > = ? ! _ $; use a string for other text");
    check!(":größe", @r"3..5 `ö` in keyword `:größe` at line 1, column 4: keywords are made of ASCII letters, digits and + - * < > = ? ! _ $; use a string for other text");
    check!("(def größe 1)", @r"7..9 `ö` in symbol `größe` at line 1, column 8: names are made of ASCII letters, digits and + - * / < > = ? ! _ $ % & ' .");
    check!("a#b", @r"1..2 `#` in symbol `a#b` at line 1, column 2: `#` stands only in front of a form");
    check!("me@example.com", @r"2..3 `@` in symbol `me@example.com` at line 1, column 3: there are no atoms or refs; put text such as an address in double quotes");
    check!("(+ 1\u{a0}2)", @r"4..6 character U+00A0 in number `1\u00a02` at line 1, column 5: separate forms with spaces, commas or line breaks");
    check!("(+ 1–2)", @r"4..7 `–` in number `1–2` at line 1, column 5: write minus as -");
    check!("(+ x\u{b}2)", @r"4..5 character U+000B in symbol `x\u000b2` at line 1, column 5: separate forms with spaces, commas or line breaks");
    check!("\u{feff}(+ 1 2)", @r"0..3 unexpected character U+FEFF at line 1, column 1: remove the byte order mark");
    check!("(str “x”)", @r#"5..8 unexpected `“` at line 1, column 6: write strings in straight double quotes, "…""#);
    check!("é (\n", @r"0..2 unexpected `é` at line 1, column 1: names are made of ASCII letters, digits and + - * / < > = ? ! _ $ % & ' .");
    check!("; é\n \u{1f389} 1", @r"6..10 unexpected `🎉` at line 2, column 2: names are made of ASCII letters, digits and + - * / < > = ? ! _ $ % & ' .");
}

#[test]
fn prefixes() {
    check!("@x", @r"0..2 dereferencing `@x` is not supported at line 1, column 1: there are no atoms or refs; a name is its value: carry what changes through reduce or loop/recur");
    check!("^:private x", @r"0..9 metadata `^:private` is not supported at line 1, column 1: leave it out");
    check!("#^String x", @r"0..8 metadata `#^String` is not supported at line 1, column 1: leave it out");
    check!("`(a)", @r"0..1 the syntax quote is not supported at line 1, column 1: there are no macros; write a function, or 'x for a symbol");
    check!("~@x", @r"0..3 unquoting with `~@x` is not supported at line 1, column 1: there are no macros; write the expression itself");
    check!("(str ')", @r"5..6 `'` without a symbol at line 1, column 6: a symbol or a list follows the quote at once, as in 'name");
    check!("'[a]", @r"0..1 quoted vector, map or set at line 1, column 1: it needs no quote; quote the symbols in it one by one, as in ['a 'b]");
    check!("'#{a}", @r"0..1 quoted vector, map or set at line 1, column 1: it needs no quote; quote the symbols in it one by one, as in ['a 'b]");
    check!("':k", @r"0..3 quoted literal `':k` at line 1, column 1: it stands for itself; leave the quote out");
    check!("''a", @r"0..3 quote inside a quote at line 1, column 1: one quote covers the whole form; leave the inner one out");
    check!("'(1 'a)", @r"4..6 quote inside a quote at line 1, column 5: one quote covers the whole form; leave the inner one out");
    check!("'(1 #(a))", @r"4..6 `#(` inside a quoted list at line 1, column 5: a quoted list holds data only; build it with (vector …)");
    check!("(list #')", @r"6..8 `#'` without a symbol at line 1, column 7: the name of a definition follows at once, as in #'total");
    check!("[#_]", @r"1..3 `#_` without a form to discard at line 1, column 2: remove it, or use ; for a comment");
    check!("#_ #_ 1", @r"0..2 `#_` without a form to discard at line 1, column 1: remove it, or use ; for a comment");
    check!("#?(:clj 1)", @r"0..2 reader conditional `#?` is not supported at line 1, column 1: there is one platform; write the form itself");
    check!("#:a{:b 1}", @r"0..3 namespaced map `#:a` is not supported at line 1, column 1: keywords have no namespace; write {:name value}");
    check!("#inst \"2024-05-01\"", @r#"0..5 tagged literal `#inst` is not supported at line 1, column 1: call a function, as in (Instant/parse "2025-03-09T00:00:00Z")"#);
    check!("#!/bin/sh", @r"0..9 `#!/bin/sh` is not a comment at line 1, column 1: a comment starts with ; and ends with its line");
    check!("#<Object>", @r"0..9 `#<Object>` is not a form at line 1, column 1: write the expression that makes the value");
    check!("# 5", @r#"0..1 `#` is not a form at line 1, column 1: `#` starts a set #{…}, a function #(…), a regex #"…", a var #'x, a discarded form #_x, ##Inf, ##-Inf or ##NaN"#);
    check!("#[1]", @r#"0..1 `#` is not a form at line 1, column 1: `#` starts a set #{…}, a function #(…), a regex #"…", a var #'x, a discarded form #_x, ##Inf, ##-Inf or ##NaN"#);
}

#[test]
fn escapes() {
    check!(r#""a\qb""#, @r#"2..4 unknown escape `\q` in a string at line 1, column 3: the escapes are \n \t \r \b \f \\ \" and \uXXXX; write \\ for a backslash"#);
    check!(r#""a\u00z""#, @r"2..6 malformed escape `\u00` at line 1, column 3: \u takes exactly four hexadecimal digits, as in \u00e9");
    check!(r#""\uD83Cx""#, @r"1..7 `\uD83C` is half a character at line 1, column 2: write both surrogates in a string, or the character itself");
    check!(r"\foo", @r"0..4 `\foo` is not a character at line 1, column 1: a character literal is one character, \uXXXX, or \newline, \space, \tab, \return, \backspace, \formfeed; write longer text as a string");
    check!(r"\u12", @r"0..4 malformed escape `\u12` at line 1, column 1: \u takes exactly four hexadecimal digits, as in \u00e9");
    check!(r"\ud83c", @r"0..6 `\ud83c` is half a character at line 1, column 1: write both surrogates in a string, or the character itself");
    check!("\\\n", @r#"0..1 no character behind `\` at line 1, column 1: write \a, \space, \newline or a string such as "a""#);
}

#[test]
fn distinct_names_are_limited() {
    let limits = ReadLimits {
        symbols: 3,
        ..ReadLimits::default()
    };
    assert!(read("a :a 'b a a #'b :a", &limits).is_ok());
    let error = read("a :a 'b a c", &limits).unwrap_err();
    assert!(!error.is_syntax());
    assert_snapshot!(error, @r"the program uses 4 distinct symbols and keywords, the limit is 3: use strings for data");
    assert!(read("a b c d (", &limits).unwrap_err().is_syntax());
}

proptest! {
    #[test]
    fn any_text_is_read_or_rejected(text in "\\PC*") {
        crate::fuzz::reader(&text);
    }

    #[test]
    fn any_token_sequence_is_read_or_rejected(tokens in prop::collection::vec(token(), 0..60)) {
        crate::fuzz::reader(&tokens.concat());
    }
}

fn token() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec![
        "(", ")", "[", "]", "{", "}", "#{", "#(", "'(", "'", "#_", "#'", "#\"", "\"", "\\", "\\u",
        "00e9", "D83C", " ", "\n", "\r", ",", ";", ":", ":k", "x", "a/b", "nil", "1", "-", "+",
        ".", "e", "5", "##", "Inf", "NaN", "#", "@", "^", "~", "`", "é", "e\u{301}", "🎉", "\0",
        "\u{a0}", "%", "&",
    ])
}
