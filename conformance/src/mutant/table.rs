//! The mutants of protocol and language, one row each: what it is called, which clause it breaks, and how.
//! The functions that rewrite replies stand below the table, in its order.

use crate::json::Json;

use super::edit::{self, at, remove, set};
use super::{Mutant, Mutation, Stream, over_stdio as row};

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

/// Servers that are right in another way than the reference: nothing may catch them.
pub const HARMLESS: &[Mutant] = &[row(
    "kinds-in-blanks",
    "errors.*",
    Mutation::Payload(kinds_in_blanks),
)];

/// The mutants of protocol and language. Those of protocol and profiles come first, then printing and limits, then one a builtin or form.
pub const MUTANTS: &[Mutant] = &[
    // Framing and the stream of replies.
    row(
        "extra-line",
        "mcp.framing.stdout.frames",
        Mutation::Stream(Stream::ExtraLine),
    ),
    row(
        "banner",
        "mcp.framing.stdout.frames",
        Mutation::Stream(Stream::Banner),
    ),
    row(
        "blank-line",
        "mcp.framing.stdout.frames",
        Mutation::Stream(Stream::BlankLine),
    ),
    row(
        "twice",
        "mcp.framing.stdout.once",
        Mutation::Stream(Stream::Twice),
    ),
    row(
        "lost",
        "mcp.framing.stdout.once",
        Mutation::Stream(Stream::Lost),
    ),
    row(
        "swapped-ids",
        "mcp.concurrency.order.own",
        Mutation::Stream(Stream::SwappedIds),
    ),
    row(
        "in-order-only",
        "mcp.concurrency.order.completion",
        Mutation::Stream(Stream::Unbroken),
    ),
    row(
        "answers-notifications",
        "mcp.dispatch.notifications.silent",
        Mutation::Stream(Stream::AnswersNotifications),
    ),
    row(
        "answers-cancelled",
        "mcp.concurrency.cancel.stdio",
        Mutation::Stream(Stream::AnswersCancelled),
    ),
    row(
        "dies-on-garbage",
        "mcp.framing.malformed.reply",
        Mutation::Stream(Stream::DiesOnGarbage),
    ),
    row(
        "silent-on-garbage",
        "mcp.framing.malformed.reply",
        Mutation::Stream(Stream::SilentOnGarbage),
    ),
    row(
        "exit-status",
        "mcp.lifecycle.end.exit",
        Mutation::Stream(Stream::ExitStatus(3)),
    ),
    row(
        "lingers",
        "mcp.lifecycle.end.eof",
        Mutation::Stream(Stream::Lingers),
    ),
    row(
        "text-ids",
        "mcp.dispatch.ids.echo",
        Mutation::Reply(text_ids),
    ),
    row(
        "no-jsonrpc",
        "mcp.dispatch.methods.ping",
        Mutation::Reply(no_jsonrpc),
    ),
    // Errors of the protocol.
    row(
        "parse-error-code",
        "mcp.framing.malformed.reply",
        Mutation::Reply(parse_error_code),
    ),
    row(
        "unknown-method-code",
        "mcp.dispatch.methods.unknown",
        Mutation::Reply(unknown_method_code),
    ),
    row(
        "errors-as-results",
        "mcp.dispatch.methods.unknown",
        Mutation::Reply(errors_as_results),
    ),
    row(
        "unknown-tool-as-error",
        "mcp.dispatch.tools.unknown",
        Mutation::Reply(unknown_tool_as_error),
    ),
    row(
        "invalid-params-code",
        "mcp.dispatch.methods.params",
        Mutation::Reply(invalid_params_code),
    ),
    // The handshake.
    row(
        "old-version",
        "mcp.lifecycle.initialize.versions",
        Mutation::Reply(old_version),
    ),
    row(
        "other-name",
        "mcp.lifecycle.initialize.result",
        Mutation::Reply(other_name),
    ),
    row(
        "no-tools-capability",
        "mcp.lifecycle.initialize.result",
        Mutation::Reply(no_tools_capability),
    ),
    row(
        "ping-refused",
        "mcp.dispatch.methods.ping",
        Mutation::Reply(ping_refused),
    ),
    row(
        "shutdown-answers-object",
        "mcp.lifecycle.shutdown.drains",
        Mutation::Reply(shutdown_object),
    ),
    row(
        "tools-without-schema",
        "mcp.lisp_eval.tool.listed",
        Mutation::Reply(tools_without_schema),
    ),
    row(
        "annotations-writable",
        "mcp.lisp_eval.tool.listed",
        Mutation::Reply(annotations_writable),
    ),
    // Calls, their arguments and their results.
    row(
        "wrong-result",
        "mcp.profiles.slim.text",
        Mutation::Printed(one_more),
    ),
    row(
        "no-is-error",
        "mcp.profiles.slim.text",
        Mutation::Reply(no_is_error),
    ),
    row(
        "is-error-false",
        "mcp.profiles.structured.refusals",
        Mutation::Reply(is_error_false),
    ),
    row(
        "two-blocks",
        "mcp.profiles.slim.text",
        Mutation::Reply(two_blocks),
    ),
    row(
        "context-lost",
        "mcp.lisp_eval.context.bound",
        Mutation::Request(context_lost),
    ),
    row(
        "context-keys-free",
        "mcp.lisp_eval.arguments.slash",
        Mutation::Request(context_keys_free),
    ),
    row(
        "schema-ignored",
        "mcp.profiles.validated.mismatch",
        Mutation::Request(schema_ignored),
    ),
    row(
        "validated-partial",
        "mcp.profiles.validated.exact",
        Mutation::Payload(validated_partial),
    ),
    row(
        "validated-as-text",
        "mcp.profiles.validated.exact",
        Mutation::Payload(validated_as_text),
    ),
    row(
        "remembers",
        "mcp.lisp_eval.isolation.definitions",
        Mutation::Remembers,
    ),
    row(
        "blank-program-runs",
        "mcp.lisp_eval.arguments.order",
        Mutation::Request(blank_program_runs),
    ),
    // Profiles.
    row(
        "slim-leaks",
        "mcp.profiles.slim.text",
        Mutation::Reply(slim_leaks),
    ),
    row(
        "slim-schema",
        "mcp.lisp_eval.tool.listed",
        Mutation::Reply(slim_schema),
    ),
    row(
        "structured-prints",
        "mcp.profiles.structured.object",
        Mutation::Reply(structured_prints),
    ),
    row(
        "mirror-differs",
        "mcp.profiles.debug.object",
        Mutation::Reply(mirror_differs),
    ),
    row(
        "prints-lost",
        "printing.println.line",
        Mutation::Payload(prints_lost),
    ),
    row(
        "feedback-lost",
        "mcp.profiles.debug.object",
        Mutation::Payload(feedback_lost),
    ),
    // Limits of the server.
    row(
        "program-bytes-off-by-one",
        "mcp.lisp_eval.caps.program",
        Mutation::Flag("--max-program-bytes", "65537"),
    ),
    row(
        "program-bytes-one-less",
        "mcp.lisp_eval.caps.program",
        Mutation::Flag("--max-program-bytes", "65535"),
    ),
    row(
        "frame-bytes-off-by-one",
        "mcp.framing.cap.exact",
        Mutation::Flag("--max-frame-bytes", "8388609"),
    ),
    row(
        "one-call-at-a-time",
        "mcp.concurrency.order.completion",
        Mutation::Flag("--max-concurrent-calls", "1"),
    ),
    row(
        "too-many-calls",
        "mcp.concurrency.gate.busy",
        Mutation::Flag("--max-concurrent-calls", "8"),
    ),
    row(
        "slow-clock",
        "limits.time.wall-clock",
        Mutation::Flag("--program-timeout-ms", "20000"),
    ),
    row(
        "much-memory",
        "limits.memory.heap",
        Mutation::Flag("--program-memory-limit-bytes", "4000000000"),
    ),
    row(
        "little-memory",
        "limits.memory.enough",
        Mutation::Flag("--program-memory-limit-bytes", "20000"),
    ),
    row(
        "timeout-as-runtime-error",
        "limits.time.wall-clock",
        Mutation::Payload(timeout_as_runtime_error),
    ),
    row(
        "memory-as-timeout",
        "limits.memory.heap",
        Mutation::Payload(memory_as_timeout),
    ),
    // Errors of programs.
    row(
        "parse-as-runtime-error",
        "errors.reasons.reader",
        Mutation::Payload(parse_as_runtime_error),
    ),
    row(
        "kind-lost",
        "errors.reasons.kinds",
        Mutation::Payload(kind_lost),
    ),
    row(
        "message-of-elixir",
        "errors.words.host",
        Mutation::Payload(message_of_elixir),
    ),
    row(
        "message-of-rust",
        "errors.words.host",
        Mutation::Payload(message_of_rust),
    ),
    row(
        "message-of-python",
        "errors.words.host",
        Mutation::Payload(message_of_python),
    ),
    row(
        "arity-as-type-error",
        "errors.arity.builtins",
        Mutation::Payload(arity_as_type_error),
    ),
    row(
        "type-as-arity-error",
        "errors.type.kinds",
        Mutation::Payload(type_as_arity_error),
    ),
    row(
        "failed-value-lost",
        "control.fail.ends",
        Mutation::Payload(failed_value_lost),
    ),
    row(
        "fail-as-runtime-error",
        "control.fail",
        Mutation::Payload(fail_as_runtime_error),
    ),
    // Printing.
    row(
        "nil-as-null",
        "printing.vectors",
        Mutation::Printed(|text| text.replace("nil", "null")),
    ),
    row(
        "commas-in-maps",
        "printing.maps.entries",
        Mutation::Printed(commas),
    ),
    row(
        "lists-for-vectors",
        "printing.vectors.items",
        Mutation::Printed(|text| text.replace('[', "(").replace(']', ")")),
    ),
    row(
        "braces-for-sets",
        "printing.sets.members",
        Mutation::Printed(|text| text.replace("#{", "{")),
    ),
    row(
        "keywords-bare",
        "printing.scalars.names",
        Mutation::Printed(|text| text.replace(':', "")),
    ),
    row(
        "points-dropped",
        "printing.floats.point",
        Mutation::Printed(|text| text.replace(".0", "")),
    ),
    row(
        "floats-cut",
        "printing.floats.shortest",
        Mutation::Printed(|text| text.chars().take(8).collect()),
    ),
    row(
        "exponents-upper-case",
        "printing.floats.notation",
        Mutation::Printed(|text| text.replace('e', "E")),
    ),
    row(
        "infinity-in-words",
        "printing.floats.special",
        Mutation::Printed(|text| text.replace("##Inf", "Infinity")),
    ),
    row(
        "strings-bare",
        "printing.strings.readable",
        Mutation::Printed(|text| text.replace('"', "")),
    ),
    row(
        "escapes-doubled",
        "printing.strings.readable",
        Mutation::Printed(|text| text.replace('\\', "\\\\")),
    ),
    row(
        "maps-backwards",
        "printing.maps.order",
        Mutation::Printed(backwards),
    ),
    row(
        "regex-bare",
        "printing.regex.readable",
        Mutation::Printed(|text| text.replace("#\"", "\"")),
    ),
    row(
        "functions-as-addresses",
        "printing.functions.name",
        Mutation::Printed(|text| text.replace("#fn[", "#object[0x7f.")),
    ),
    row(
        "vars-bare",
        "printing.vars.name",
        Mutation::Printed(|text| text.replace("#'", "")),
    ),
    row(
        "cut-unmarked",
        "printing.truncation.items",
        Mutation::Payload(cut_unmarked),
    ),
    row(
        "cut-earlier",
        "printing.truncation.graphemes",
        Mutation::Printed(|text| text.chars().take(240).collect()),
    ),
    row(
        "always-cut",
        "printing.integers",
        Mutation::Payload(always_cut),
    ),
    row(
        "digits-lost",
        "printing.integers.digits",
        Mutation::Printed(|text| text.chars().take(15).collect()),
    ),
    // The reader.
    row(
        "commas-count",
        "reader.whitespace.blank",
        Mutation::Program(|text| text.replace(',', " nil ")),
    ),
    row(
        "comments-count",
        "reader.whitespace.comment",
        Mutation::Program(|text| text.replace(';', " ")),
    ),
    row(
        "discards-kept",
        "reader.discard.form",
        Mutation::Program(|text| text.replace("#_", "")),
    ),
    row(
        "stray-closers-ignored",
        "reader.brackets.stray",
        Mutation::Program(stray_closers_ignored),
    ),
    row(
        "unclosed-closed",
        "reader.brackets.unclosed",
        Mutation::Program(|text| format!("{text})")),
    ),
    row(
        "ratios-read",
        "reader.numbers.malformed",
        Mutation::Program(|text| text.replace("1/2", "0.5")),
    ),
    row(
        "hex-read",
        "reader.numbers.malformed",
        Mutation::Program(|text| text.replace("0x1F", "31")),
    ),
    row(
        "quotes-dropped",
        "reader.quote.symbol",
        Mutation::Program(|text| text.replace('\'', "")),
    ),
    row(
        "sets-as-maps",
        "reader.collections.kinds",
        Mutation::Program(|text| text.replace("#{", "{")),
    ),
    row(
        "last-form-only",
        "control.programs",
        Mutation::Program(|text| format!("(do {text}\n nil)")),
    ),
    row(
        "first-form-only",
        "reader.programs.last",
        Mutation::Program(|text| format!("{text}\n 0")),
    ),
    // Builtins and forms: each is taken for a near one.
    taken!("seqs.first", "first", "last"),
    taken!("seqs.second", "second", "first"),
    taken!("seqs.last", "last", "first"),
    taken!("seqs.rest", "rest", "next"),
    taken!("seqs.next", "next", "rest"),
    taken!("seqs.ffirst", "ffirst", "first"),
    taken!("seqs.fnext", "fnext", "first"),
    taken!("seqs.nfirst", "nfirst", "ffirst"),
    taken!("seqs.nnext", "nnext", "next"),
    taken!("seqs.nth", "nth", "last"),
    taken!("seqs.nthnext", "nthnext", "nthrest"),
    taken!("seqs.nthrest", "nthrest", "nthnext"),
    taken!("seqs.take", "take", "drop"),
    taken!("seqs.drop", "drop", "take"),
    taken!("seqs.take-last", "take-last", "drop-last"),
    taken!("seqs.take-while", "take-while", "drop-while"),
    taken!("seqs.drop-while", "drop-while", "take-while"),
    taken!("seqs.drop-last", "drop-last", "take-last"),
    taken!("seqs.butlast", "butlast", "rest"),
    taken!("seqs.split-at", "split-at", "take"),
    taken!("seqs.split-with", "split-with", "filter"),
    taken!("seqs.filter", "filter", "remove"),
    taken!("seqs.remove", "remove", "filter"),
    taken!("seqs.filterv", "filterv", "mapv"),
    taken!("seqs.keep", "keep", "map"),
    taken!("seqs.keep-indexed", "keep-indexed", "map-indexed"),
    taken!("seqs.map", "map", "mapcat"),
    taken!("seqs.mapv", "mapv", "mapcat"),
    taken!("seqs.mapcat", "mapcat", "map"),
    taken!("seqs.map-indexed", "map-indexed", "keep-indexed"),
    taken!("seqs.reduce", "reduce", "apply"),
    taken!("seqs.concat", "concat", "interleave"),
    taken!("seqs.cons", "cons", "conj"),
    taken!("seqs.conj", "conj", "cons"),
    taken!("seqs.count", "count", "first"),
    taken!("seqs.dedupe", "dedupe", "distinct"),
    taken!("seqs.distinct", "distinct", "dedupe"),
    taken!("seqs.distinct?", "distinct?", "empty?"),
    taken!("seqs.empty?", "empty?", "seq"),
    taken!("seqs.every?", "every?", "some"),
    taken!("seqs.some", "some", "every?"),
    taken!("seqs.not-any?", "not-any?", "not-every?"),
    taken!("seqs.not-every?", "not-every?", "not-any?"),
    taken!("seqs.not-empty", "not-empty", "seq"),
    taken!("seqs.flatten", "flatten", "vec"),
    taken!("seqs.frequencies", "frequencies", "distinct"),
    taken!("seqs.group-by", "group-by", "partition-by"),
    taken!("seqs.interleave", "interleave", "concat"),
    taken!("seqs.interpose", "interpose", "interleave"),
    taken!("seqs.into", "into", "concat"),
    taken!("seqs.partition", "partition", "partition-all"),
    taken!("seqs.partition-all", "partition-all", "partition"),
    taken!("seqs.partition-by", "partition-by", "group-by"),
    taken!("seqs.peek", "peek", "first"),
    taken!("seqs.pop", "pop", "rest"),
    taken!("seqs.range", "range", "list"),
    taken!("seqs.reverse", "reverse", "vec"),
    taken!("seqs.seq", "seq", "vec"),
    taken!("seqs.subvec", "subvec", "nth"),
    taken!("seqs.vec", "vec", "set"),
    taken!("seqs.zip", "zip", "concat"),
    taken!("seqs.combinations", "combinations", "partition"),
    taken!("seqs.list", "list", "set"),
    taken!("seqs.empty", "empty", "vec"),
    taken!("maps.assoc", "assoc", "dissoc"),
    taken!("maps.dissoc", "dissoc", "select-keys"),
    taken!("maps.keys", "keys", "vals"),
    taken!("maps.vals", "vals", "keys"),
    taken!("maps.merge", "merge", "concat"),
    taken!("maps.get", "get", "nth"),
    taken!("maps.get-in", "get-in", "get"),
    taken!("maps.contains?", "contains?", "get"),
    taken!("maps.find", "find", "get"),
    taken!("maps.select-keys", "select-keys", "dissoc"),
    taken!("maps.update", "update", "assoc"),
    taken!("maps.update-vals", "update-vals", "update-keys"),
    taken!("maps.update-keys", "update-keys", "update-vals"),
    taken!("maps.zipmap", "zipmap", "interleave"),
    taken!("maps.key", "key", "val"),
    taken!("maps.val", "val", "key"),
    taken!("maps.entries", "entries", "keys"),
    taken!("maps.assoc-in", "assoc-in", "assoc"),
    taken!("maps.reduce-kv", "reduce-kv", "reduce"),
    taken!("sets.union", "union", "intersection"),
    taken!("sets.intersection", "intersection", "union"),
    taken!("sets.difference", "difference", "union"),
    taken!("sets.disj", "disj", "conj"),
    taken!("sets.set", "set", "vec"),
    taken!("strings.upper-case", "upper-case", "lower-case"),
    taken!("strings.lower-case", "lower-case", "upper-case"),
    taken!("strings.trim", "trim", "triml"),
    taken!("strings.triml", "triml", "trimr"),
    taken!("strings.trimr", "trimr", "triml"),
    taken!("strings.blank?", "blank?", "empty?"),
    taken!("strings.starts-with?", "starts-with?", "ends-with?"),
    taken!("strings.ends-with?", "ends-with?", "starts-with?"),
    taken!("strings.includes?", "includes?", "starts-with?"),
    taken!("strings.index-of", "index-of", "last-index-of"),
    taken!("strings.last-index-of", "last-index-of", "index-of"),
    taken!("strings.join", "join", "str"),
    taken!("strings.replace", "replace", "str"),
    taken!("strings.subs", "subs", "str"),
    taken!("strings.str", "str", "pr-str"),
    taken!("strings.name", "name", "str"),
    taken!("strings.split-lines", "split-lines", "vector"),
    taken!("strings.pr-str", "pr-str", "str"),
    taken!("strings.trim-newline", "trim-newline", "trim"),
    taken!("numbers.+", "+", "-"),
    taken!("numbers.-", "-", "+"),
    taken!("numbers.*", "*", "+"),
    taken!("numbers./", "/", "*"),
    taken!("numbers.inc", "inc", "dec"),
    taken!("numbers.dec", "dec", "inc"),
    taken!("numbers.abs", "abs", "-"),
    taken!("numbers.ceil", "ceil", "floor"),
    taken!("numbers.floor", "floor", "ceil"),
    taken!("numbers.round", "round", "floor"),
    taken!("numbers.trunc", "trunc", "floor"),
    taken!("numbers.max", "max", "min"),
    taken!("numbers.min", "min", "max"),
    taken!("numbers.mod", "mod", "rem"),
    taken!("numbers.rem", "rem", "mod"),
    taken!("numbers.quot", "quot", "/"),
    taken!("numbers.sqrt", "sqrt", "abs"),
    taken!("numbers.pow", "pow", "*"),
    taken!("numbers.parse-long", "parse-long", "parse-double"),
    taken!("numbers.parse-double", "parse-double", "parse-long"),
    taken!("numbers.int", "int", "double"),
    taken!("numbers.double", "double", "int"),
    taken!("order.<", "<", "<="),
    taken!("order.<=", "<=", "<"),
    taken!("order.>", ">", ">="),
    taken!("order.>=", ">=", ">"),
    taken!("order.==", "==", "not="),
    taken!("order.not=", "not=", "="),
    taken!("order.compare", "compare", "-"),
    taken!("order.sort", "sort", "reverse"),
    taken!("order.sort-by", "sort-by", "map"),
    taken!("predicates.even?", "even?", "odd?"),
    taken!("predicates.odd?", "odd?", "even?"),
    taken!("predicates.pos?", "pos?", "neg?"),
    taken!("predicates.neg?", "neg?", "pos?"),
    taken!("predicates.nil?", "nil?", "some?"),
    taken!("predicates.some?", "some?", "nil?"),
    taken!("predicates.number?", "number?", "int?"),
    taken!("predicates.int?", "int?", "number?"),
    taken!("predicates.string?", "string?", "keyword?"),
    taken!("predicates.keyword?", "keyword?", "string?"),
    taken!("predicates.map?", "map?", "coll?"),
    taken!("predicates.set?", "set?", "coll?"),
    taken!("predicates.vector?", "vector?", "coll?"),
    taken!("predicates.coll?", "coll?", "vector?"),
    taken!("predicates.zero?", "zero?", "pos?"),
    taken!("predicates.true?", "true?", "false?"),
    taken!("predicates.false?", "false?", "true?"),
    taken!("predicates.sequential?", "sequential?", "coll?"),
    taken!("bits.bit-and", "bit-and", "bit-or"),
    taken!("bits.bit-or", "bit-or", "bit-xor"),
    taken!("bits.bit-xor", "bit-xor", "bit-or"),
    taken!("bits.bit-shift-left", "bit-shift-left", "bit-shift-right"),
    taken!("bits.bit-shift-right", "bit-shift-right", "bit-shift-left"),
    taken!("bits.bit-not", "bit-not", "-"),
    taken!("bits.bit-set", "bit-set", "bit-clear"),
    taken!("bits.bit-clear", "bit-clear", "bit-set"),
    taken!("bits.bit-flip", "bit-flip", "bit-set"),
    taken!("bits.bit-test", "bit-test", "bit-and"),
    taken!("bits.bit-and-not", "bit-and-not", "bit-and"),
    taken!("functions.comp", "comp", "juxt"),
    taken!("functions.complement", "complement", "identity"),
    taken!("functions.constantly", "constantly", "identity"),
    taken!("functions.partial", "partial", "comp"),
    taken!("functions.juxt", "juxt", "comp"),
    taken!("functions.every-pred", "every-pred", "some-fn"),
    taken!("functions.some-fn", "some-fn", "every-pred"),
    taken!("functions.fnil", "fnil", "partial"),
    taken!("functions.pcalls", "pcalls", "vector"),
    taken!("functions.pmap", "pmap", "mapcat"),
    taken!("aggregates.sum", "sum", "count"),
    taken!("aggregates.avg", "avg", "sum"),
    taken!("aggregates.min-by", "min-by", "max-by"),
    taken!("aggregates.max-by", "max-by", "min-by"),
    taken!("aggregates.sum-by", "sum-by", "avg-by"),
    taken!("aggregates.avg-by", "avg-by", "sum-by"),
    taken!("aggregates.distinct-by", "distinct-by", "group-by"),
    taken!("aggregates.min-key", "min-key", "max-key"),
    taken!("aggregates.max-key", "max-key", "min-key"),
    taken!("regex.re-find", "re-find", "re-matches"),
    taken!("regex.re-matches", "re-matches", "re-find"),
    taken!("regex.re-seq", "re-seq", "re-find"),
    taken!("regex.re-split", "re-split", "re-seq"),
    taken!("regex.extract", "extract", "re-find"),
    taken!("regex.extract-int", "extract-int", "extract"),
    taken!("json.parse-string", "parse-string", "identity"),
    taken!("json.generate-string", "generate-string", "pr-str"),
    taken!("walk.postwalk", "postwalk", "prewalk"),
    taken!("walk.prewalk", "prewalk", "postwalk"),
    taken!("core.identity", "identity", "vector"),
    taken!("core.not", "not", "boolean"),
    taken!("core.boolean", "boolean", "not"),
    taken!("core.type", "type", "identity"),
    taken!("forms.if", "if", "if-not"),
    taken!("forms.if-not", "if-not", "if"),
    taken!("forms.when", "when", "when-not"),
    taken!("forms.when-not", "when-not", "when"),
    taken!("forms.and", "and", "or"),
    taken!("forms.or", "or", "and"),
    taken!("forms.let", "let", "do"),
    taken!("forms.thread-first", "->", "->>"),
    taken!("forms.thread-last", "->>", "->"),
    taken!("forms.some-thread", "some->", "->"),
    taken!("forms.if-let", "if-let", "if-some"),
    taken!("forms.if-some", "if-some", "if-let"),
    taken!("forms.when-let", "when-let", "when-some"),
    taken!("forms.when-some", "when-some", "when-let"),
    taken!("forms.do", "do", "vector"),
    taken!("forms.for", "for", "doseq"),
    taken!("forms.doseq", "doseq", "for"),
    taken!("forms.comment", "comment", "do"),
    taken!("forms.cond-thread", "cond->", "->"),
    taken!("forms.defonce", "defonce", "def"),
    taken!("forms.defn", "defn", "def"),
    taken!("forms.as-thread", "as->", "->"),
    taken!("control.apply", "apply", "list"),
    taken!("control.return", "return", "identity"),
    taken!("control.fail", "fail", "return"),
    taken!("time.plusDays", ".plusDays", ".minusDays"),
    taken!("time.minusDays", ".minusDays", ".plusDays"),
    taken!("time.isBefore", ".isBefore", ".isAfter"),
    taken!("time.isAfter", ".isAfter", ".isBefore"),
    taken!("interop.startsWith", ".startsWith", ".endsWith"),
    taken!("interop.toUpperCase", ".toUpperCase", ".toLowerCase"),
    taken!("interop.indexOf", ".indexOf", ".lastIndexOf"),
    taken!("printing.println", "println", "str"),
    taken!("tasks.step-done", "step-done", "task-reset"),
];

