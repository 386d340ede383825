//! Names that people and models reach for and that the language does not have, each with what to write instead.
//! Knows no scopes: a name that a program binds is never looked up here.

use crate::heap;
use std::collections::HashMap;
use std::sync::LazyLock;

/// What to write instead of `name`.
pub fn instead(name: &str) -> Option<&'static str> {
    INDEX.get(name).copied()
}

/// Every name of the table.
pub fn names() -> impl Iterator<Item = &'static str> {
    ABSENT.iter().flat_map(|(names, _)| names.iter().copied())
}

/// What to write instead of `name`, as a sentence.
pub fn way_out(name: &str) -> Option<String> {
    let instead = instead(name)?;
    Some(format!("`{name}` is not in this language: {instead}"))
}

static INDEX: LazyLock<HashMap<&'static str, &'static str>> = LazyLock::new(|| heap::aside(index));

fn index() -> HashMap<&'static str, &'static str> {
    let rows = ABSENT.iter();
    rows.flat_map(|(names, instead)| names.iter().map(|name| (*name, *instead)))
        .collect()
}

/// Whether `name` is a form that binds names, in a vector, a list, or bare.
pub fn binds(name: &str) -> bool {
    const BINDS: &[&str] = &[
        "catch",
        "lambda",
        "function",
        "func",
        "defun",
        "fn*",
        "let*",
        "letrec",
        "with-open",
        "with-redefs",
        "binding",
        "with-local-vars",
        "defmacro",
        "defmulti",
        "defmethod",
        "defrecord",
        "deftype",
        "defprotocol",
        "extend-type",
        "extend-protocol",
        "reify",
        "proxy",
        "defn-",
        "def-fn",
        "deffn",
        "define",
        "defunc",
        "const",
        "var!",
        "let!",
        "with",
        "declare",
        "ns",
        "require",
        "import",
        "use",
        "refer",
        "in-ns",
        "alias",
        "go-loop",
        "areduce",
        "amap",
        "defstruct",
        "definterface",
        "new",
        "set!",
        "setq",
        "foreach",
        "for-each",
        "as->>",
    ];
    BINDS.contains(&name)
}

/// Names with one and the same way out.
type Row = (&'static [&'static str], &'static str);

