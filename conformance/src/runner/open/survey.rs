//! Asks an unknown server what it offers, and selects what cases use: a tool that may be called,
//! arguments that its schema accepts and rejects, a resource, a prompt. Calls only tools that declare that they change nothing, or that the
//! command line names. Knows MCP's lists; knows nothing of cases.

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;
use std::time::Duration;

use jsonschema::Validator;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::super::transcript::Stop;
use super::arguments;
use super::connection::Connection;
use super::findings::Findings;
use super::stateless::{REVISION, base64_value, header_text, header_value, meta};
use crate::json::Json;
use crate::suite::Captures;
use crate::target::Patience;

/// Maximum number of pages of a list that are read.
const PAGES_MAX: usize = 100;
/// Maximum number of tools that are called to find out what they do.
const CALLS_MAX: usize = 12;
/// A call that takes longer than this is slow enough to be cancelled by a case.
const SLOW: Duration = Duration::from_millis(400);

/// Features of a server: the declared capability, the word by which cases require it, the list method, the list's member.
const FEATURES: &[(&str, &str, &str, &str)] = &[
    ("tools", "mcp-tools", "tools/list", "tools"),
    ("resources", "mcp-resources", "resources/list", "resources"),
    ("prompts", "mcp-prompts", "prompts/list", "prompts"),
];

/// Capabilities without a list, and whether the stateless revision has the methods that the cases use.
const UNLISTED_FEATURES: &[(&str, &str, bool)] = &[
    ("/resources/subscribe", "mcp-subscribe", false),
    ("/completions", "mcp-completions", true),
    ("/logging", "mcp-logging", false),
];

/// Changes of which a server of that revision can notify: the capability, and the member of a filter that subscribes to it.
const CHANGE_FILTERS: &[(&str, &str)] = &[
    ("tools/listChanged", "toolsListChanged"),
    ("prompts/listChanged", "promptsListChanged"),
    ("resources/listChanged", "resourcesListChanged"),
];

/// Lists of that revision, by the capability that they belong to, with their member.
const STATELESS_LISTS: &[(&str, &str, &str)] = &[
    ("tools", "tools/list", "tools"),
    ("prompts", "prompts/list", "prompts"),
    ("resources", "resources/list", "resources"),
    ("resources", "resources/templates/list", "resourceTemplates"),
];

/// How many times two connections must list different items before it counts, since a list may change over time.
const COMPARED: u64 = 2;

/// Values that a survey may not find, each with a noun phrase for what a case lacks then.
const OPTIONAL_VALUES: &[(&str, &str)] = &[
    (
        "mcp.tool",
        "a tool that may be called: none says `readOnlyHint` and takes arguments made from its schema; --tool NAME names one",
    ),
    (
        "mcp.arguments",
        "a tool that may be called; --tool NAME names one",
    ),
    (
        "mcp.checked_tool",
        "a tool that may be called whose schema refuses something; --tool NAME names one",
    ),
    (
        "mcp.wrong_arguments",
        "a tool that may be called whose schema refuses something; --tool NAME names one",
    ),
    (
        "mcp.structured_tool",
        "a tool that may be called with an `outputSchema`",
    ),
    (
        "mcp.structured_arguments",
        "a tool that may be called with an `outputSchema`",
    ),
    (
        "mcp.slow_tool",
        "a tool that may be called and takes a while; --tool NAME names one",
    ),
    (
        "mcp.slow_arguments",
        "a tool that may be called and takes a while",
    ),
    ("mcp.resource", "a resource in `resources/list`"),
    ("mcp.template", "a resource template with a variable"),
    ("mcp.variable", "a resource template with a variable"),
    ("mcp.prompt", "a prompt in `prompts/list`"),
    ("mcp.prompt_arguments", "a prompt in `prompts/list`"),
    (
        "mcp.strict_prompt",
        "a prompt with an argument that is required",
    ),
    (
        "mcp.tool_header",
        "a tool that may be called; --tool NAME names one",
    ),
    (
        "mcp.tool_encoded",
        "a tool that may be called; --tool NAME names one",
    ),
    (
        "mcp.header_tool",
        "a tool that may be called with a parameter that says `x-mcp-header`",
    ),
    (
        "mcp.header_arguments",
        "a tool that may be called with a parameter that says `x-mcp-header`",
    ),
    (
        "mcp.headerless_arguments",
        "a tool that may be called without the parameter that says `x-mcp-header`",
    ),
    (
        "mcp.asking_tool",
        "a tool that may be called and asks for input first",
    ),
    (
        "mcp.asking_arguments",
        "a tool that may be called and asks for input first",
    ),
    (
        "mcp.stating_tool",
        "a tool that may be called and gives a `requestState`",
    ),
    (
        "mcp.stating_arguments",
        "a tool that may be called and gives a `requestState`",
    ),
    (
        "mcp.filter",
        "a change of which it tells in the stateless revision",
    ),
    ("mcp.completed_prompt", "a prompt with an argument"),
    ("mcp.completed_argument", "a prompt with an argument"),
];