fn text_ids(frame: &mut Json, _method: &str) {
    if let Some(id @ Json::Number(_)) = at(frame, &["id"]) {
        *id = Json::from(id.to_string());
    }
}

fn no_jsonrpc(frame: &mut Json, _method: &str) {
    remove(frame, &[], "jsonrpc");
}

fn code(frame: &mut Json, from: i64, to: i64) {
    if let Some(code) = at(frame, &["error", "code"]).filter(|code| code.as_i64() == Some(from)) {
        *code = Json::from(to);
    }
}

fn parse_error_code(frame: &mut Json, _method: &str) {
    code(frame, -32700, -32600);
}

fn unknown_method_code(frame: &mut Json, _method: &str) {
    code(frame, -32601, -32600);
}

fn invalid_params_code(frame: &mut Json, _method: &str) {
    code(frame, -32602, -32603);
}

fn errors_as_results(frame: &mut Json, _method: &str) {
    if let Some(error) = remove(frame, &[], "error") {
        set(frame, &[], "result", error);
    }
}

fn unknown_tool_as_error(frame: &mut Json, _method: &str) {
    let reason = at(frame, &["result", "structuredContent", "reason"])
        .and_then(|reason| reason.as_str().map(str::to_owned));
    if reason.as_deref() == Some("unknown_tool") {
        remove(frame, &[], "result");
        let error = [
            ("code", Json::from(-32602)),
            ("message", Json::from("Unknown tool")),
        ];
        set(frame, &[], "error", Json::object(error));
    }
}

