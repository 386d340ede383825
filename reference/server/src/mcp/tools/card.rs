//! The tools' descriptions of themselves and of the language, for models. Our own words, pinned by golden files, not by the spec.

use crate::settings::ResponseProfile;
use ptc_protocol::{Profile, tool_description};
use ptc_secrets::Scrubbed;
use ptc_upstream::Runtime;

/// The note about the response profile in the description of `lisp_eval`; empty for `debug`.
pub fn profile_note(profile: ResponseProfile) -> &'static str {
    match profile {
        ResponseProfile::Slim => {
            "Response profile: slim. The answer is plain text in content[0].text; neither structuredContent nor \
             an outputSchema is returned. Start the server with --response-profile structured for machine-readable \
             results, or with --debug-tool for diagnostics."
        }
        ResponseProfile::Structured => {
            "Response profile: structured. A compact structuredContent comes with the text; fields that only serve \
             debugging are left out."
        }
        ResponseProfile::Debug => "",
    }
}

/// The language in brief.
pub const LANGUAGE: &str = "\
PTC-Lisp is a subset of Clojure. One or more top-level forms; the value of the last one is the result.
- Data: nil, booleans, numbers, strings, keywords, vectors, maps, sets. JSON objects arrive as maps with string keys; `(:k m)` finds `\"k\"` too.
- Forms: let, if, when, cond, case, fn, #(...), defn, loop/recur, for, doseq, ->, ->>, destructuring.
- Libraries: clojure.core basics, clojure.string as str/*, clojure.set as set/*, json/*, dates, parse-*, format, regex.
- Parallel: pmap, pcalls. End early with (return v), or with an error value by (fail v).
- See shapes with println, keys, type; look things up with (apropos \"text\"), (doc 'name), (dir 'ns), (meta 'name).
- Not there: files, network, processes, macros, ns/require, atoms, Java classes, sorted-map.";

/// The description of `lisp_eval`.
pub fn lisp_eval(profile: ResponseProfile, upstreams: Option<&Runtime>) -> Scrubbed<String> {
    describe(
        profile,
        upstreams,
        tool_description(Profile::McpNoTools),
        ONE_SHOT_WITH_UPSTREAMS,
    )
}

/// The description of `lisp_session_eval`.
pub fn session_eval(profile: ResponseProfile, upstreams: Option<&Runtime>) -> Scrubbed<String> {
    describe(profile, upstreams, SESSION, SESSION)
}

/// Without upstreams the profile note comes first. With upstreams the discovery hint does; catalog and note follow later.
fn describe(
    profile: ResponseProfile,
    upstreams: Option<&Runtime>,
    alone: &'static str,
    with_upstreams: &'static str,
) -> Scrubbed<String> {
    let note = profile_note(profile);
    let parts: Vec<Scrubbed<String>> = match upstreams {
        None => vec![note.into(), alone.into(), LANGUAGE.into()],
        Some(upstreams) => {
            let faults = match profile {
                ResponseProfile::Slim => WORLD_FAULTS,
                _ => "",
            };
            vec![
                DISCOVERY_HINT.into(),
                with_upstreams.into(),
                CALLING.into(),
                LANGUAGE.into(),
                upstreams.catalog_text(),
                note.into(),
                faults.into(),
            ]
        }
    };
    let parts = parts.into_iter().filter(|part| !part.is_empty());
    let joined = parts.reduce(|text, part| text.then("\n\n").then(part));
    joined.unwrap_or_else(|| "".into())
}

const DISCOVERY_HINT: &str = "\
Find upstream tools with (apropos \"words\"), (dir 'server) and (doc 'server/tool), then call the one you chose with tool/call.";

const ONE_SHOT_WITH_UPSTREAMS: &str = "\
Evaluate one PTC-Lisp program that can call the configured upstream MCP servers. Fetch, filter and combine inside the program and \
return only what is needed. Pass data in through the `context` argument and read it as `data/<key>`. Each call stands alone: nothing \
is remembered between calls.";

const CALLING: &str = "\
(tool/call {:server \"name\" :tool \"name\" :args {...}}) gives {:ok true :value v :value_kind k}, or {:ok false :reason r :message m} \
when the upstream fails; look at :ok before :value. Use pmap for calls that don't depend on each other.";

const WORLD_FAULTS: &str = "Failures of upstream servers come back as tagged `{:ok false ...}` values; they don't end the program.";

const SESSION: &str = "\
Evaluate one PTC-Lisp program in a session made by lisp_session_start. What `def` and `defn` define stays for later programs, \
as do the last three results as *1 *2 *3; use `let` for what should not stay. A program that fails, or whose value does not \
match `output_schema`, changes nothing.";