/// The features of a server.
#[derive(Debug, Default)]
pub struct Survey {
    /// Its name and version.
    pub name: Option<String>,
    /// Values that cases use, by name.
    pub bindings: Captures,
    /// The words of its capabilities.
    pub capabilities: BTreeSet<String>,
    /// Tools that may be called, with arguments that they accept.
    callable: Vec<(String, Value)>,
}

/// Why a value is missing: a noun phrase.
pub fn missing_value(name: &str) -> Option<&'static str> {
    let row = OPTIONAL_VALUES.iter().find(|(known, _)| *known == name);
    row.map(|(_, why)| *why)
}

/// Names of the values that a survey may not find.
pub fn names() -> impl Iterator<Item = &'static str> {
    OPTIONAL_VALUES.iter().map(|(name, _)| *name)
}

/// The user's permissions to call a tool, whatever its annotations: with the given arguments (`NAME={…}`), or with generated ones.
fn allowed(named: &[String], tool: &str) -> Vec<Option<Value>> {
    let given = named.iter().filter_map(|given| {
        let (name, arguments) = match given.split_once('=') {
            Some((name, arguments)) => (name, serde_json::from_str(arguments).ok()),
            None => (given.as_str(), None),
        };
        (name == tool).then_some(arguments)
    });
    given.collect()
}