fn old_version(frame: &mut Json, method: &str) {
    if method == "initialize" {
        set(
            frame,
            &["result"],
            "protocolVersion",
            Json::from("2024-11-05"),
        );
    }
}

fn other_name(frame: &mut Json, _method: &str) {
    set(frame, &["result", "serverInfo"], "name", Json::from("ptc"));
}

fn no_tools_capability(frame: &mut Json, _method: &str) {
    remove(frame, &["result", "capabilities"], "tools");
}

fn ping_refused(frame: &mut Json, method: &str) {
    if method == "ping" {
        remove(frame, &[], "result");
        let error = [
            ("code", Json::from(-32601)),
            ("message", Json::from("Method not found")),
        ];
        set(frame, &[], "error", Json::object(error));
    }
}

fn shutdown_object(frame: &mut Json, method: &str) {
    if method == "shutdown" {
        set(frame, &[], "result", Json::object::<&str>([]));
    }
}

fn each_tool(frame: &mut Json, method: &str, edit: fn(&mut Json)) {
    if method == "tools/list"
        && let Some(Json::Array(tools)) = at(frame, &["result", "tools"])
    {
        tools.iter_mut().for_each(edit);
    }
}

fn tools_without_schema(frame: &mut Json, method: &str) {
    each_tool(frame, method, |tool| {
        remove(tool, &[], "inputSchema");
    });
}

