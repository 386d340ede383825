//! Patterns, texts and matches, with the results of the JVM and of the `regex` crate.

use super::*;
use crate::error::Limit;

/// Fails after this many steps.
struct Steps(usize);

impl WorkMeter for Steps {
    fn work(&mut self, steps: usize) -> Result<(), Stop> {
        assert!(
            steps <= 1 << 18,
            "{steps} steps without a check of the clock"
        );
        match self.0.checked_sub(steps) {
            Some(left) => self.0 = left,
            None => return Err(Limit::Time.into()),
        }
        Ok(())
    }

    fn reserve(&mut self, _: usize) -> Result<(), Stop> {
        Ok(())
    }
}

const PATIENCE: usize = 4_000_000;

fn check(pattern: &str, text: &str) -> String {
    let regex = match Regex::new(pattern) {
        Ok(regex) => Arc::new(regex),
        Err(problem) => return problem.to_string(),
    };
    match regex.find_at(
        text,
        Start::at(0),
        &mut Scratch::default(),
        &mut Steps(PATIENCE),
    ) {
        Ok(Some((start, end))) => text[start..end].to_owned(),
        Ok(None) => "none".to_owned(),
        Err(_) => "stopped".to_owned(),
    }
}

#[test]
fn patterns_match_as_in_java() {
    for (pattern, text, found) in [
        (r"\h+", "a \t\u{a0}b", " \t\u{a0}"),
        (r"[\h,]+", "a ,b", " ,"),
        (r"\H+", " ab ", "ab"),
        (r"\Qa.b\E+", "a.b a.bb", "a.b"),
        (r"^\X$", "e\u{301}", "e\u{301}"),
        (r"^\X$", "👩\u{200d}🚀", "👩\u{200d}🚀"),
        (r"^\X\X$", "🇨🇭🇳🇴", "🇨🇭🇳🇴"),
        (r"a\R", "a\r\n", "a\r\n"),
        (r"c$", "abc\n", "c"),
        (r"c$\n", "abc\n", "c\n"),
        (r"c$", "abc\nx", "none"),
        (r"(?m)b$", "ab\nc\n", "b"),
        (r"[]a]+", "x]a", "]a"),
        (r"[^]a]+", "]xa", "x"),
        (r"(\w)\1", "abccd", "cc"),
        (r"(?<!\$)\b\d+", "$45 67", "67"),
        (r"(?<=a+)b", "aab", "b"),
        (r"a(?#note)b", "ab", "ab"),
        (r"[a{2,1}]+\{2,1\}", "{1{2,1}", "{1{2,1}"),
        (r"a{1,1}b{0,2}", "abb", "abb"),
        (r"\p{Lu}", "aÉ", "É"),
        (r"a\cIb", "a\tb", "a\tb"),
        (r"[\cm\cJ]+", "a\r\n", "\r\n"),
        (r"\c[\c\\c?", "\u{1b}\u{1c}\u{7f}", "\u{1b}\u{1c}\u{7f}"),
        (r"\v+", "a\n\u{b}\u{2028}b", "\n\u{b}\u{2028}"),
        (r"[\v,]+\V", "a\n,b", "\n,b"),
        (r"\<b\>", "a<b>", "<b>"),
        (r"[+--]+", "a+,-.", "+,-"),
        (r"[~~a]+", "b~a", "~a"),
        (r"(?<a>x)(?<b>y)(?<=y)(?<!x)", "xy", "xy"),
    ] {
        assert_eq!(check(pattern, text), found, "{pattern}");
    }
}

#[test]
fn malformed_patterns_are_explained() {
    for (pattern, problem) in [
        ("(", "a group is not closed, add `)`"),
        ("a)", "a `)` closes no group"),
        ("[", "a character class is malformed, check `[` and `]`"),
        ("*a", "a repetition has nothing in front to repeat"),
        ("a\\", "nothing follows the last backslash"),
        (r"\p{Foo}", "Unicode property not found"),
        (
            r"(\w{100}){1000}",
            "it is too large once repetitions are written out",
        ),
        (r"(a)\2", "it refers to a group that it does not have"),
        (
            "a{2,1}",
            "a repetition like {2,5} starts with the smaller number",
        ),
        (
            "(?=b)a{10,9}?",
            "a repetition like {2,5} starts with the smaller number",
        ),
        (r"\N{DIGIT ONE}", r"unknown escape `\N`"),
        (r"\c", r"a letter follows `\c`, as in `\cA`"),
        (r"\cé", r"a letter follows `\c`, as in `\cA`"),
        ("(?<a>x)|(?<a>y)", "two groups are named `a`"),
        ("(?<a>x)(?P<a>y)(?=z)", "two groups are named `a`"),
        ("(?y)a", "unknown flag `(?y`"),
    ] {
        assert_eq!(check(pattern, ""), problem, "{pattern}");
    }
}