/// Surveys a server whose answer to `initialize` (or to `server/discover`, if it has no `initialize`) is `initialized`.
///
/// # Errors
/// When it does not answer.
pub async fn survey(
    connection: &mut Connection,
    initialized: &Value,
    named: &[String],
    findings: &Arc<Findings>,
    patience: Patience,
) -> Result<Survey, Stop> {
    let at = |path: &str| initialized.pointer(path);
    let text = |path: &str| at(path).and_then(Value::as_str);
    let mut surveyor = Surveyor::new(connection, findings, patience, 1);
    let stateless = at("/result/supportedVersions").is_some();
    let info = match stateless {
        true => "/result/_meta/io.modelcontextprotocol~1serverInfo",
        false => "/result/serverInfo",
    };
    let name = text(&format!("{info}/name")).map(str::to_owned);
    surveyor.survey.name = name.map(|name| match text(&format!("{info}/version")) {
        Some(version) => format!("{name} {version}"),
        None => name,
    });
    let revision = match stateless {
        true => REVISION,
        false => text("/result/protocolVersion").unwrap_or_default(),
    };
    let revision = revision.to_owned();
    let era = match stateless {
        true => "mcp-stateless-only",
        false => "mcp-initialize",
    };
    surveyor.survey.capabilities.insert(era.to_owned());
    surveyor.bind("mcp.revision", &Value::from(revision.as_str()));
    for known in ["2025-06-18", "2025-11-25"] {
        if revision.as_str() >= known {
            surveyor.survey.capabilities.insert(format!("mcp-{known}"));
        }
    }
    findings.set_declares_logging(at("/result/capabilities/logging").is_some());
    findings.set_declares_resources(at("/result/capabilities/resources").is_some());
    for (path, word, goes_on) in UNLISTED_FEATURES {
        let declared = at(&format!("/result/capabilities{path}"));
        if stateless && !goes_on {
            continue;
        }
        if declared.is_some_and(|declared| *declared != Value::Bool(false)) {
            surveyor.survey.capabilities.insert((*word).to_owned());
        }
    }
    for (capability, word, method, member) in FEATURES {
        let declared = at(&format!("/result/capabilities/{capability}")).is_some();
        let listed = surveyor.read_list(method, member, declared).await;
        if !declared {
            // A server need not answer for a capability that it does not declare.
            let items = listed.unwrap_or_default();
            if !items.is_empty() {
                let what = format!(
                    "`{method}` lists {} of them, and `{capability}` is not declared",
                    items.len()
                );
                findings.add("undeclared", &what);
            }
            continue;
        }
        let items = listed?;
        surveyor.survey.capabilities.insert((*word).to_owned());
        match *capability {
            "tools" => surveyor.survey_tools(&items, named).await?,
            "resources" => surveyor.survey_resources(&items).await?,
            _ => surveyor.survey_prompts(&items),
        }
    }
    if let Some(Json::String(tool)) = surveyor.survey.bindings.get("mcp.tool").cloned() {
        surveyor.bind("mcp.tool_header", &Value::from(header_value(&tool)));
        surveyor.bind("mcp.tool_encoded", &Value::from(base64_value(&tool)));
    }
    Ok(surveyor.survey)
}

/// Surveys the additional features of a server in the stateless revision, on a fresh connection; empty if the server lacks it. Its lists
/// are read so that their hints are inspected, and the callable tools are called by a client that can be asked for input.
pub async fn stateless(
    connection: &mut Connection,
    known: &Survey,
    findings: &Arc<Findings>,
    patience: Patience,
    waited: Duration,
) -> Survey {
    let mut surveyor = Surveyor::new(connection, findings, patience, 1);
    let asked = with_meta(json!({}), &json!({}));
    let Ok(answer) = surveyor.ask("server/discover", Some(&asked), waited).await else {
        return surveyor.survey;
    };
    let versions = answer.pointer("/result/supportedVersions");
    let versions = versions.and_then(Value::as_array);
    if !versions.is_some_and(|versions| versions.contains(&Value::from(REVISION))) {
        return surveyor.survey;
    }
    surveyor.survey.capabilities.insert("stateless".to_owned());
    let declared = |path: &str| answer.pointer(&format!("/result/capabilities/{path}"));
    let mut filter = serde_json::Map::new();
    for (path, member) in CHANGE_FILTERS {
        if declared(path) == Some(&Value::Bool(true)) {
            filter.insert((*member).to_owned(), Value::Bool(true));
        }
    }
    if !filter.is_empty() {
        surveyor.survey.capabilities.insert("mcp-listen".to_owned());
        surveyor.bind("mcp.filter", &Value::Object(filter));
    }
    for (capability, method, member) in STATELESS_LISTS {
        if declared(capability).is_some() {
            surveyor.read_stateless_list(method, member).await;
        }
    }
    surveyor.bind_input_tools(&known.callable).await;
    surveyor.survey
}