fn annotations_writable(frame: &mut Json, method: &str) {
    each_tool(frame, method, |tool| {
        set(tool, &["annotations"], "readOnlyHint", Json::from(false))
    });
}

fn one_more(text: &str) -> String {
    match text.parse::<i64>() {
        Ok(number) => number.wrapping_add(1).to_string(),
        Err(_) => text.to_owned(),
    }
}

fn no_is_error(frame: &mut Json, _method: &str) {
    remove(frame, &["result"], "isError");
}

fn is_error_false(frame: &mut Json, _method: &str) {
    if at(frame, &["result", "isError"]).is_some() {
        set(frame, &["result"], "isError", Json::from(false));
    }
}

fn two_blocks(frame: &mut Json, _method: &str) {
    if let Some(Json::Array(blocks)) = at(frame, &["result", "content"]) {
        let again = blocks.clone();
        blocks.extend(again);
    }
}

fn context_lost(frame: &mut Json) {
    remove(frame, &["params", "arguments"], "context");
}

fn context_keys_free(frame: &mut Json) {
    if let Some(Json::Object(members)) = at(frame, &["params", "arguments", "context"]) {
        members.retain(|key, _| !key.is_empty() && !key.contains('/'));
    }
}

fn schema_ignored(frame: &mut Json) {
    remove(frame, &["params", "arguments"], "output_schema");
}