#[test]
fn deeply_nested_plain_patterns_compile() {
    let pattern = "(".repeat(100) + "a" + &")".repeat(100);
    assert_eq!(check(&pattern, "ba"), "a");
    let regex = Arc::new(Regex::new(&pattern).unwrap());
    let found = regex.captures_at(
        "ba",
        Start::at(0),
        &mut Scratch::default(),
        &mut Steps(PATIENCE),
    );
    let found = found.unwrap().unwrap();
    assert!(found.groups().eq([Some((1, 2)); 101]));
}

#[test]
fn matches_covers_the_whole_text() {
    let whole = |pattern: &str, text: &str| {
        let regex = Arc::new(Regex::new(pattern).unwrap());
        let found = regex.matches(text, &mut Scratch::default(), &mut Steps(PATIENCE));
        found.unwrap().is_some()
    };
    assert!(whole("a|ab", "ab"));
    assert!(whole("(?x) a b # note", "ab"));
    assert!(whole(r"a$\n", "a\n"));
    assert!(!whole("abc$", "abc\n"));
    assert!(!whole("bc", "abc"));
}

#[test]
fn unspecified_syntax_is_rejected() {
    for (pattern, problem) in [
        (r"\((?:[^()]|(?R))*\)", "unknown flag `(?R`"),
        ("(?-R)a", "unknown flag `(?-R`"),
        ("(?-u)a", "unknown flag `(?-u`"),
        ("(?P>a)", "unknown flag `(?P`"),
        ("(?P=a)", "unknown flag `(?P`"),
        ("(?1)(a)", "unknown group `(?1`"),
        ("(?|a|b)", "unknown group `(?|`"),
        ("(?(1)a|b)", "unknown group `(?(`"),
        ("(?&a)", "unknown group `(?&`"),
        ("(*FAIL)", "a repetition has nothing in front to repeat"),
        (r"\b{start}a", r"unknown escape `\b{`"),
        (r"\B{end}", r"unknown escape `\B{`"),
        (r"\u{41}", r"unknown escape `\u{`"),
        (r"[\u{41}]", r"unknown escape `\u{`"),
        (r"\U00000041", r"unknown escape `\U`"),
        (r"[\U00000041]", r"unknown escape `\U`"),
        (r"\K", r"unknown escape `\K`"),
        (r"(a)\g1", r"unknown escape `\g`"),
        (r"[\b]", r"unknown escape `\b`"),
        (r"[\R]", r"unknown escape `\R`"),
        (r"\0101", r"unknown escape `\0`"),
        (r"\O", r"unknown escape `\O`"),
        (r"\y", r"unknown escape `\y`"),
        ("a{,3}", "a repetition like {2,5} is malformed"),
        ("a{", "a repetition like {2,5} is malformed"),
        ("a**", "a repetition has nothing in front to repeat"),
        ("a{2}{3}", "a repetition has nothing in front to repeat"),
        ("a|*", "a repetition has nothing in front to repeat"),
        (r"\p{^L}", "Unicode property not found"),
        ("[^]", "a character class is malformed, check `[` and `]`"),
        (
            "[z-a]",
            "a range like [a-z] in a character class starts with the smaller character",
        ),
    ] {
        assert_eq!(check(pattern, ""), problem, "{pattern}");
    }
}

#[test]
fn backtracking_constructs_match_as_in_java() {
    for (pattern, text, found) in [
        ("(?=a)*b", "b", "b"),
        ("(?<=a)?b", "ab", "b"),
        ("(?=a)+a", "a", "a"),
        ("x*+x", "xxx", "none"),
        ("(?:a|ab)++c", "abc", "none"),
        ("(?>a*)a", "aaa", "none"),
        ("(?>a|ab)c", "abac", "ac"),
        (r"(?<n1>a)\k<n1>", "aa", "aa"),
        (r"(a)|b\1", "b", "none"),
        (r"(a)\11", "aa1", "aa1"),
        (r"(?i)(a)\1", "aA", "aA"),
        ("(?=(a+))a*b", "baaabac", "aaab"),
        (r"(?=(\w+))\1:", "abc:", "abc:"),
        ("(?<!ab)c", "abc xc", "c"),
        ("(?<=a|bc)d", "bcd", "d"),
        ("(?:(?=a)a|b)*c", "abac", "abac"),
        ("(?!a)(?:a*)*b", "b", "b"),
        ("(?=a)(?:a|b?)*?c", "abc", "abc"),
        ("(?=.)(?:){3,}a", "a", "a"),
        ("(?=a).{2,3}?b", "aaab", "aaab"),
        ("(?=a)[ab]{1,2}+b", "abb", "abb"),
        ("(?=a)[ab]{1,3}+b", "abb", "none"),
        (r"\Ga", "ba", "none"),
        (r"(?=a)\u0061\x61\x{61}", "aaa", "aaa"),
        (r"\uD83D\uDE00", "\u{1f600}", "\u{1f600}"),
        ("(?U)a+", "aa", "a"),
        ("(?x) [a b] + # c", "ab", "ab"),
        ("(?i:a)b|C", "Ab", "Ab"),
        ("a(?i)b|C", "c", "c"),
        (r"c$", "c\r\n", "none"),
        (r"\s", "\u{a0}", "\u{a0}"),
        ("]}", "]}", "]}"),
    ] {
        assert_eq!(check(pattern, text), found, "{pattern}");
    }
}