/// Finds lists that differ between a connection that has been used and a fresh one.
pub async fn compare(
    used: &mut Connection,
    fresh: &mut Connection,
    known: &Survey,
    findings: &Arc<Findings>,
    patience: Patience,
) {
    let declared = |word: &str| known.capabilities.contains(word);
    for (capability, word, method, member) in FEATURES {
        if !declared(word) {
            continue;
        }
        let mut differ = None;
        // A list may change over time, so a difference is checked a second time.
        for round in 0..COMPARED {
            let mut names = Vec::new();
            for connection in [&mut *used, &mut *fresh] {
                let mut surveyor =
                    Surveyor::new(connection, findings, patience, 1 + 1000 * (round + 1));
                names.push(surveyor.read_stateless_list(method, member).await);
            }
            let [Some(here), Some(there)] = names.as_slice() else {
                return;
            };
            differ = (here != there).then(|| {
                let odd: Vec<&str> = here
                    .symmetric_difference(there)
                    .map(String::as_str)
                    .collect();
                format!(
                    "{capability} that only one of two connections lists: {}",
                    odd.join(", ")
                )
            });
            if differ.is_none() {
                break;
            }
        }
        if let Some(what) = differ {
            findings.add("varying-lists", &what);
        }
    }
}

/// Params with the `_meta` of the stateless revision.
fn with_meta(mut params: Value, capabilities: &Value) -> Value {
    params["_meta"] = meta(capabilities);
    params
}

struct Surveyor<'a> {
    connection: &'a mut Connection,
    findings: &'a Arc<Findings>,
    patience: Patience,
    next: u64,
    survey: Survey,
}

/// A call by which a tool may be tried.
struct CandidateCall {
    name: String,
    /// Whether the user named the tool.
    is_named: bool,
    /// Arguments that its schema permits.
    right: Value,
    /// Arguments that its schema forbids.
    wrong: Option<Value>,
    /// Whether it declares an `outputSchema`.
    is_structured: bool,
}

impl<'a> Surveyor<'a> {
    fn new(
        connection: &'a mut Connection,
        findings: &'a Arc<Findings>,
        patience: Patience,
        next: u64,
    ) -> Self {
        Surveyor {
            connection,
            findings,
            patience,
            next,
            survey: Survey::default(),
        }
    }

    /// Binds a name that is not bound yet. Returns whether the name is bound to `value` now.
    fn bind(&mut self, name: &str, value: &Value) -> bool {
        let Ok(value) = Json::parse(&value.to_string()) else {
            return false;
        };
        let bound = self.survey.bindings.entry(name.to_owned());
        *bound.or_insert_with(|| value.clone()) == value
    }

    async fn ask(
        &mut self,
        method: &str,
        params: Option<&Value>,
        waited: Duration,
    ) -> Result<Value, Stop> {
        let id = Value::from(format!("survey-{}", self.next));
        self.next += 1;
        let params = params.map(Value::to_string);
        self.connection
            .ask(&id, method, params.as_deref(), waited)
            .await
    }

    /// Reads all pages of a list. One that does not end is a finding.
    async fn read_list(
        &mut self,
        method: &str,
        member: &str,
        declared: bool,
    ) -> Result<Vec<Value>, Stop> {
        let key = item_key(member);
        let (mut items, mut cursors, mut seen) = (Vec::new(), HashSet::new(), HashSet::new());
        let mut cursor: Option<String> = None;
        for _ in 0..PAGES_MAX {
            let params = cursor.as_ref().map(|cursor| json!({"cursor": cursor}));
            let answer = self
                .ask(method, params.as_ref(), self.patience.reply)
                .await?;
            let page = answer
                .pointer(&format!("/result/{member}"))
                .and_then(Value::as_array);
            let (mut fresh, mut twice) = (0, Vec::new());
            for item in page.into_iter().flatten() {
                let name = item.get(key).and_then(Value::as_str).unwrap_or_default();
                if seen.insert(name.to_owned()) {
                    fresh += 1;
                } else {
                    twice.push(name.to_owned());
                }
                items.push(item.clone());
            }
            let next = answer.pointer("/result/nextCursor").and_then(Value::as_str);
            let Some(next) = next else {
                for name in twice.iter().filter(|_| declared && member == "tools") {
                    self.findings.add("same-names", name);
                }
                return Ok(items);
            };
            if !cursors.insert(next.to_owned()) {
                let what = format!("`{method}` gives the cursor {} again", Value::from(next));
                self.findings.add("endless-lists", &what);
                return Ok(items);
            }
            if fresh == 0 && !twice.is_empty() {
                self.findings.add(
                    "endless-lists",
                    &format!("`{method}` lists the same on another page"),
                );
                return Ok(items);
            }
            cursor = Some(next.to_owned());
        }
        Ok(items)
    }

