//! The mutants of clauses that came with revision 1.1, one row each: places behind errors, functions that the language got, sessions,
//! statistics and the listener. The functions that need more than a line stand below the table.

use crate::json::Json;

use super::edit::{at, remove, set};
use super::{Mutant, Mutation, http_request, over_stdio as row, payload, reply};

/// A mutant that takes one symbol for another, named after both.
macro_rules! taken {
    ($clause:literal, $from:literal, $to:literal) => {
        row(
            concat!($from, "~", $to),
            $clause,
            Mutation::Symbol($from, $to),
        )
    };
}

/// A mutant that rewrites programs.
const fn written(name: &'static str, clause: &'static str, edit: fn(&str) -> String) -> Mutant {
    row(name, clause, Mutation::Program(edit))
}

/// All of them, in the order of the specification.
pub const MUTANTS: &[Mutant] = &[
    // Places and ways out.
    reply("places-none", "errors.places.form", |frame, _| {
        errors(frame, first_line);
    }),
    reply(
        "places-lines-from-zero",
        "errors.places.form",
        |frame, _| {
            errors(frame, |text| {
                text.replace("at line 1,", "at line 0,")
                    .replace("at line 2,", "at line 1,")
            });
        },
    ),
    reply(
        "places-columns-from-zero",
        "errors.places.form",
        |frame, _| {
            errors(frame, |text| {
                text.replace("column 2:", "column 1:")
                    .replace("column 3:", "column 2:")
            });
        },
    ),
    reply(
        "places-arguments-from-zero",
        "errors.places.form",
        |frame, _| {
            errors(frame, |text| {
                text.replace("argument 1 of", "argument 0 of")
                    .replace("argument 2 of", "argument 1 of")
            });
        },
    ),
    reply("forms-unnamed", "errors.forms.named", |frame, _| {
        errors(frame, |text| {
            within(text, "Analysis error: expected (", |_| "a form)".to_owned())
        });
    }),
    reply("arguments-uncounted", "errors.arity.numbers", |frame, _| {
        errors(frame, |text| {
            within(text, "arity_error: ", |line| {
                line.replace(|sign: char| sign.is_ascii_digit(), "some")
            })
        });
    }),
    taken!("parallel.capacity.nested", "pmap", "map"),
    written("discovery-dir-short", "discovery.dir.added", |program| {
        program.replace("(dir 'Character", "(dir 'Boolean")
    }),
    written("regex-looks-alone", "regex.literals.alike", |program| {
        program.replace("(?=|x)", "(?!|x)")
    }),
    reply("places-items-from-one", "errors.places.item", |frame, _| {
        errors(frame, |text| {
            text.replace("at item 2", "at item 3")
                .replace("at item 1", "at item 2")
                .replace("at item 0", "at item 1")
        });
    }),
    reply("places-innermost-item", "errors.places.item", |frame, _| {
        errors(frame, |text| {
            text.replace("at item 1, and in it", "")
                .replace("at item 0, and in it", "")
        });
    }),
    reply("places-no-depth", "errors.places.limit", |frame, _| {
        errors(frame, |text| {
            text.replace(" calls deep", "").replace(" call deep", "")
        });
    }),
    reply(
        "places-nameless-limit",
        "errors.places.limit",
        |frame, _| {
            errors(frame, |text| {
                text.replace("in `", "`").replace("in 'deep'", "")
            });
        },
    ),
    reply("places-no-swap", "errors.places.way-out", |frame, _| {
        errors(frame, |text| {
            text.replace(
                "perhaps the arguments are swapped",
                "the arguments are wrong",
            )
        });
    }),
    reply("places-no-usage", "errors.places.way-out", |frame, _| {
        errors(frame, |text| text.replace("is called as", "is"));
    }),
    reply(
        "places-no-namespace",
        "errors.places.way-out",
        |frame, _| {
            errors(frame, |text| {
                text.replace("stands in a namespace", "is unknown")
            });
        },
    ),
    reply("places-no-form", "errors.places.way-out", |frame, _| {
        errors(frame, |text| text.replace("is no value", "is unknown"));
    }),
    reply(
        "places-taken-arguments-unknown",
        "errors.places.form",
        |frame, _| {
            errors(frame, |text| {
                text.replace("argument 1 of `vec`", "argument of `vec`")
                    .replace("argument 1 of `assoc`", "argument of `assoc`")
            });
        },
    ),
    reply("places-no-context", "errors.places.way-out", |frame, _| {
        errors(frame, |text| text.replace("data/orders", "it"));
    }),
    reply("places-behind-fail", "errors.places.plain", |frame, _| {
        errors(frame, |text| match text.starts_with("fail: ") {
            true => format!("{text}\nat line 1, column 1"),
            false => text.to_owned(),
        });
    }),
    reply(
        "suggestions-quoted-otherwise",
        "errors.places.suggestions",
        |frame, _| {
            errors(frame, |text| {
                text.replace("mean `", "mean '").replace("`?", "'?")
            });
        },
    ),
    // Functions of the language.
    taken!("strings.capitalize.first", "capitalize", "upper-case"),
    taken!("strings.replace-first.one", "replace-first", "replace"),
    taken!("strings.char.code", "char", "str"),
    taken!("numbers.floorDiv.floors", "floorDiv", "floorMod"),
    taken!("numbers.floorDiv.floors", "floorMod", "floorDiv"),
    taken!("numbers.constants.values", "PI", "E"),
    taken!("numbers.functions.floats", "sin", "cos"),
    taken!("numbers.functions.floats", "log10", "log"),
    taken!("numbers.functions.floats", "expm1", "exp"),
    taken!("numbers.long.whole", "long", "double"),
    taken!(
        "walk.keywordize-keys.strings",
        "keywordize-keys",
        "identity"
    ),
    taken!("walk.stringify-keys.keywords", "stringify-keys", "identity"),
    taken!("maps.sorted-map.entries", "sorted-map", "vector"),
    taken!("sets.subset?.members", "subset?", "superset?"),
    taken!("sets.superset?.members", "superset?", "subset?"),
    taken!("sets.rename-keys.names", "rename-keys", "merge"),
    taken!("sets.map-invert.swaps", "map-invert", "identity"),
    taken!("sets.sorted-set.members", "sorted-set", "vector"),
    taken!("sets.select.holds", "select", "filter"),
    taken!("core.print.goes-on", "print", "println"),
    taken!("core.pr.goes-on", "pr", "prn"),
    taken!("core.prn.readable", "prn", "println"),
    taken!("time.epoch.counts", "ofEpochMilli", "ofEpochSecond"),
    taken!("time.fields.numbers", ".getYear", ".getDayOfYear"),
    taken!("time.fields.names", ".getMonth", ".getMonthValue"),
    taken!("time.plusMonths.later", ".plusMonths", ".plusWeeks"),
    taken!("time.isEqual.same", ".isEqual", ".isBefore"),
    taken!("time.durations.whole", ".toHours", ".toMinutes"),
    taken!("time.lengths.days", ".lengthOfMonth", ".getDayOfMonth"),
    taken!("time.withDayOfMonth.day", ".withDayOfMonth", ".plusDays"),
    taken!("time.plusSeconds.later", ".plusSeconds", ".plusMinutes"),
    taken!("time.units.between", "MONTHS", "WEEKS"),
    taken!("interop.text.same", ".trim", ".toLowerCase"),
    taken!("interop.isEmpty.truth", ".isEmpty", "nil?"),
    taken!("interop.charAt.grapheme", ".charAt", ".substring"),
    taken!("interop.repeat.times", ".repeat", "str"),
    taken!("interop.replaceAll.text", ".replace", ".replaceAll"),
    taken!("interop.replaceAll.pattern", ".replaceAll", ".replace"),
    taken!("interop.split.parts", ".split", "split"),
    taken!("interop.split.whole", ".matches", ".contains"),
    taken!("interop.equals.same", ".equals", "="),
    taken!("interop.compareTo.order", ".compareTo", "compare"),
    written("empty-lists-null", "control.calling.nothing", |text| {
        text.replace(" ()", " nil")
    }),
    written("lists-grown", "control.calling.grown", |text| {
        text.replace(" ()", " []")
    }),
    written("case-vectors-as-groups", "forms.case.collections", |text| {
        text.replace("([1 2] [3 4])", "(1 2 3 4)")
    }),
    taken!("strings.kinds.spelled", "includes?", "contains?"),
    taken!("forms.letfn.together", "letfn", "let"),
    taken!("forms.dotimes.counts", "dotimes", "doseq"),
    written("join-by-one-key", "sets.join.keys", |text| {
        let by_one = "((fn ([a b] (set/join a b)) ([a b m] (set/join a b (into {} (take 1 m)))))";
        text.replace("(set/join", by_one)
    }),
    written("join-without-product", "sets.join.natural", |text| {
        let none = "((fn ([a b] (if (some (set (keys (first a))) (keys (first b))) (set/join a b) #{})) ([a b m] (set/join a b m)))";
        text.replace("(set/join", none)
    }),
    written("join-keeps-the-first-value", "sets.join.keys", |text| {
        let first = "((fn ([a b] (set/join a b)) ([a b m] (set (for [x a y b :when (every? (fn [[k l]] (= (k x) (l y))) m)] (merge y x)))))";
        text.replace("(set/join", first)
    }),
    written("project-drops-nil", "sets.project.keys", |text| {
        let without = "((fn [rows ks] (set (map (fn [r] (into {} (filter (fn [[_ v]] (some? v)) (select-keys r ks)))) rows)))";
        text.replace("(set/project", without)
    }),
    written("index-keeps-one-row", "sets.index.groups", |text| {
        let one = "((fn [rows ks] (into {} (map (fn [r] [(select-keys r ks) #{r}]) rows)))";
        text.replace("(set/index", one)
    }),
    written(
        "escape-drops-what-has-nothing",
        "strings.escape.characters",
        |text| text.replace("(str/escape", "((fn [s cmap] (apply str (map cmap s)))"),
    ),
    written("radix-ignored", "interop.to-base.read", |text| {
        text.replace("(Integer/parseInt", "((fn [s & _] (Integer/parseInt s))")
    }),
    written("radix-ignored-in-text", "interop.to-base.text", |text| {
        text.replace("(Integer/toString", "((fn [n & _] (Integer/toString n))")
    }),
    written("hex-of-64-bits", "interop.to-base.write", |text| {
        text.replace("Integer/toHexString", "Long/toHexString")
    }),
    written("bits-of-64-bits", "interop.to-base.write", |text| {
        text.replace("Integer/toBinaryString", "Long/toBinaryString")
    }),
    written("letters-of-ascii", "interop.characters.kinds", |text| {
        let ascii =
            "(fn [c] (and (Character/isLetter c) (some? (re-matches #\"[a-zA-Z]\" (char c))))) ";
        text.replace("Character/isLetter ", ascii)
    }),
    written("digits-of-ascii", "interop.characters.kinds", |text| {
        let ascii =
            "(fn [c] (and (Character/isDigit c) (some? (re-matches #\"[0-9]\" (char c))))) ";
        text.replace("Character/isDigit ", ascii)
    }),
    written(
        "letters-without-value",
        "interop.characters.value",
        |text| {
            let digits = "(fn [c] (if (Character/isDigit c) (Character/getNumericValue c) -1)) ";
            text.replace("Character/getNumericValue ", digits)
        },
    ),
    written("sunday-first", "time.fields.values", |text| {
        let sunday =
            "((fn [n] (let [v (.getValue n)] (if (str/ends-with? n \"DAY\") (inc (mod v 7)) v))) ";
        text.replace("(.getValue ", sunday)
    }),
    written("nan-greatest", "aggregates.max-by.nan", |text| {
        let nan = "((fn [& xs] (or (first (filter (fn [x] (and (number? x) (not= x x))) (if (next xs) xs (first xs)))) (apply max-by identity xs))) ";
        text.replace("(max-by identity ", nan)
    }),
    written("indexes-from-one", "maps.reduce-kv.indexes", |text| {
        text.replace(
            "(reduce-kv ",
            "((fn [f a c] (reduce-kv (fn [a k v] (f a (if (vector? c) (inc k) k) v)) a c)) ",
        )
    }),
    written("keys-of-a-map-again", "maps.keys.entries", |text| {
        text.replace("(keys ", "((fn [m] (keys (if (vector? m) (into {} m) m))) ")
    }),
    written("int-reads-digits", "numbers.int-digits.refused", |text| {
        text.replace("(int \"", "(parse-long \"")
    }),
    written("numbers-of-anything", "predicates.matrix.numbers", |text| {
        text.replace("(even? ", "((fn [x] (and (number? x) (even? x))) ")
    }),
    written("one-default", "functions.fnil-defaults.each", |text| {
        text.replace("(fnil ", "((fn [f d & _] (fnil f d)) ")
    }),
    written("no-characters-of-text", "maps.get.members", |text| {
        text.replace(
            "(get ",
            "((fn [m & more] (if (string? m) (second more) (apply get m more))) ",
        )
    }),
    written("keys-as-asked", "maps.select-keys.stored", |text| {
        text.replace(
            "(select-keys ",
            "((fn [m ks] (into {} (for [k ks :when (contains? m k)] [k (get m k)]))) ",
        )
    }),
    written("day-before-month", "time.of.fields", |text| {
        text.replace("(LocalDate/of ", "((fn [y m d] (LocalDate/of y d m)) ")
    }),
    written("clock-stands-still", "time.now.clock", |text| {
        text.replace("(LocalDate/now)", "(LocalDate/parse \"2000-01-01\")")
    }),
    written("iterates-once-more", "seqs.iterate.applies", |text| {
        text.replace("(iterate ", "((fn [f x] (iterate f (f x))) ")
    }),
    written("repeats-once-more", "seqs.repeat.times", |text| {
        text.replace(
            "(repeat ",
            "((fn ([x] (repeat x)) ([n x] (repeat (inc n) x))) ",
        )
    }),
    written("calls-once-more", "seqs.repeatedly.calls", |text| {
        text.replace(
            "(repeatedly ",
            "((fn ([f] (repeatedly f)) ([n f] (repeatedly (inc n) f))) ",
        )
    }),
    written("sequence-drops-the-first", "seqs.sequence.items", |text| {
        text.replace(
            "(sequence ",
            "((fn ([c] (sequence c)) ([x c] (rest (sequence x c)))) ",
        )
    }),
    written("reduced-goes-on", "seqs.reduced.ends", |text| {
        text.replace("(reduced ", "(identity ")
    }),
    written("into-without-steps", "seqs.transducers.into", |text| {
        text.replace(
            "(into ",
            "((fn ([to from] (into to from)) ([to _ from] (into to from))) ",
        )
    }),
    written("endless-from-one", "seqs.endless.bounded", |text| {
        text.replace("(range)", "(iterate inc 1)")
    }),
    written("endless-joined-backwards", "seqs.endless.joined", |text| {
        text.replace("(cons ", "((fn [x c] (cons (if (number? x) (inc x) x) c)) ")
    }),
    written(
        "indexes-of-arguments-ignored",
        "format.indexes.argument",
        |text| text.replace("%2$", "%"),
    ),
    written("upper-case-ignored", "format.indexes.upper", |text| {
        text.replace("%S", "%s")
    }),
    written(
        "limit-of-split-ignored",
        "strings.split-limit.parts",
        |text| {
            text.replace(
                "(str/split ",
                "((fn ([s by] (str/split s by)) ([s by _] (str/split s by))) ",
            )
        },
    ),
    written(
        "last-item-that-equals",
        "interop.indexOf-vector.item",
        |text| text.replace("(.indexOf ", "(.lastIndexOf "),
    ),
    written("rest-may-be-empty", "forms.fn.rest.nothing", |text| {
        text.replace("[& xs] xs", "[& xs] (vec xs)")
    }),
    written("var-is-quote", "forms.var.same", |text| {
        text.replace("(var ", "(quote ")
    }),
    written(
        "renames-exact-keys-only",
        "sets.rename-keys.kinds",
        |text| {
            let exact = "((fn [m names] (set/rename-keys m (into {} (filter (fn [[k _]] (some #{k} (keys m))) names)))) ";
            text.replace("(set/rename-keys ", exact)
        },
    ),
    written(
        "rest-of-nothing-is-empty",
        "destructuring.vector.rest.nothing",
        |text| text.replace("[a more]", "[a (vec more)]"),
    ),
    written("tests-of-parts-only", "destructuring.tests.whole", |text| {
        text.replace("(if-let [[a] []] ", "(if-let [a (first [])] ")
            .replace(
                "(when-let [{:keys [a]} {:b 1}] ",
                "(when-let [a (:a {:b 1})] ",
            )
    }),
    written("keys-by-value", "destructuring.keys.constants", |text| {
        text.replace("{a 1} {1.0 :f}", "{a 1.0} {1.0 :f}")
    }),
    written("methods-apart", "errors.methods.behind", |text| {
        text.replace(").", ") .")
            .replace("].", "] .")
            .replace("\".l", "\" .l")
    }),
    written("keys-of-any-kind", "errors.tools.keywords", |text| {
        text.replace("\"k\" 2", ":k 2")
    }),
    reply("bound-names-told", "errors.places.bound", |frame, _| {
        errors(frame, |text| {
            text.replace(
                "Undefined variable: my-let",
                "Undefined variables: my-let, x",
            )
            .replace("Undefined variables: zork", "Undefined variables: a, zork")
        });
    }),
    written("shadowed-if", "forms.shadowing.fixed", |text| {
        text.replace("(let [if 7] [if (if ", "(let [if 7] [if (when ")
            .replace("(let [let 5] (let ", "(let [let 5] (vector ")
    }),
    written(
        "shadowed-by-locals-only",
        "forms.shadowing.definitions",
        |text| {
            text.replace("(def and +)", "(def and' +)")
                .replace("(defn when ", "(defn when' ")
        },
    ),
    written("arities-by-the-last", "forms.arities.picked", |text| {
        text.replace("([] 0) ([x] x)", "([& _] nil)")
            .replace("([x] x) ([x y] [x y])", "([x y] [y x])")
    }),
    written("arities-fill-up", "forms.arities.none", |text| {
        text.replace("([a] a) ([a b c] b)", "([a & _] a)")
            .replace("([] 0) ([a b & c] a)", "([& a] a)")
    }),
    written("arities-of-one-count", "forms.arities.shape", |text| {
        text.replace("([a] 1) ([b] 2)", "([a] 1) ([b c] 2)")
    }),
    written("names-without-dollar", "reader.dollar.names", |text| {
        text.replace('$', "")
    }),
    written(
        "remembers-from-outside",
        "functions.memoize.recursive",
        |text| text.replace("(memoize (fn ", "((fn [f] f) (fn "),
    ),
    taken!("keys.writes.built", "zipmap", "hash-map"),
    written("built-with-both-kinds", "keys.writes.built", |text| {
        text.replace("(into {} [[:a 1] [\"a\" 2]])", "{:a 1 \"a\" 2}")
    }),
    written("literals-with-one-kind", "keys.writes.literal", |text| {
        text.replace("{:a 1 \"a\" 2}", "{:a 2}")
    }),
    written("operands-in-term-order", "order.operands.kinds", |text| {
        text.replace(
            "(< ",
            "((fn [a & more] (or (empty? more) (neg? (compare a (first more))))) ",
        )
    }),
    written("one-operand-of-numbers", "order.operands.one", |text| {
        text.replace("(< nil)", "(< nil 1)")
            .replace("(max :a)", "(max :a 1)")
    }),
    taken!("order.operands.keys", "max-key", "max-by"),
    taken!("order.operands.keys", "min-key", "min-by"),
    written("endless-through-one-less", "seqs.endless.through", |text| {
        text.replace("(rest ", "(drop 2 ")
            .replace("(map-indexed vector (iterate", "(map vector (iterate")
    }),
    written("endless-of-another-kind", "seqs.endless.kinds", |text| {
        text.replace("(vector? ", "(fn? ")
            .replace("(type ", "(str ")
    }),
    written("endless-cut", "seqs.endless.kept", |text| {
        text.replace("(range)", "(range 3)")
            .replace("(repeat 1)", "(repeat 3 1)")
    }),
    written("ranges-to-their-end", "seqs.unkept.range", |text| {
        text.replace("(range 1000000)", "(range 1000001)")
    }),
    written("steps-that-stay", "seqs.unkept.steps", |text| {
        text.replace("drop-while", "take-while")
    }),
    written("steps-seen-in-turns", "seqs.unkept.seen", |text| {
        text.replace("\"m\"", "\"r\"")
    }),
    written(
        "transducers-from-the-right",
        "seqs.transducers.made",
        |text| {
            text.replace(
                "(comp (map inc) (filter even?))",
                "(comp (filter even?) (map inc))",
            )
        },
    ),
    written("transducers-of-items", "seqs.transducers.called", |text| {
        text.replace("((map inc) 5)", "(map inc [5])")
    }),
    written(
        "reversed-by-code-points",
        "strings.reverse.graphemes",
        |text| {
            text.replace(
            "(str/reverse ",
            "((fn [s] (str/replace (str/reverse s) #\"(?s).\\p{M}\" #(str/join (map str (reverse (re-seq #\"(?s).\" %)))))) ",
        )
        },
    ),
    written(
        "given-text-with-groups",
        "strings.replace-by.function",
        |text| text.replace("(fn [_] \"$0\\\\\")", "\"$0\""),
    ),
    taken!("functions.memoize.once", "memoize", "identity"),
    taken!("seqs.doall.same", "doall", "dorun"),
    taken!("seqs.reduced.tested", "reduced?", "some?"),
    taken!("seqs.reductions.all", "reductions", "reduce"),
    taken!("seqs.take-nth.items", "take-nth", "drop"),
    taken!("seqs.rseq.opposite", "rseq", "reverse"),
    taken!("seqs.cycle.again", "cycle", "identity"),
    taken!("seqs.transduce.folds", "transduce", "into"),
    taken!("seqs.run!.calls", "run!", "map"),
    taken!("interop.to-base.write", "toOctalString", "toHexString"),
    taken!("interop.characters.kinds", "isUpperCase", "isLowerCase"),
    taken!("interop.bounds.values", "MAX_VALUE", "MIN_VALUE"),
    row(
        "data-is-empty",
        "names.data.whole",
        Mutation::Program(|text| text.replace(" data)", " {})").replace(" data ", " {} ")),
    ),
    // What is too much for some.
    row(
        "limits-short-schemas-only",
        "mcp.limits.sizes.schema",
        Mutation::Request(long_schemas_unreadable),
    ),
    row(
        "limits-long-names-unread",
        "mcp.limits.program.names",
        Mutation::Request(long_names_unread),
    ),
    written(
        "limits-shared-parts-once",
        "mcp.limits.sessions.reckoned",
        |text| text.replace("[a a]) [] (range 30)", "[a a]) [] (range 3)"),
    ),
    row(
        "limits-short-titles-only",
        "mcp.limits.sizes.title",
        Mutation::Request(long_titles_unknown),
    ),
    // Sessions and what is remembered of calls.
    row(
        "sessions-calls-cleared-together",
        "mcp.sessions.upstream.little.kept",
        Mutation::Request(calls_together),
    ),
    payload(
        "sessions-bytes-one-more",
        "mcp.sessions.kept.sizes",
        |payload| {
            if let Some(Json::Array(bindings)) = at(payload, &["top_bindings"]) {
                bindings.iter_mut().for_each(one_more);
            }
        },
    ),
    row(
        "sessions-program-one-byte-less",
        "mcp.sessions.tools.sizes",
        Mutation::Flag("--max-program-bytes", "19"),
    ),
    payload(
        "errors-with-prints",
        "mcp.profiles.debug.errors",
        |payload| {
            if at(payload, &["status"]).and_then(|status| status.as_str()) == Some("error") {
                set(payload, &[], "prints", Json::Array(Vec::new()));
            }
        },
    ),
    payload(
        "errors-with-validated",
        "mcp.profiles.validated.alone",
        |payload| {
            if at(payload, &["reason"]).and_then(|reason| reason.as_str())
                == Some("validation_error")
            {
                set(payload, &[], "validated", Json::from(1));
            }
        },
    ),
    payload(
        "errors-without-result",
        "mcp.profiles.debug.errors",
        |payload| {
            if at(payload, &["status"]).and_then(|status| status.as_str()) == Some("error") {
                remove(payload, &[], "result");
            }
        },
    ),
    row(
        "id-zero-is-none",
        "mcp.dispatch.ids.everywhere",
        Mutation::Reply(|frame, _| {
            if let Some(id) = at(frame, &["id"])
                && id.to_string() == "0"
            {
                *id = Json::Null;
            }
        }),
    ),
    // The listener.
    http_request(
        "http-proxies-one-line",
        "mcp.http.proxies.lines",
        |request| {
            if let Some(one) = request.field("x-forwarded-for").map(str::to_owned) {
                request.drop_field("x-forwarded-for");
                request.set_field("X-Forwarded-For", &one);
            }
        },
    ),
    http_request(
        "http-sessions-in-any-case",
        "mcp.http.sessions.near",
        |request| {
            if let Some(id) = request
                .field("mcp-session-id")
                .map(str::trim)
                .map(str::to_owned)
            {
                request.set_field("MCP-Session-Id", id.trim_end_matches(['x', 'X']));
            }
        },
    ),
    http_request("http-sites-unread", "mcp.http.pages.sites", |request| {
        request.drop_field("sec-fetch-site");
    }),
    http_request(
        "http-stateless-names-unread",
        "mcp.stateless.http.name",
        |request| {
            request.drop_field("mcp-name");
        },
    ),
];