/// Small patterns of every plain construct, and texts to search.
fn plain_pattern(mut seed: u64) -> (String, String) {
    let mut below = |count: u64| {
        seed = seed
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) % count
    };
    const ATOMS: [&str; 14] = [
        "a", "b", "é", ".", "[ab]", "[^a]", r"\w", r"(?:\b)", "^", "$", "(a|b)", "(ab?)",
        "(?:a|b|)", "(b*)",
    ];
    const SIGNS: [&str; 10] = ["", "", "", "*", "+", "?", "*?", "+?", "{2}", "{1,3}"];
    let mut pattern = String::new();
    for _ in 0..=below(4) {
        if below(6) == 0 {
            pattern.push('|');
        }
        pattern.push_str(ATOMS[below(14) as usize]);
        pattern.push_str(SIGNS[below(10) as usize]);
    }
    let text = (0..below(12)).map(|_| ['a', 'b', 'é', ' ', '\n'][below(5) as usize]);
    (pattern, text.collect())
}

/// Small patterns of nested loops, many with empty iterations, and texts to search.
fn loops(mut seed: u64) -> (String, String) {
    fn branch(out: &mut String, below: &mut impl FnMut(u64) -> usize, depth: usize) {
        const SIGNS: [&str; 16] = [
            "*", "*", "*?", "+", "+?", "?", "??", "{2}", "{2,}", "{1,2}", "{0,2}?", "{2,}?", "",
            "", "", "",
        ];
        for _ in 0..below(4) {
            match below(6) {
                0 => out.push('|'),
                1 | 2 if depth < 4 => {
                    out.push_str(["(", "(?:"][below(2)]);
                    branch(out, below, depth + 1);
                    out.push(')');
                    out.push_str(SIGNS[below(16)]);
                }
                _ => {
                    out.push_str(["a", "a", "b", "b", "[ab]", "[ab]", "^", "$", r"\b"][below(9)]);
                    out.push_str(SIGNS[below(16)]);
                }
            }
        }
    }
    let mut below = |count: u64| {
        seed = seed
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        ((seed >> 33) % count) as usize
    };
    let mut pattern = String::new();
    branch(&mut pattern, &mut below, 0);
    pattern.push_str(["", "", "c", "b", "$"][below(5)]);
    let text = (0..below(7)).map(|_| ['a', 'b', 'c'][below(3)]).collect();
    (pattern, text)
}

/// All engines find the same match, with the same groups.
fn check_engines_agree(pattern: &str, mut text: String) {
    let Ok(parsed) = parse_checked(pattern) else {
        return;
    };
    let (regex, built) = (CompiledRegex::new(parsed), &mut Caches::default());
    if regex.needs_own_engine(&text) {
        text.push('.');
    }
    let meter = &mut Steps(PATIENCE);
    let chosen = regex
        .search(built, &text, Start::at(0), regex.groups, meter)
        .unwrap();
    let threads = regex.search_threads(&text, Start::at(0), false, false, regex.groups, meter);
    assert_eq!(threads.unwrap(), chosen, "{pattern} in {text:?}");
    // A look-ahead in front forces backtracking.
    let look = Node::Look {
        ahead: true,
        negative: false,
        node: Box::new(Node::Empty),
    };
    let hard = Node::Cat(vec![look, regex.node.clone()]);
    let hard = Program::new(&hard, regex.groups);
    // Nested loops may take too long with backtracking.
    let stepped = |whole| {
        let meter = &mut Steps(PATIENCE / 40);
        backtrack::Search::run(&hard, &text, Start::at(0), whole, meter).ok()
    };
    if let Some(found) = stepped(false) {
        assert_eq!(found, chosen, "{pattern} in {text:?}");
    }
    if !regex.node.has_empty_iteration()
        && let Some(automata) = Automata::new(&regex.node, regex.steps)
    {
        let found = automata.find(&mut automata.create_cache(), &text, 0, meter);
        if let Ok(found) = found.unwrap() {
            let span = chosen.as_ref().map(|slots| (slots[0], slots[1]));
            assert_eq!(found, span, "{pattern} in {text:?}");
        }
    }
    let whole = regex.matches(built, &text, meter).unwrap();
    let followed = regex.search_threads(&text, Start::at(0), true, true, regex.groups, meter);
    assert_eq!(followed.unwrap(), whole, "{pattern} in {text:?}");
    if let Some(found) = stepped(true) {
        assert_eq!(found, whole, "{pattern} in {text:?}");
    }
}