    async fn survey_tools(&mut self, tools: &[Value], named: &[String]) -> Result<(), Stop> {
        let mut candidates = Vec::new();
        for tool in tools {
            candidates.extend(self.candidates(tool, named));
        }
        // Tools that the user named come first.
        candidates.sort_by_key(|candidate| !candidate.is_named);
        candidates.truncate(CALLS_MAX);
        self.survey.callable = candidates
            .iter()
            .map(|candidate| (candidate.name.clone(), candidate.right.clone()))
            .collect();
        self.try_tools(candidates).await
    }

    /// The calls by which a tool may be tried. Adds what is wrong with its declaration to the findings.
    fn candidates(&mut self, tool: &Value, named: &[String]) -> Vec<CandidateCall> {
        let Some(name) = tool.get("name").and_then(Value::as_str) else {
            return Vec::new();
        };
        let findings = self.findings;
        let find = |word: &str, what: &str| findings.add(word, &format!("{name}: {what}"));
        if !is_recommended_name(name) {
            self.findings
                .add("odd-names", &Value::from(name).to_string());
        }
        if let Some(schema) = tool.get("outputSchema") {
            match arguments::compile(schema) {
                Ok(validator) => self.findings.register_output_schema(name, validator),
                Err(why) => find("output-schemas", &why.to_string()),
            }
        }
        let schema = tool.get("inputSchema").unwrap_or(&Value::Null);
        let validator = match arguments::compile(schema) {
            Ok(validator) if schema.get("type").and_then(Value::as_str) == Some("object") => {
                validator
            }
            Ok(_) => {
                let what = format!("its type is not \"object\": {schema}");
                find("input-schemas", &what);
                return Vec::new();
            }
            Err(why) => {
                find("input-schemas", &why.to_string());
                return Vec::new();
            }
        };
        let (mirrored, invalid) = header_annotations(schema);
        for invalid in &invalid {
            find("header-annotations", invalid);
        }
        // Clients ignore a tool with an invalid annotation.
        if invalid.is_empty() {
            self.findings
                .register_header_parameters(name, mirrored.clone());
        }
        let harmless = tool.pointer("/annotations/readOnlyHint") == Some(&Value::Bool(true));
        let mut given = allowed(named, name);
        let is_named = !given.is_empty();
        // A tool that runs only as a task does not answer a plain call.
        let task = tool
            .pointer("/execution/taskSupport")
            .and_then(Value::as_str)
            == Some("required");
        if harmless && !task && !is_named {
            given.push(None);
        }
        let mut candidates = Vec::new();
        for given in given {
            let made = given.or_else(|| arguments::generate_accepted(schema, &validator));
            let Some(right) = made else {
                continue;
            };
            if let Some((at, header)) = mirrored.first().filter(|_| invalid.is_empty()) {
                self.bind_header_tool(name, schema, &validator, &right, (at, header));
            }
            candidates.push(CandidateCall {
                name: name.to_owned(),
                is_named,
                wrong: arguments::generate_rejected(schema, &validator, &right),
                right,
                is_structured: tool.get("outputSchema").is_some(),
            });
        }
        candidates
    }

