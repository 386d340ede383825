//! The findings that a runner of open exchanges can make in anything that a server sends, whatever the case: the words that
//! `never` takes, and the meaning of each. A table; how a finding is made is not its concern.

/// Every finding: its word, and a description of what was found.
pub const FINDINGS: &[(&str, &str)] = &[
    ("junk", "lines on standard output that are no MCP messages"),
    ("not-utf8", "messages that are not UTF-8"),
    ("malformed", "messages that are not JSON-RPC 2.0"),
    ("batches", "batches"),
    (
        "strays",
        "responses that answer no request, or one for the second time",
    ),
    (
        "error-objects",
        "errors without an integer `code` and a `message`",
    ),
    (
        "unasked-requests",
        "requests for what the client did not declare",
    ),
    (
        "early-requests",
        "requests before `notifications/initialized`",
    ),
    (
        "shape-initialize",
        "results of `initialize` that are not as the schema says",
    ),
    (
        "shape-tools",
        "results of `tools/list` that are not as the schema says",
    ),
    (
        "shape-call",
        "results of `tools/call` that are not as the schema says",
    ),
    (
        "shape-resources",
        "results of `resources/list` that are not as the schema says",
    ),
    (
        "shape-templates",
        "results of `resources/templates/list` that are not as the schema says",
    ),
    (
        "shape-read",
        "results of `resources/read` that are not as the schema says",
    ),
    (
        "shape-prompts",
        "results of `prompts/list` that are not as the schema says",
    ),
    (
        "shape-prompt",
        "results of `prompts/get` that are not as the schema says",
    ),
    (
        "shape-completion",
        "results of `completion/complete` that are not as the schema says",
    ),
    (
        "shape-discover",
        "results of `server/discover` that are not as the schema says",
    ),
    (
        "shape-notifications",
        "notifications that are not as the schema says",
    ),
    ("undeclared", "features that are offered and not declared"),
    (
        "undeclared-logs",
        "log messages without the capability `logging`",
    ),
    (
        "input-schemas",
        "input schemas that are no JSON Schemas of an object",
    ),
    ("output-schemas", "output schemas that are no JSON Schemas"),
    (
        "odd-names",
        "tool names of other characters, or of another length, than advised",
    ),
    ("same-names", "names or URIs that a list holds twice"),
    (
        "structured",
        "structured results that break the tool's `outputSchema`",
    ),
    (
        "no-structure",
        "results without `structuredContent` of a tool with an `outputSchema`",
    ),
    ("unmirrored", "structured results without the same as text"),
    ("endless-lists", "lists whose cursors lead on without end"),
    ("uris", "URIs that are not URIs"),
    ("progress-tokens", "progress for tokens of no request"),
    ("progress-backwards", "progress that does not increase"),
    ("progress-late", "progress behind the response"),
    (
        "no-stream",
        "answers to a GET that are neither an event stream nor 405",
    ),
    (
        "result-types",
        "results without `resultType` in the stateless revision",
    ),
    (
        "cache-hints",
        "results without `ttlMs` and `cacheScope`, or with other values than they may have",
    ),
    (
        "meta-keys",
        "keys of `_meta` that are not of the form that they must have",
    ),
    (
        "stray-cancellations",
        "cancellations of what is no subscription",
    ),
    (
        "minted",
        "session ids for requests of the stateless revision",
    ),
    (
        "buffered",
        "event streams of the stateless revision without `X-Accel-Buffering: no`",
    ),
    ("cache-scopes", "pages of a list with several scopes"),
    (
        "reserved-codes",
        "error codes that the stateless revision reserves or has given up",
    ),
    (
        "input-required",
        "results that ask for input where none may be asked for, or for none",
    ),
    (
        "unasked-input",
        "results that ask for input that the client did not declare",
    ),
    (
        "varying-lists",
        "lists that differ from one connection to another at the same time",
    ),
    (
        "undeclared-embedded",
        "embedded resources without the capability `resources`",
    ),
    (
        "header-annotations",
        "`x-mcp-header` where it may not stand, or of another form",
    ),
    ("event-ids", "ids that several events of a session have"),
    (
        "unprimed",
        "event streams that do not begin with an event of an id and no data",
    ),
    (
        "stream-responses",
        "responses on the event stream that a GET opened",
    ),
    (
        "no-metadata",
        "requests that are refused with 401 without metadata that tells where a token is had",
    ),
    (
        "bad-metadata",
        "metadata of a protected resource without what it must tell",
    ),
];

/// The description of a finding, or an empty string for an unknown word.
pub fn finding(word: &str) -> &'static str {
    let row = FINDINGS.iter().find(|(known, _)| *known == word);
    row.map_or("", |(_, meaning)| meaning)
}
