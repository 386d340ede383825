//! What the tools say to a model about themselves and the language. Our own words; golden, not spec.

use crate::server::Server;
use crate::settings::ResponseProfile;
use ptc_protocol::{Profile, tool_description};

/// What the description of `lisp_eval` says about the response profile; empty for `debug`.
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
pub fn lisp_eval(server: &Server) -> String {
    let note = profile_note(server.settings.profile);
    let base = tool_description(Profile::McpNoTools);
    [note, base, LANGUAGE]
        .into_iter()
        .filter(|part| !part.is_empty())
        .collect::<Vec<_>>()
        .join("\n\n")
}

/// The description of `lisp_session_eval`.
pub fn session_eval(server: &Server) -> String {
    let note = profile_note(server.settings.profile);
    [note, SESSION, LANGUAGE]
        .into_iter()
        .filter(|part| !part.is_empty())
        .collect::<Vec<_>>()
        .join("\n\n")
}

const SESSION: &str = "\
Evaluate one PTC-Lisp program in a session made by lisp_session_start. What `def` and `defn` define stays for later programs, \
as do the last three results as *1 *2 *3; use `let` for what should not stay. A program that fails, or whose value does not \
match `output_schema`, changes nothing.";