fn validated_partial(payload: &mut Json) {
    match at(payload, &["validated"]) {
        Some(Json::Array(items)) => {
            items.pop();
        }
        Some(Json::Object(members)) => {
            members.pop();
        }
        _ => {}
    }
}

fn validated_as_text(payload: &mut Json) {
    if let Some(value) = at(payload, &["validated"]) {
        *value = Json::from(value.to_string());
    }
}

fn blank_program_runs(frame: &mut Json) {
    edit::program(frame, |text| {
        if text.trim().is_empty() {
            "nil".to_owned()
        } else {
            text.to_owned()
        }
    });
}

fn slim_leaks(frame: &mut Json, method: &str) {
    if method == "tools/call" && at(frame, &["result", "structuredContent"]).is_none() {
        let payload = Json::object([("status", Json::from("ok"))]);
        set(frame, &["result"], "structuredContent", payload);
    }
}

fn slim_schema(frame: &mut Json, method: &str) {
    each_tool(frame, method, |tool| {
        if tool.get("outputSchema").is_none() {
            set(
                tool,
                &[],
                "outputSchema",
                Json::object([("type", Json::from("object"))]),
            );
        }
    });
}

fn structured_prints(frame: &mut Json, method: &str) {
    if method == "tools/call" && at(frame, &["result", "structuredContent", "prints"]).is_none() {
        set(
            frame,
            &["result", "structuredContent"],
            "prints",
            Json::Array(Vec::new()),
        );
    }
}