/// Every name that is known not to be there.
#[rustfmt::skip]
pub const ABSENT: &[Row] = &[
    (&["identical?"], "values have no identity: use (= a b)"),
    (&["list?", "seq?!"], "sequences are vectors: use (vector? x) or (sequential? x)"),
    (&["symbol", "gensym!"], "quote the symbol, as in 'name, or use (keyword s)"),
    (&["json/encode", "json/stringify", "json/write-str", "json/dumps", "JSON.stringify", "JSON/stringify", "cheshire.core/generate-string", "clojure.data.json/write-str", "clojure.data.json/json-str"], "use (json/generate-string x)"),
    (&["json/parse", "json/decode", "json/read-str", "json/loads", "JSON/parse", "cheshire.core/parse-string", "clojure.data.json/read-str", "clojure.data.json/read-json"], "use (json/parse-string s); its keys are strings"),
    (&["java.util.UUID/randomUUID", "UUID/randomUUID"], "there is no randomness: the same program gives the same result"),
    (&["System/exit"], "end the program with (return value) or (fail {…})"),
    (&["System/getenv", "System/getProperty"], "there is no environment: data comes from the context as data/NAME"),
    (&["clj-time.core/now", "t/now", "java-time/now", "time/now"], "use (LocalDate/now) or (java.util.Date.)"),
    (&["try", "catch", "finally"], "nothing can be caught: test before, as in (when (some? x) …), or end with (fail {…})"),
    (&["throw", "ex-info", "Exception.", "RuntimeException.", "IllegalArgumentException."], "errors are not raised by hand: end the program with (fail {:reason \"…\"})"),
    (&["ex-data", "ex-message", "ex-cause", "Throwable->map"], "there are no exceptions to look into: test values before, or end with (fail {…})"),
    (&["assert"], "test with (when-not ok (fail {:reason \"…\"}))"),
    (&["atom", "swap!", "reset!", "deref", "volatile!", "vswap!", "vreset!", "swap-vals!", "reset-vals!", "compare-and-set!", "add-watch", "remove-watch", "set-validator!", "ref", "ref-set", "alter", "commute", "ensure", "agent", "send", "send-off", "await", "alter-var-root"], "there is no mutable state: carry the value through reduce or loop/recur, or (def name value) again"),
    (&["dosync", "sync", "io!"], "there are no transactions: carry the value through reduce or loop/recur"),
    (&["binding", "with-redefs", "with-local-vars", "with-bindings", "with-bindings*"], "there are no dynamic vars: pass the value as an argument"),
    (&["delay"], "everything is evaluated at once: write the expression itself, or a function (fn [] …) that is called later"),
    (&["lazy-seq", "lazy-cat"], "everything is evaluated at once: make what has no end with (iterate f x), (range), (repeat x) or (cycle coll), and take from it with take or take-while"),
    (&["unchecked-add", "unchecked-subtract", "unchecked-multiply", "unchecked-inc", "unchecked-dec", "unchecked-negate", "unchecked-divide-int", "unchecked-add-int"], "integers have any size and never overflow: use +, -, * or quot"),
    (&["re-matcher", "re-groups"], "use (re-find re s) or (re-seq re s): groups come as [whole group …]"),
    (&["java.util.regex.Pattern/quote", "Pattern/quote", "java.util.regex.Pattern/compile", "Pattern/compile"], "write the text as a string to have it taken as it is, as in (clojure.string/replace s \".\" \"\"), or a pattern as #\"…\" or (re-pattern s)"),
    (&["clojure.lang.PersistentQueue/EMPTY", "PersistentQueue/EMPTY"], "use a vector: (conj q x) adds at the end, (first q) looks, (subvec q 1) takes away"),
    (&["java.time.YearMonth/parse", "YearMonth/parse", "java.time.YearMonth/of", "YearMonth/of", "java.time.YearMonth/from", "YearMonth/from"], "take the month out of the text, as in (subs (str d) 0 7)"),
    (&["java.time.format.DateTimeFormatter/ofPattern", "DateTimeFormatter/ofPattern", "java.time.format.DateTimeFormatter/ISO_DATE", "DateTimeFormatter/ISO_DATE", "java.time.format.DateTimeFormatter/ISO_LOCAL_DATE", "DateTimeFormatter/ISO_LOCAL_DATE"], "(str d) is YYYY-MM-DD; write another form as in (format \"%02d/%02d/%d\" (.getDayOfMonth d) (.getMonthValue d) (.getYear d)), and take one apart with re-matches"),
    (&["Integer/valueOf", "Long/valueOf", "java.lang.Integer/parseInt", "java.lang.Long/parseLong"], "use (parse-long s)"),
    (&["Double/valueOf", "Float/valueOf", "java.lang.Double/parseDouble"], "use (parse-double s)"),
    (&["Double/toString", "Boolean/toString", "Character/toString", "String/valueOf"], "use (str x)"),
    (&["Double/isNaN", ".isNaN", "Double/isInfinite"], "use (NaN? x) or (infinite? x)"),
    (&["Character/toUpperCase", "Character/toLowerCase"], "use (clojure.string/upper-case c) or lower-case"),
    (&["String/format", "String/join"], "use (format fmt x …) or (clojure.string/join sep coll)"),
    (&["clojure.core.async/go", "clojure.core/atom"], "there is no mutable state and no channel: use reduce, loop/recur or pmap"),
    (&["force", "realized?", "delay?"], "everything is evaluated at once: there is nothing to force"),
    (&["future", "promise", "deliver", "future-call", "future-cancel", "future-done?", "thread", "pvalues", "go", "go-loop", "chan", "<!", ">!", "<!!", ">!!", "async/go"], "use (pmap f coll) or (pcalls f g) to work side by side"),
    (&["Thread/sleep", "Thread.", "sleep", "time.sleep", "setTimeout"], "there is no sleeping and no clock to wait for: leave it out"),
    (&["require", "ns", "use", "import", "refer", "alias", "in-ns", "load", "load-file", "require-macros", "refer-clojure", "create-ns", "find-ns", "the-ns", "all-ns", "ns-name", "ns-resolve"], "there are no namespaces to load: every function is there, such as clojure.string/join, str/join or set/union"),
    (&["defmacro", "macroexpand", "macroexpand-1", "gensym", "definline"], "there are no macros: write a function with defn"),
    (&["defrecord", "deftype", "defprotocol", "extend-type", "extend-protocol", "reify", "proxy", "definterface", "gen-class", "extend", "defstruct", "struct"], "there are no types: keep data in maps, and functions that take them"),
    (&["defmulti", "defmethod"], "there is no dispatch by method: use cond, case or a map of functions"),
    (&["remove-method", "prefer-method", "methods", "get-method", "isa?", "derive", "underive", "parents", "ancestors", "descendants", "make-hierarchy", "satisfies?", "extends?"], "there is no dispatch by method: use cond, case or a map of functions"),
    (&["defn-"], "use defn; everything is private to the program"),
    (&["declare"], "define the name where its value is known, with def or defn; names may be used before their definition"),
    (&["read-string", "eval", "read", "load-string", "edn/read-string", "clojure.edn/read-string", "read-line", "load-reader", "compile"], "text is not read as code: use json/parse-string for JSON, parse-long and parse-double for numbers"),
    (&["slurp", "spit", "with-open", "clojure.java.io/reader", "clojure.java.io/file", "io/file", "io/reader", "file-seq", "line-seq", "open", "fs.readFileSync", "File."], "there are no files: data comes from the context as data/NAME, or from tools"),
    (&["input", "prompt", "readline", "read-lines"], "there is no input: data comes from the context as data/NAME"),
    (&["printf", "newline", "flush", "print-str", "prn-str", "println-str", "with-out-str", "pprint", "clojure.pprint/pprint", "pr-on", "console.log", "print-table", "clojure.pprint/print-table", "puts", "echo", "log", "log/info", "tap>", "debug", "printf!"], "use println; its lines come back as prints"),
    (&["rand", "rand-int", "rand-nth", "shuffle", "random-sample", "random-uuid", "random.choice", "Math/random", "Math.random", "random", "rand-seed", "uuid"], "there is no randomness: the same program gives the same result; take items by index instead"),
    (&["len", "length", "size", ".size", ".count", "len.", "sizeof", "strlen"], "use (count x)"),
    (&["lambda", "function", "func", "arrow", "defun", "fn*"], "use (fn [x] …) or #(…)"),
    (&["def-fn", "deffn", "define", "defunc"], "use (defn name [args] …)"),
    (&["var!", "const", "letrec", "let!", "with", "setq", "set!", "local"], "use (let [name value] …)"),
    (&["labels", "flet"], "use (letfn [(f [x] …)] …)"),
    (&["elif", "elseif", "else-if", "elsif", "switch", "unless", "ternary"], "use (if test then else) or (cond test result …)"),
    (&["else", "otherwise?", "condlet", "cond-let"], "use (cond …)"),
    (&["match", "select-case"], "use (case value constant result … default)"),
    (&["while", "foreach", "forEach", "for-each", "until", "repeat-until"], "use (loop [i 0] (if (< i n) (recur (inc i)) …)), or (doseq [i (range n)] …)"),
    (&["each", "eachIndexed", "each-with-index", "dorun*"], "use (doseq [x coll] …) or (run! f coll)"),
    (&["break", "continue", "exit", "quit", "raise"], "use (return value) at the end of what is evaluated; there is no break"),
    (&["null", "None", "undefined", "void", "NULL"], "use nil"),
    (&["True", "False", "TRUE", "FALSE", "yes", "no"], "use true and false"),
    (&["!", "not!"], "use (not x)"),
    (&["&&"], "use (and a b)"),
    (&["===", "eq?", "equal?", "equals", "eq", "equal", "string=?", "strcmp", "is", "==?"], "use (= a b)"),
    (&["!=", "!==", "/=", "<>"], "use (not= a b)"),
    (&["modulo", "remainder", "fmod"], "use (mod a b) or (rem a b)"),
    (&["**", "expt", "exp", "pow!", "power"], "use (Math/pow a b)"),
    (&["++", "--", "+=", "-=", "*="], "use (inc x), (dec x), or carry the value through reduce"),
    (&["concat-str", "string-append", "str-cat", "strcat", "concatenate", "append-str", "string->append"], "use (str a b …)"),
    (&["append", "push", "add", "push!", "conj!", "append!", "add!", "push-back", "prepend", "unshift", ".push", ".append", ".add", "extend!"], "use (conj coll x)"),
    (&["concat!", "append-all", "addAll", "putAll", "union-all", "concat-lists"], "use (into a b) or (concat a b)"),
    (&["put", "set-in", "assoc!", "put!", "setdefault", "hash-set!", "dict-set", "map-put", ".put", "setval"], "use (assoc m k v): it returns a new map"),
    (&["del", "delete", "remove-key", "dissoc!", "disj!", "pop!", "delete-key", "without", "unset"], "use (dissoc m k): it returns a new map"),
    (&["dissoc-in"], "use (dissoc m k), at the end of a path (update-in m path dissoc k)"),
    (&["getOrDefault", "get-or-default", "fetch", ".get", "lookup", "get!", "getattr", "hash-ref", "dict.get", "getval"], "use (get m k default)"),
    (&["has-key?", "hasKey", "includes", "contains", "has?", "in", "in?", "member", "member?", "include?", "key?", ".includes", "has", "exists?"], "use (contains? m k), or (some #{x} coll) for an item"),
    (&["items", "entries!", "values", ".keys", ".values", ".items", "dict-keys", "Object.keys", "Object.values", "Object.entries", "map-keys!", "val-seq"], "use (keys m), (vals m) or (seq m)"),
    (&["dict", "hashmap", "HashMap.", "make-hash", "Map.", "object", "new-map", "map->map", "to-map", "fromEntries", "Object.fromEntries", "map-from"], "use {…} or (into {} pairs)"),
    (&["array", "list!", "to-list", "toList", "tuple", "array-list", "ArrayList.", "to-array", "make-array", "into-array", "int-array", "long-array", "double-array", "object-array", "aget", "aset", "aclone", "alength", "amap", "vector-of", "Array.from", "to-vec", "tolist"], "use (vec coll) or [ … ]"),
    (&["to-set", "HashSet.", "Set.", "make-set"], "use (set coll) or #{…}"),
    (&["select", "where", "filter!", "grep", "findAll", "find-all", "select-where", "find-if", "filter-by"], "use (filter pred coll)"),
    (&["find-first", "detect", "first-where", "find-one", "firstOrNull", "seek"], "use (first (filter pred coll)) or (some pred coll)"),
    (&["collect", "transform", "map!", "map-over", "mapping", "maplist", "mapcar", "pmap!", "list-map", "for-map"], "use (map f coll)"),
    (&["flatMap", "flat-map", "flatmap", "flat_map", "concatMap", "append-map"], "use (mapcat f coll)"),
    (&["map-vals", "map-values", "map-kv", "mapValues", "transform-values", "fmap", "map-vals!", "map-val", "update-values", "transformValues"], "use (into {} (map (fn [[k v]] [k (f v)]) m)), or (update-vals m f)"),
    (&["map-keys", "transform-keys", "mapKeys", "transformKeys", "update-key"], "use (update-keys m f)"),
    (&["filter-vals", "filter-keys", "filter-kv", "select-vals", "filterKeys", "filterValues", "remove-vals", "remove-keys", "pick", "omit"], "use (into {} (filter (fn [[k v]] …) m))"),
    (&["fold", "foldl", "foldr", "inject", "accumulate", "aggregate", "reduce-right", "fold-left", "fold-right", "reducers/fold", "r/fold", "functools.reduce"], "use (reduce f init coll)"),
    (&["sum-all", "total", "add-all", "summation", "plus"], "use (reduce + coll) or (sum coll)"),
    (&["mean", "average", "statistics.mean", "avg-of"], "use (avg coll)"),
    (&["median", "percentile"], "sort and take the middle: (let [s (sort xs)] (nth s (quot (count s) 2)))"),
    (&["sorted", "sort!", "sortBy", "sort_by", "order-by", "orderBy", "order", "sorted-by", "sort-on", "sort-with"], "use (sort-by f coll)"),
    (&["sorted-set-by", "sorted-map-by", "sorted-list"], "use (sort coll); maps and sets are in the order of their keys already"),
    (&["reversed", "reverse!", ".reverse"], "use (reverse coll)"),
    (&["unique", "uniq", "distinct!", "nub", "remove-duplicates", "dedup"], "use (distinct coll)"),
    (&["uniq-by", "unique-by", "uniqBy", "distinct-on"], "use (distinct-by f coll)"),
    (&["groupBy", "group_by", "group-on", "partition-map", "index-by", "key-by", "groupby"], "use (group-by f coll)"),
    (&["counter", "Counter", "count-by", "countBy", "tally", "histogram", "value_counts", "count-items"], "use (frequencies coll)"),
    (&["zip-with", "zipWith", "map-vector", "zipped", "zip*", "zip-lists"], "use (map vector a b) or (zip a b)"),
    (&["enumerate", "with-index", "indexed", "each-indexed", "map-with-index", "mapi", "for-indexed"], "use (map-indexed (fn [i x] …) coll)"),
    (&["chunk", "chunks", "chunked", "batch", "in-groups-of", "split-every", "split-into", "partition-n"], "use (partition-all n coll)"),
    (&["flat", "flatten-deep", "flat-list", ".flat"], "use (flatten coll)"),
    (&["slice", "sublist", "head", "tail!", "take-n", "limit", ".slice", "substr!", "subarray", "subseq", "rsubseq", "splice"], "use (take n coll), (drop n coll) or (subvec v start end)"),
    (&["substring", "substr", "str-slice", "sub-str", ".slice!", "left", "right", "mid", "substring-after"], "use (subs s start end)"),
    (&["tail", "last!", "end", "back", "final"], "use (last coll) or (peek v)"),
    (&["car", "head!", "first!", "firsts"], "use (first coll)"),
    (&["cdr", "tail-of", "rest!"], "use (rest coll)"),
    (&["toUpperCase", "upper", "uppercase", "to-upper", "upper!", "str.upper", "string-upcase", "ucase", "to_upper"], "use (clojure.string/upper-case s)"),
    (&["toLowerCase", "lower", "lowercase", "to-lower", "str.lower", "string-downcase", "lcase", "to_lower"], "use (clojure.string/lower-case s)"),
    (&["title", "title-case", "capitalise", "ucfirst", "titlecase"], "use (clojure.string/capitalize s)"),
    (&["gsub", "re-sub", "str-replace", "replaceAll", "re.sub", "replace-all", "sub", "regex-replace"], "use (clojure.string/replace s match replacement)"),
    (&["strip", "chomp", "trim!", "rstrip", "lstrip", "strip!", "str-trim"], "use (clojure.string/trim s)"),
    (&["tokenize", "explode", "str-split", "re.split", "split-string", "words", "splitlines"], "use (clojure.string/split s #\"…\")"),
    (&["implode", "str-join", "string-join", "mkString", "join-str", ".join"], "use (clojure.string/join sep coll)"),
    (&["startsWith", "endsWith", "startswith", "endswith", "starts_with", "prefix?", "suffix?", ".startswith", ".endswith"], "use (clojure.string/starts-with? s p) or ends-with?"),
    (&["isBlank", "is-blank?", "empty-string?", "isEmpty", "isNullOrEmpty"], "use (clojure.string/blank? s)"),
    (&["null?", "none?", "is-empty?", "is-null", "isNull", "isnull", "is_none", "nil-or-empty?", "isempty"], "use (empty? coll) or (nil? x)"),
    (&["exists", "present?", "not-nil?", "not-null?", "non-nil?", "defined?", "isset"], "use (some? x)"),
    (&["toString", "to-string", "string", "to_s", "to-str", "number->string", "str!", "String.", "stringify", "symbol->string"], "use (str x)"),
    (&["parseInt", "parseFloat", "to-int", "to-integer", "string->number", "Integer.", "parse-number", "to-number", "toInt", "atoi", "Float.", "bigint", "bigdec", "biginteger", "rationalize", "str->int", "num", "long-parse", "read-number", "Number"], "use (parse-long s) for integers and (parse-double s) for others"),
    (&["JSON.parse", "json.loads", "parse-json", "json/read", "from-json", "decode-json", "json->clj"], "use (json/parse-string s)"),
    (&["json.dumps", "to-json", "json/generate", "json/write", "encode-json", "clj->json"], "use (json/generate-string x)"),
    (&["sprintf", "string-format", "format!", "f-string", "cl-format", "clojure.pprint/cl-format", "str-format", "number-format", "toFixed", ".toFixed"], "use (format \"%.2f\" x)"),
    (&["typeof", "type-of", "class", "instance?", "isinstance", "instanceof", "kind-of"], "use (type x), or a predicate such as string? or map?"),
    (&["math/abs", "math/sqrt", "math/pow", "math/round", "math.sqrt", "math.floor", "fabs", "math.pow", "clojure.math/pow", "clojure.math/sqrt", "clojure.math/round", "Math.max", "Math.min", "Math.abs", "Math.round", "Math.floor"], "use (Math/abs x), (Math/sqrt x), (Math/pow a b), (Math/round x)"),
    (&["date", "datetime", "Date.", "strptime", "strftime", "parse-date", "date-format", "now", "today", "DateTime", "tick/now", "jt/local-date", "java-time/local-date", "SimpleDateFormat."], "use (LocalDate/parse s), (Instant/parse s), (.plusDays d n)"),
    (&["call-tool", "tool-call", "invoke-tool", "http/get", "http-get", "fetch!", "curl", "requests.get", "client/get", "slurp-url", "mcp/call", "use-tool"], "tools are called as (tool/call {:server \"…\" :tool \"…\" :args {…}})"),
    (&["context", "ctx", "args", "input-data", "params", "context/get", "get-data", "*input*", "env", "vars", "payload"], "the context is read as data/NAME, or data for all of it"),
    (&["yield", "emit", "output", "result!", "set-result", "done"], "end with the value itself, or (return value)"),
    (&["with-meta", "meta!", "vary-meta", "alter-meta!", "reset-meta!"], "there is no metadata"),
    (&["transient", "persistent!", "editable?"], "everything is persistent already: use into, assoc and conj"),
    (&["intern", "find-keyword", "qualified-keyword?", "qualified-symbol?", "find-var", "namespace", "name-space", "resolve", "ns-map", "symbol->keyword"], "use a keyword or a string"),
    (&["repeatedly!", "lazy", "generate"], "use (iterate f x), (repeatedly f) or (cycle coll), with (take n …) around it"),
    (&["funcall", "call", "invoke", "memoized!", ".call", ".apply", "apply-fn"], "call the function itself"),
    (&["trampoline"], "call the function until it gives no function: (loop [r (f x)] (if (fn? r) (recur (r)) r))"),
    (&["pipe", "compose", "doto!", "chain", ">>=", "tap", "thread-through"], "write the steps with -> or ->>"),
    (&["new", "doto", "proxy-super", "memfn", "bean"], "a method is called as (.name object …); few exist: use the functions of clojure.string"),
    (&["=>", "==>", "->*"], "write a function as (fn [x] …) or #(…)"),
    (&[".format", ".isoformat", ".toISOString", ".strftime"], "use (str x), or (format fmt x …); a part of a date is (.getYear d) or (subs (str d) 0 7)"),
    (&[".getHour", ".getMinute", ".getSecond", ".toLocalDate", ".toLocalTime", ".truncatedTo"], "an instant has no fields: take parts of its text, as in (subs (str t) 0 10), or reckon with (.toEpochMilli t)"),
    (&[".getOrDefault", ".containsKey", ".keySet", ".entrySet"], "use (get m k default), (contains? m k), (keys m) or (seq m)"),
    (&[".map", ".filter", ".reduce", ".forEach", ".stream"], "functions stand in front: (map f coll), (filter pred coll), (reduce f init coll)"),
    (&["java.time.LocalDateTime/now", "LocalDateTime/now", "java.time.ZonedDateTime/now", "ZonedDateTime/now", "java.time.OffsetDateTime/now", "OffsetDateTime/now", "java.time.LocalTime/now", "LocalTime/now"], "use (java.time.Instant/now) or (LocalDate/now)"),
    (&["java.time.LocalDateTime/parse", "LocalDateTime/parse", "java.time.ZonedDateTime/parse", "ZonedDateTime/parse", "java.time.OffsetDateTime/parse", "OffsetDateTime/parse"], "use (java.time.Instant/parse s) or (LocalDate/parse s)"),
    (&["java.time.Period/between", "Period/between", ".getYears", ".getMonths", ".getDays"], "use (.until a b ChronoUnit/YEARS), with MONTHS or DAYS alike, or (Duration/between a b) for instants"),
    (&["Duration/ofDays", "Duration/ofHours", "Duration/ofMinutes", "Duration/ofSeconds", "Duration/ofMillis", "java.time.Duration/ofDays", "java.time.Duration/ofHours", "java.time.Duration/ofMinutes", "java.time.Duration/ofSeconds", "java.time.Duration/ofMillis", ".plus", ".minus"], "use (.plusDays d n), (.plusHours t n) and their kin, with .minusDays alike; spans of time are told by (Duration/between a b)"),
    (&[".withMonth", ".withYear"], "make the date of its numbers: (LocalDate/of year month day)"),
    (&[".atStartOfDay", ".atTime", ".toInstant"], "the midnight of a date is (java.util.Date. d)"),
    (&["desc", "asc", "descending", "ascending", "DESC", "ASC"], "write the order as a keyword, as in (sort-by :name :desc rows), or as a comparator: (sort-by :name > rows)"),
    (&["inst-ms"], "use (.toEpochMilli t)"),
    (&["inst?"], "use (= :instant (type x))"),
    (&["LocalDate/MIN", "LocalDate/MAX", "LocalDate/EPOCH", "Instant/EPOCH", "Instant/MIN", "Instant/MAX"], "make one with (LocalDate/of year month day) or (Instant/ofEpochSecond n)"),
    (&["LocalDate/from", "LocalDate/ofInstant", "java.time.LocalDate/from", "java.time.LocalDate/ofInstant"], "the date of an instant is (LocalDate/parse (subs (str t) 0 10))"),
    (&["ChronoUnit/DAYS.between", "ChronoUnit/between"], "use (.between ChronoUnit/DAYS a b)"),
    (&[".", ".."], "a method is called as (.trim s): its name stands first, and there is one call for each"),
    (&["completable-future", "Promise.", "async", "await!", "aio"], "there are no sleeping futures: use a plain value"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_name_is_there_or_listed_twice() {
        let mut seen = std::collections::HashSet::new();
        for name in ABSENT.iter().flat_map(|(names, _)| names.iter()) {
            assert!(seen.insert(name), "{name} is listed twice");
            assert!(
                crate::builtins::lookup(name).is_none(),
                "{name} is a function"
            );
            let mut forms = crate::analyze::special_forms().iter();
            assert!(forms.all(|form| form.name != *name), "{name} is a form");
        }
        assert!(seen.len() >= 250);
    }
}