    /// Calls the candidates, and binds those that answer, or don't in time, for the cases.
    async fn try_tools(&mut self, candidates: Vec<CandidateCall>) -> Result<(), Stop> {
        let bound = |surveyor: &Self, name: &str| surveyor.survey.bindings.contains_key(name);
        let mut spare = None;
        for candidate in candidates {
            let name = Value::from(candidate.name);
            let right = candidate.right;
            if let Some(wrong) = (candidate.wrong).filter(|_| !bound(self, "mcp.checked_tool")) {
                self.bind("mcp.checked_tool", &name);
                self.bind("mcp.wrong_arguments", &wrong);
            }
            let params = json!({"name": name, "arguments": right});
            let mut answer = self.call_or_cancel(&params).await?;
            // A first call may be slow because of the tool's initialization or a busy machine.
            if answer.is_none() && !bound(self, "mcp.slow_tool") {
                answer = self.call_or_cancel(&params).await?;
            }
            let Some(answer) = answer else {
                self.bind("mcp.slow_tool", &name);
                self.bind("mcp.slow_arguments", &right);
                spare.get_or_insert((name, right));
                continue;
            };
            let done = answer
                .get("result")
                .is_some_and(|result| result.get("isError") != Some(&Value::Bool(true)));
            if done {
                self.bind("mcp.tool", &name);
                self.bind("mcp.arguments", &right);
                if candidate.is_structured {
                    self.bind("mcp.structured_tool", &name);
                    self.bind("mcp.structured_arguments", &right);
                }
            }
            spare.get_or_insert((name, right));
        }
        if let Some((name, right)) = spare {
            self.bind("mcp.tool", &name);
            self.bind("mcp.arguments", &right);
        }
        Ok(())
    }

    /// Binds a tool with a parameter that a header repeats: arguments with it, and arguments without it where the schema permits that.
    fn bind_header_tool(
        &mut self,
        name: &str,
        schema: &Value,
        validator: &Validator,
        right: &Value,
        (at, header): (&str, &str),
    ) {
        let mut with = right.clone();
        if right.pointer(at).is_none() {
            let pointer = at.replace('/', "/properties/");
            let Some(value) = schema.pointer(&pointer).and_then(arguments::sample) else {
                return;
            };
            let Some((object, key)) = at.rsplit_once('/') else {
                return;
            };
            let key = key.replace("~1", "/").replace("~0", "~");
            match with.pointer_mut(object).and_then(Value::as_object_mut) {
                Some(members) => members.insert(key, value),
                None => return,
            };
            if !validator.is_valid(&with) {
                return;
            }
        }
        let Some(text) = with.pointer(at).and_then(header_text) else {
            return;
        };
        if self.survey.bindings.contains_key("mcp.header_tool") {
            return;
        }
        self.bind("mcp.header_tool", &Value::from(name));
        self.bind("mcp.header_tool_name", &Value::from(header_value(name)));
        self.bind("mcp.header", &Value::from(header));
        self.bind("mcp.header_value", &Value::from(text));
        let plain = with.pointer(at).map(|value| match value {
            Value::String(text) => base64_value(text),
            other => base64_value(&other.to_string()),
        });
        self.bind(
            "mcp.header_encoded",
            &plain.map_or(Value::Null, Value::from),
        );
        self.bind("mcp.header_arguments", &with);
        if right.pointer(at).is_none() {
            self.bind("mcp.headerless_arguments", right);
        }
    }

    /// Calls tools as a client that can be asked for input, and binds those that ask.
    async fn bind_input_tools(&mut self, callable: &[(String, Value)]) {
        let able = json!({"elicitation": {}, "sampling": {}, "roots": {}});
        for (name, right) in callable {
            let params = with_meta(json!({"name": name, "arguments": right}), &able);
            let Ok(Some(answer)) = self.call_or_cancel(&params).await else {
                continue;
            };
            let at = |path: &str| answer.pointer(path);
            if at("/result/resultType").and_then(Value::as_str) != Some("input_required") {
                continue;
            }
            let names = [
                ("/result/inputRequests", "asking"),
                ("/result/requestState", "stating"),
            ];
            for (path, word) in names {
                if at(path).is_some() {
                    self.bind(&format!("mcp.{word}_tool"), &Value::from(name.as_str()));
                    self.bind(&format!("mcp.{word}_arguments"), right);
                }
            }
        }
    }