fn mirror_differs(frame: &mut Json, method: &str) {
    if method == "tools/call"
        && let Some(Json::String(text)) = edit::text_block(frame)
        && text.starts_with('{')
    {
        *text = "{}".to_owned();
    }
}

fn prints_lost(payload: &mut Json) {
    if let Some(Json::Array(prints)) = at(payload, &["prints"]) {
        prints.clear();
    }
}

fn feedback_lost(payload: &mut Json) {
    remove(payload, &[], "feedback");
}

fn reason(payload: &mut Json, from: &str, to: &str) {
    if let Some(Json::String(reason)) = at(payload, &["reason"])
        && reason == from
    {
        to.clone_into(reason);
    }
}

fn timeout_as_runtime_error(payload: &mut Json) {
    reason(payload, "timeout", "runtime_error");
}

fn memory_as_timeout(payload: &mut Json) {
    reason(payload, "memory_limit", "timeout");
}

fn parse_as_runtime_error(payload: &mut Json) {
    reason(payload, "parse_error", "runtime_error");
}

fn fail_as_runtime_error(payload: &mut Json) {
    reason(payload, "fail", "runtime_error");
}

fn kind(payload: &mut Json, from: &str, to: &str) {
    if let Some(Json::String(message)) = at(payload, &["message"]) {
        *message = message.replace(from, to);
    }
}