/// The texts of an error's reply: its feedback, message and blocks of text.
fn errors(frame: &mut Json, edit: impl Fn(&str) -> String) {
    let is_error = at(frame, &["result", "isError"]).is_some_and(|flag| *flag == Json::from(true));
    if !is_error {
        return;
    }
    for path in [
        &["result", "structuredContent", "feedback"],
        &["result", "structuredContent", "message"],
    ] {
        if let Some(Json::String(text)) = at(frame, path) {
            *text = edit(text);
        }
    }
    if let Some(Json::Array(blocks)) = at(frame, &["result", "content"]) {
        for block in blocks {
            if let Some(Json::String(text)) = at(block, &["text"]) {
                *text = edit(text);
            }
        }
    }
}

/// `text` with what stands behind `start`, up to the end of the line, edited.
fn within(text: &str, start: &str, edit: impl Fn(&str) -> String) -> String {
    let Some(from) = text.find(start).map(|at| at + start.len()) else {
        return text.to_owned();
    };
    // In JSON text a line ends with an escape.
    let end = text[from..].find(['\n', '\\', '"']);
    let end = end.map_or(text.len(), |end| from + end);
    format!(
        "{}{}{}",
        &text[..from],
        edit(&text[from..end]),
        &text[end..]
    )
}

fn first_line(text: &str) -> String {
    text.lines().next().unwrap_or_default().to_owned()
}