    /// Calls a tool; a slow call is cancelled and returns `None`.
    async fn call_or_cancel(&mut self, params: &Value) -> Result<Option<Value>, Stop> {
        let began = Instant::now();
        let id = format!("survey-{}", self.next);
        match self.ask("tools/call", Some(params), SLOW).await {
            Ok(answer) => Ok(Some(answer)),
            Err(_) if began.elapsed() >= SLOW => {
                let cancel = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id}});
                self.connection
                    .send(format!("{cancel}\n").as_bytes())
                    .await?;
                Ok(None)
            }
            Err(stop) => Err(stop),
        }
    }

    async fn survey_resources(&mut self, resources: &[Value]) -> Result<(), Stop> {
        for resource in resources {
            let Some(uri) = resource.get("uri").and_then(Value::as_str) else {
                continue;
            };
            if !is_uri(uri) {
                self.findings.add("uris", &Value::from(uri).to_string());
            }
            self.bind("mcp.resource", &Value::from(uri));
        }
        let templates = self
            .read_list("resources/templates/list", "resourceTemplates", true)
            .await?;
        for template in &templates {
            let uri = template
                .get("uriTemplate")
                .and_then(Value::as_str)
                .unwrap_or_default();
            if let Some(variable) = template_variable(uri) {
                self.bind("mcp.template", &Value::from(uri));
                self.bind("mcp.variable", &Value::from(variable));
            }
        }
        Ok(())
    }

    fn survey_prompts(&mut self, prompts: &[Value]) {
        for prompt in prompts {
            let Some(name) = prompt.get("name").filter(|name| name.is_string()) else {
                continue;
            };
            let arguments = prompt.get("arguments").and_then(Value::as_array);
            let mut given = serde_json::Map::new();
            for argument in arguments.into_iter().flatten() {
                let Some(word) = argument.get("name").and_then(Value::as_str) else {
                    continue;
                };
                if self.bind("mcp.completed_prompt", name) {
                    self.bind("mcp.completed_argument", &Value::from(word));
                }
                if argument.get("required") == Some(&Value::Bool(true)) {
                    given.insert(word.to_owned(), Value::from("a"));
                }
            }
            if !given.is_empty() {
                self.bind("mcp.strict_prompt", name);
            }
            if self.bind("mcp.prompt", name) {
                self.bind("mcp.prompt_arguments", &Value::Object(given));
            }
        }
    }

    /// Reads the pages of a list in the stateless revision, and the contents of its first item. Returns the names of all items.
    async fn read_stateless_list(
        &mut self,
        method: &str,
        member: &str,
    ) -> Option<BTreeSet<String>> {
        let mut cursor: Option<Value> = None;
        let mut names = BTreeSet::new();
        for _ in 0..PAGES_MAX {
            let params = cursor
                .as_ref()
                .map_or(json!({}), |at| json!({"cursor": at}));
            let params = with_meta(params, &json!({}));
            let asked = self.ask(method, Some(&params), self.patience.reply);
            let answer = asked.await.ok()?;
            if let (None, Some(uri)) = (&cursor, answer.pointer("/result/resources/0/uri")) {
                let params = with_meta(json!({"uri": uri}), &json!({}));
                let read = self.ask("resources/read", Some(&params), self.patience.reply);
                let _what_it_says_is_looked_at = read.await;
            }
            let items = answer.pointer(&format!("/result/{member}"))?.as_array()?;
            let named = items
                .iter()
                .filter_map(|item| item.get(item_key(member))?.as_str());
            names.extend(named.map(str::to_owned));
            let next = answer.pointer("/result/nextCursor");
            match next.filter(|next| next.is_string() && Some(*next) != cursor.as_ref()) {
                Some(next) => cursor = Some(next.clone()),
                None => return Some(names),
            }
        }
        None
    }
}