fn kinds_in_blanks(payload: &mut Json) {
    for (kind, apart) in [
        ("arity_error: ", "arity error: "),
        ("type_error: ", "type error: "),
    ] {
        self::kind(payload, kind, apart);
    }
}

fn kind_lost(payload: &mut Json) {
    for prefix in [
        "type_error: ",
        "arity_error: ",
        "arithmetic_error: ",
        "destructure_error: ",
    ] {
        kind(payload, prefix, "");
    }
}

/// Adds to the message, so that its beginning stays as cases expect it.
fn more_words(payload: &mut Json, words: &str) {
    if let Some(Json::String(message)) = at(payload, &["message"]) {
        message.push_str(words);
    }
}

fn message_of_elixir(payload: &mut Json) {
    more_words(payload, ", got %{name: :filter}");
}

fn message_of_rust(payload: &mut Json) {
    more_words(payload, ", got Some(Value)");
}

fn message_of_python(payload: &mut Json) {
    more_words(payload, "\nTraceback (most recent call last): KeyError");
}

fn arity_as_type_error(payload: &mut Json) {
    kind(payload, "arity_error: ", "type_error: ");
}

fn type_as_arity_error(payload: &mut Json) {
    kind(payload, "type_error: ", "arity_error: ");
}

fn failed_value_lost(payload: &mut Json) {
    if payload.get("reason").and_then(Json::as_str) == Some("fail") {
        remove(payload, &[], "result");
    }
}