fn one_more(binding: &mut Json) {
    let more = binding
        .get("bytes")
        .and_then(|bytes| bytes.to_string().parse::<i64>().ok());
    if let Some(bytes) = more {
        set(binding, &[], "bytes", Json::from(bytes + 1));
    }
}

/// Schemas beyond 32 KiB are none.
fn long_schemas_unreadable(frame: &mut Json) {
    if let Some(schema) = at(frame, &["params", "arguments", "output_schema"])
        && schema.to_string().len() > 32 << 10
    {
        *schema = Json::from("too long");
    }
}

/// A schema that names something in more than 1,000 bytes is passed over.
fn long_names_unread(frame: &mut Json) {
    let names_at_length = |schema: &Json| match schema.get("properties") {
        Some(Json::Object(properties)) => properties.iter().any(|(name, _)| name.len() > 1_000),
        _ => false,
    };
    let is_passed_over = at(frame, &["params", "arguments", "output_schema", "items"])
        .is_some_and(|items| names_at_length(items));
    if is_passed_over {
        remove(frame, &["params", "arguments"], "output_schema");
    }
}

/// Titles beyond 100 bytes are an argument that nobody knows.
fn long_titles_unknown(frame: &mut Json) {
    let is_long = at(frame, &["params", "arguments", "title"])
        .and_then(|title| title.as_str().map(str::len))
        .is_some_and(|bytes| bytes > 100);
    if is_long {
        set(frame, &["params", "arguments"], "titel", Json::from(1));
    }
}

fn calls_together(frame: &mut Json) {
    if let Some(Json::Array(targets)) = at(frame, &["params", "arguments", "clear"])
        && targets
            .iter()
            .any(|target| target.as_str() == Some("tool_calls"))
    {
        targets.push(Json::from("upstream_calls"));
    }
}