#[test]
fn engines_agree() {
    for seed in 0..4_000 {
        let (pattern, text) = plain_pattern(seed);
        check_engines_agree(&pattern, text);
        let (pattern, text) = loops(seed);
        check_engines_agree(&pattern, text);
    }
}

/// Generated patterns on which the engines once differed.
#[test]
fn engines_agree_on_former_differences() {
    for (pattern, text) in [
        ("(a*)*", "aab"),
        ("(?:(?:b||c)(?:|a))*", "bc"),
        ("(a|)+|b", "aab"),
        ("a*ab|a*c?", "aab"),
        (r"\w+?1|\w+?2?", "ab1"),
        (r"(a|b)?(?:\b){1,3}b+", "aéa \nb a"),
    ] {
        check_engines_agree(pattern, text.to_owned());
    }
}

#[test]
fn long_and_short_texts_give_the_same_matches() {
    let text = "x".repeat(200_000) + "ab=12 " + &"y".repeat(200_000) + "cd=34";
    assert_eq!(check(r"\w(\w)=(\d+)", &text), "ab=12");
    assert_eq!(check(r"\d+$", &text), "34");
    assert_eq!(check(r"\bcd", &(text.clone() + " cd")), "cd");
    assert_eq!(check("é", &text), "none");
    let regex = Arc::new(Regex::new(r"\w(\w)=(\d+)").unwrap());
    let found = regex.captures_at(
        &text,
        Start::at(200_003),
        &mut Scratch::default(),
        &mut Steps(PATIENCE),
    );
    let found = found.unwrap().unwrap();
    let parts: Vec<_> = found.groups().flatten().map(|(a, b)| &text[a..b]).collect();
    assert_eq!(parts, ["cd=34", "d", "34"]);
}

#[test]
fn searches_are_bounded() {
    let text = "a".repeat(50_000) + "!b";
    assert_eq!(check(r"^(a+)+$", &text), "none");
    assert_eq!(check(r"^(a+)+$", &(text.clone() + "\n")), "none");
    for pattern in [
        r"^(?:(a|aa)\1?)+(?=b)",
        "(?=a.*c)a",
        "(?>a+)*a\\d*?b{3,}",
        "(?:[ab]{0,1000}){9}c",
        "(?:(?:(?:(?:(?:a?){3000}b?)*!?)*)*)*c",
        "(?<=a+c)b",
        "(?<=c.*)a",
        r"(a*)*\1c",
        r"(?i)(a+)\1c",
    ] {
        assert!(
            ["stopped", "none"].contains(&&*check(pattern, &text)),
            "{pattern}"
        );
    }
    assert!(Regex::new(&"a".repeat(257)).is_err());
    assert!(Regex::new(r"(\w{100}){1000}").is_err());
    assert!(Regex::new(r"(?=a)((a{100}){100}){100}").is_err());
}

#[test]
fn regexes_keep_only_their_text() {
    let regex = Arc::new(Regex::new(r"\w{15}").unwrap());
    assert_eq!(regex.heap_bytes(), 6);
    let (mut scratch, meter) = (Scratch::default(), &mut Steps(usize::MAX));
    for count in 0..200 {
        let other = Arc::new(Regex::new(&format!(r"\w{{15}}{count}")).unwrap());
        other
            .find_at("abc", Start::at(0), &mut scratch, meter)
            .unwrap();
    }
    regex
        .find_at("abc", Start::at(0), &mut scratch, meter)
        .unwrap();
    let kept = &scratch.cached;
    assert!(Arc::ptr_eq(&kept[0].regex, &regex));
    let bytes: usize = kept.iter().map(CachedRegex::bytes).sum();
    assert!(
        kept.len() > 1 && bytes < 2 * KEPT_BYTES_MAX,
        "{} {bytes}",
        kept.len()
    );
}