/// The member that identifies an item of a list.
fn item_key(member: &str) -> &'static str {
    match member {
        "resources" => "uri",
        "resourceTemplates" => "uriTemplate",
        _ => "name",
    }
}

/// The `x-mcp-header` annotations of an input schema (2026-07-28, Tools, x-mcp-header): JSON pointers to the parameters among the
/// arguments, with the names of their headers; and the faults. Each annotation must be a unique token, on a primitive
/// value that is reached through `properties` alone.
fn header_annotations(schema: &Value) -> (Vec<(String, String)>, Vec<String>) {
    let mut found = Annotations::default();
    found.inspect(schema, Some(String::new()));
    (found.right, found.wrong)
}

#[derive(Default)]
struct Annotations {
    names: HashSet<String>,
    right: Vec<(String, String)>,
    wrong: Vec<String>,
}

impl Annotations {
    /// Inspects a part of a schema. `pointer` is its JSON pointer, if it is reached through `properties` alone.
    fn inspect(&mut self, schema: &Value, pointer: Option<String>) {
        let members = match schema {
            Value::Object(members) => members,
            Value::Array(items) => {
                for item in items {
                    self.inspect(item, None);
                }
                return;
            }
            _ => return,
        };
        if let Some(name) = members.get("x-mcp-header") {
            let text = name.as_str().unwrap_or_default();
            let token = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c);
            let kind = members.get("type").and_then(Value::as_str);
            if text.is_empty() || !text.chars().all(token) {
                self.wrong
                    .push(format!("{name} is no name of a header field"));
            } else if !self.names.insert(text.to_ascii_lowercase()) {
                self.wrong.push(format!("{name} stands twice"));
            } else if !matches!(kind, Some("integer" | "string" | "boolean")) {
                self.wrong
                    .push(format!("{name} is no integer, string or boolean"));
            } else if let Some(pointer) = &pointer {
                self.right.push((pointer.clone(), text.to_owned()));
            } else {
                self.wrong
                    .push(format!("{name} is not reached through `properties` alone"));
            }
        }
        for (word, inner) in members {
            match (word.as_str(), inner) {
                ("properties", Value::Object(properties)) => {
                    for (name, property) in properties {
                        let name = name.replace('~', "~0").replace('/', "~1");
                        let inner = pointer.as_ref().map(|pointer| format!("{pointer}/{name}"));
                        self.inspect(property, inner);
                    }
                }
                ("default" | "const" | "enum" | "examples", _) => {}
                _ => self.inspect(inner, None),
            }
        }
    }
}

/// Whether a tool's name has the characters and the length that the specification recommends.
fn is_recommended_name(name: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    (1..=128).contains(&name.len()) && name.chars().all(plain)
}

/// Whether a text has the characters and the scheme of a URI (RFC 3986).
fn is_uri(text: &str) -> bool {
    let Some((scheme, rest)) = text.split_once(':') else {
        return false;
    };
    let letter = |c: char| c.is_ascii_alphanumeric() || matches!(c, '+' | '.' | '-');
    let other = |c: char| c.is_ascii_alphanumeric() || "-._~:/?#[]@!$&'()*+,;=%".contains(c);
    scheme.starts_with(|c: char| c.is_ascii_alphabetic())
        && scheme.chars().all(letter)
        && rest.chars().all(other)
}

/// The first variable of a URI template (RFC 6570).
fn template_variable(template: &str) -> Option<&str> {
    let inner = template.split_once('{')?.1.split_once('}')?.0;
    let inner = inner.trim_start_matches(['+', '#', '.', '/', ';', '?', '&']);
    let name = inner.split([',', ':', '*']).next()?;
    (!name.is_empty()).then_some(name)
}

#[cfg(test)]
mod tests;