fn commas(text: &str) -> String {
    let mut depth = 0_usize;
    let mut gaps = 0_usize;
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '{' => (depth, gaps) = (depth + 1, 0),
            '}' => depth = depth.saturating_sub(1),
            ' ' if depth == 1 => {
                gaps += 1;
                if gaps.is_multiple_of(2) {
                    out.push(',');
                }
            }
            _ => {}
        }
        out.push(character);
    }
    out
}

/// The entries of a flat map, last one first.
fn backwards(text: &str) -> String {
    let Some(inner) = text
        .strip_prefix('{')
        .and_then(|text| text.strip_suffix('}'))
    else {
        return text.to_owned();
    };
    let words: Vec<&str> = inner.split(' ').collect();
    let entries: Vec<String> = words.chunks(2).rev().map(|entry| entry.join(" ")).collect();
    format!("{{{}}}", entries.join(" "))
}

fn cut_unmarked(payload: &mut Json) {
    if at(payload, &["truncated"]).is_some() {
        set(payload, &[], "truncated", Json::from(false));
    }
}

fn always_cut(payload: &mut Json) {
    set(payload, &[], "truncated", Json::from(true));
}

/// Drops the last closing bracket when there are more closing ones than opening ones.
fn stray_closers_ignored(text: &str) -> String {
    let count = |brackets: &[char]| {
        text.chars()
            .filter(|character| brackets.contains(character))
            .count()
    };
    let mut text_out = text.to_owned();
    if count(&[')', ']', '}']) > count(&['(', '[', '{'])
        && let Some(last) = text.rfind([')', ']', '}'])
    {
        text_out.remove(last);
    }
    text_out
}
