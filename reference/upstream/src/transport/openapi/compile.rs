//! The OpenAPI compiler: included GET operations become tools; everything that v1 does not support is refused, operation by
//! operation. Reads the description only; sends nothing.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use ptc_secrets::{Redactor, SCRUB_TIME_MAX, SharedTime};
use serde_json::{Map, Value, json};

use super::config::OpenApiConfig;
use super::names::normalize;
use super::path::{PathArgumentFault, Template};
use crate::limits::RESOLVED_BYTES_MAX;
use crate::schema_keys::SchemaKeys;
use crate::tool::RawTool;

/// Methods that a path item can have.
const METHODS: &[&str] = &[
    "get", "post", "put", "patch", "delete", "options", "head", "trace",
];
/// Maximum schema nodes of one operation after references are resolved: a small description can expand enormously.
const NODES_MAX: usize = 50_000;
/// Maximum depth of a schema after references are resolved: parsing its text again is limited to 128 levels, including those around
/// it.
const SCHEMA_DEPTH_MAX: usize = 100;
const REFERENCE_DEPTH_MAX: usize = 64;

/// The members of a schema that hold schemas. All others are data, in which `$ref` has no meaning.
const SCHEMA_MEMBERS: &[(Place, &[&str])] = &[
    (
        Place::Schema,
        &[
            "additionalItems",
            "additionalProperties",
            "allOf",
            "anyOf",
            "contains",
            "contentSchema",
            "else",
            "if",
            "items",
            "not",
            "oneOf",
            "prefixItems",
            "propertyNames",
            "then",
            "unevaluatedItems",
            "unevaluatedProperties",
        ],
    ),
    (
        Place::SchemasByName,
        &[
            "$defs",
            "definitions",
            "dependencies",
            "dependentSchemas",
            "patternProperties",
            "properties",
        ],
    ),
];

/// The role of a value in the description.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// A schema or a list of schemas.
    Schema,
    /// An object whose members are schemas, whatever their names.
    SchemasByName,
    /// Any data, kept as it is.
    Data,
}

impl Place {
    /// The place of the member `key` of an object in this place.
    fn of_member(self, key: &str) -> Place {
        let holds = |(_, keys): &&(Place, &[&str])| keys.contains(&key);
        match self {
            Place::Schema => SCHEMA_MEMBERS
                .iter()
                .find(holds)
                .map_or(Place::Data, |row| row.0),
            Place::SchemasByName => Place::Schema,
            Place::Data => Place::Data,
        }
    }

    /// The reference in `value`, if references apply in this place.
    fn reference(self, value: &Map<String, Value>) -> Option<&str> {
        let reference = value.get("$ref").and_then(Value::as_str);
        reference.filter(|_| self == Place::Schema)
    }
}

/// What is needed to call an operation.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Operation {
    pub path: Template,
    /// Templates of GET operations that are not included and that no argument of this one may reach.
    pub excluded: Arc<[Template]>,
    /// Query parameters by name.
    pub query: BTreeSet<String>,
    /// Default arguments as text; `None` for one that is not a scalar.
    pub defaults: HashMap<String, Option<String>>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Piece {
    Literal(String),
    Parameter(String),
}

type Compiled = (Vec<RawTool>, HashMap<String, Operation>);

/// Why a description does not compile.
#[derive(Debug, thiserror::Error)]
pub(super) enum CompileError {
    #[error("schema JSON decode failed: {0}")]
    NotJson(#[from] serde_json::Error),
    #[error("OpenAPI schema must be a JSON object")]
    NotObject,
    #[error("OpenAPI include_operations not found: {}", .0.join(", "))]
    NotFound(Vec<String>),
    #[error("OpenAPI tool name collision after normalization: {0}")]
    Collision(String),
    #[error("OpenAPI operation {id} {fault}")]
    Operation { id: String, fault: OperationFault },
}

/// What v1 does not support about an included operation.
#[derive(Debug, thiserror::Error)]
pub(super) enum OperationFault {
    #[error("uses unsupported method {}; v1 supports GET only", .0.to_ascii_uppercase())]
    Method(&'static str),
    #[error("is deprecated")]
    Deprecated,
    #[error("has requestBody; v1 GET bodies are unsupported")]
    RequestBody,
    #[error("has cross-origin servers; v1 requires base_url origin")]
    Servers,
    #[error("has unsupported {0} parameter")]
    ParameterPlace(String),
    #[error("has unsupported parameter {0}")]
    Parameter(Value),
    #[error("has a path that does not start with /: {0}")]
    RelativePath(String),
    #[error("has a path that names another: {0}")]
    AmbiguousPath(String),
    #[error("path template is missing declared path parameter(s): {}", .0.join(", "))]
    Undeclared(Vec<String>),
    #[error("has no 2xx response")]
    NoResponse,
    #[error("has no JSON 2xx response; v1 supports JSON responses only")]
    NoJsonResponse,
    #[error("has a schema nested deeper than {SCHEMA_DEPTH_MAX}")]
    Depth,
    #[error("has a schema of more than {NODES_MAX} nodes")]
    Nodes,
    #[error("makes the schemas longer than {RESOLVED_BYTES_MAX} bytes")]
    Bytes,
    #[error("has a cyclic reference {0}")]
    Cyclic(String),
    #[error("has a remote or unsupported reference {0}")]
    Remote(String),
    #[error("has an unresolvable reference {0}")]
    Unresolvable(String),
}

/// Compiles the included operations, in the order of `include_operations`.
pub(super) fn compile(
    text: &[u8],
    config: &OpenApiConfig,
    redactor: &Redactor,
) -> Result<Compiled, CompileError> {
    let schema: Value = serde_json::from_slice(text)?;
    let Value::Object(root) = &schema else {
        return Err(CompileError::NotObject);
    };
    let operations = collect(root);
    let missing: Vec<String> = config
        .include
        .iter()
        .filter(|id| !operations.contains_key(id.as_str()))
        .cloned()
        .collect();
    if !missing.is_empty() {
        return Err(CompileError::NotFound(missing));
    }
    let excluded = excluded(root, &operations, config);
    let mut tools = Vec::new();
    let mut compiled = HashMap::new();
    let mut bytes = 0;
    let scrub_time = SharedTime::new(SCRUB_TIME_MAX);
    for id in &config.include {
        let source = &operations[id.as_str()];
        let one = Compiler {
            root: &schema,
            id,
            source,
            config,
            redactor,
            scrub_time: &scrub_time,
            excluded: &excluded,
            nodes: 0,
            bytes,
            depth: 0,
        };
        let (tool, operation, so_far) = one.compile().map_err(|fault| CompileError::Operation {
            id: id.clone(),
            fault,
        })?;
        bytes = so_far;
        if compiled.insert(tool.name.clone(), operation).is_some() {
            return Err(CompileError::Collision(tool.name));
        }
        tools.push(tool);
    }
    Ok((tools, compiled))
}

struct Source<'a> {
    method: &'static str,
    path: &'a str,
    item: &'a Map<String, Value>,
    operation: &'a Map<String, Value>,
}

fn collect(root: &Map<String, Value>) -> HashMap<&str, Source<'_>> {
    let mut found = HashMap::new();
    for (path, item) in root
        .get("paths")
        .and_then(Value::as_object)
        .into_iter()
        .flatten()
    {
        let Some(item) = item.as_object() else {
            continue;
        };
        for &method in METHODS {
            let Some(operation) = item.get(method).and_then(Value::as_object) else {
                continue;
            };
            let Some(id) = operation.get("operationId").and_then(Value::as_str) else {
                continue;
            };
            found.entry(id).or_insert(Source {
                method,
                path,
                item,
                operation,
            });
        }
    }
    found
}

/// Paths with a GET operation that is not included.
fn excluded(
    root: &Map<String, Value>,
    operations: &HashMap<&str, Source<'_>>,
    config: &OpenApiConfig,
) -> Arc<[Template]> {
    let included: BTreeSet<&str> = config
        .include
        .iter()
        .filter_map(|id| operations.get(id.as_str()))
        .map(|source| source.path)
        .collect();
    let paths = root.get("paths").and_then(Value::as_object);
    paths
        .into_iter()
        .flatten()
        .filter(|(path, item)| {
            // The target of a reference may have a GET operation.
            let gets = item.get("get").is_some() || item.get("$ref").is_some();
            gets && !included.contains(path.as_str())
        })
        .map(|(path, _)| Template::new(path))
        .collect()
}

struct Compiler<'a> {
    root: &'a Value,
    id: &'a str,
    source: &'a Source<'a>,
    config: &'a OpenApiConfig,
    redactor: &'a Redactor,
    /// The scrubbing time for all names of the description.
    scrub_time: &'a SharedTime,
    excluded: &'a Arc<[Template]>,
    nodes: usize,
    /// Bytes of the whole description's schemas so far.
    bytes: usize,
    depth: usize,
}

struct Parameter {
    name: String,
    in_path: bool,
    required: bool,
    schema: Value,
}

impl<'a> Compiler<'a> {
    /// The tool, how it is called, and the bytes of the description's schemas so far.
    fn compile(mut self) -> Result<(RawTool, Operation, usize), OperationFault> {
        let operation = self.source.operation;
        self.check_method()?;
        let parameters = self.parameters()?;
        let path = self.path()?;
        let in_path = parameters.iter().filter(|p| p.in_path);
        let declared: HashSet<&str> = in_path.map(|p| p.name.as_str()).collect();
        let undeclared: Vec<String> = path
            .parameters()
            .filter(|name| !declared.contains(name))
            .map(str::to_owned)
            .collect();
        if !undeclared.is_empty() {
            return Err(OperationFault::Undeclared(undeclared));
        }
        let output_schema = self.output_schema()?;
        let over = self
            .config
            .overrides
            .get(self.id)
            .cloned()
            .unwrap_or_default();
        let text = |key: &str| {
            operation
                .get(key)
                .and_then(Value::as_str)
                .map(str::to_owned)
        };
        let name = over
            .name
            .or_else(|| text("x-ptc-name"))
            .unwrap_or_else(|| self.id.to_owned());
        let description = over
            .description
            .or_else(|| text("description"))
            .or_else(|| text("summary"));
        let defaults = over
            .default_args
            .or_else(|| {
                operation
                    .get("x-ptc-default-args")
                    .and_then(Value::as_object)
                    .cloned()
            })
            .unwrap_or_default();
        let required: Vec<&str> = parameters
            .iter()
            .filter(|p| (p.in_path || p.required) && !defaults.contains_key(&p.name))
            .map(|p| p.name.as_str())
            .collect();
        let properties: Map<String, Value> = parameters
            .iter()
            .map(|p| (p.name.clone(), p.schema.clone()))
            .collect();
        let input_schema =
            json!({ "type": "object", "properties": properties, "required": required });
        let tool = RawTool {
            name: self.tool_name(&name),
            description: description.unwrap_or_default(),
            schema_keys: SchemaKeys::of(&input_schema),
            input_schema: input_schema.into(),
            output_schema: output_schema.into(),
            annotations: json!({ "readOnlyHint": true }).into(),
            effect: "read",
            ptc: json!({
                "transport": "openapi",
                "operationId": self.id,
                "method": "GET",
                "path": self.source.path,
                "defaultArgs": defaults,
            })
            .into(),
        };
        let query = parameters
            .iter()
            .filter(|p| !p.in_path)
            .map(|p| p.name.clone())
            .collect();
        let defaults = defaults
            .into_iter()
            .map(|(name, value)| (name, scalar(&value)))
            .collect();
        Ok((
            tool,
            Operation {
                path,
                excluded: Arc::clone(self.excluded),
                query,
                defaults,
            },
            self.bytes,
        ))
    }

    /// A tool's name from the name in the description or the config. A name with a redacted part is not normalized, because the
    /// redactor would no longer recognise markers and secrets once letters have lost their case.
    fn tool_name(&self, name: &str) -> String {
        let scrub = |redactor: &Redactor| redactor.scrub_str(name).into_owned();
        let clean = self.scrub_time.spend(self.redactor, scrub);
        match clean == name {
            true => normalize(name),
            false => clean,
        }
    }

    /// The path template; appended to a host it must neither parse as another path nor lead up.
    fn path(&self) -> Result<Template, OperationFault> {
        let path = self.source.path;
        if !path.starts_with('/') {
            return Err(OperationFault::RelativePath(path.to_owned()));
        }
        let template = Template::new(path);
        let sample = template.fill(|_| Ok::<_, PathArgumentFault>("x".to_owned()));
        match sample.is_ok_and(|sample| super::is_plain(&sample.path)) {
            true => Ok(template),
            false => Err(OperationFault::AmbiguousPath(path.to_owned())),
        }
    }

    fn check_method(&self) -> Result<(), OperationFault> {
        let operation = self.source.operation;
        if self.source.method != "get" {
            return Err(OperationFault::Method(self.source.method));
        }
        if operation.get("deprecated") == Some(&Value::Bool(true)) {
            return Err(OperationFault::Deprecated);
        }
        if operation.contains_key("requestBody") {
            return Err(OperationFault::RequestBody);
        }
        let servers = operation
            .get("servers")
            .or_else(|| self.source.item.get("servers"));
        let servers = servers.and_then(Value::as_array).into_iter().flatten();
        let base = origin(&self.config.remote.url);
        let foreign =
            |server: &Value| server.get("url").and_then(Value::as_str).and_then(origin) != base;
        if servers.into_iter().any(foreign) {
            return Err(OperationFault::Servers);
        }
        Ok(())
    }

    /// The path item's parameters, then the operation's; an operation's parameter replaces one of the same name and place.
    fn parameters(&mut self) -> Result<Vec<Parameter>, OperationFault> {
        let lists = [
            self.source.item.get("parameters"),
            self.source.operation.get("parameters"),
        ];
        let mut parameters: Vec<Parameter> = Vec::new();
        let mut places = HashMap::new();
        for entry in lists
            .into_iter()
            .flatten()
            .filter_map(Value::as_array)
            .flatten()
        {
            let entry = self.target(entry, &mut Vec::new())?;
            let name = entry.get("name").and_then(Value::as_str);
            let place = entry.get("in").and_then(Value::as_str);
            let (name, in_path) = match (name, place) {
                (Some(name), Some("path")) => (name.to_owned(), true),
                (Some(name), Some("query")) => (name.to_owned(), false),
                (_, Some(place @ ("header" | "cookie"))) => {
                    return Err(OperationFault::ParameterPlace(place.to_owned()));
                }
                _ => return Err(OperationFault::Parameter(entry.clone())),
            };
            // Any number of references may name it.
            self.count(name.len())?;
            let mut schema = match entry.get("schema") {
                Some(schema) => self.resolve(schema)?,
                None => json!({}),
            };
            if let Value::Object(schema) = &mut schema
                && !["type", "enum", "const", "anyOf", "oneOf", "allOf"]
                    .iter()
                    .any(|key| schema.contains_key(*key))
            {
                schema.insert("type".into(), "string".into());
            }
            let required = entry.get("required") == Some(&Value::Bool(true));
            places.insert((name.clone(), in_path), parameters.len());
            parameters.push(Parameter {
                name,
                in_path,
                required,
                schema,
            });
        }
        // Keeps the last parameter of each name and place.
        let mut at = 0..parameters.len();
        parameters.retain(|one| at.next() == places.get(&(one.name.clone(), one.in_path)).copied());
        Ok(parameters)
    }

    /// The schema of the first JSON content among the 2xx responses, by status; null when all are empty.
    fn output_schema(&mut self) -> Result<Value, OperationFault> {
        let responses = self
            .source
            .operation
            .get("responses")
            .and_then(Value::as_object);
        let mut statuses: Vec<&String> = responses
            .into_iter()
            .flat_map(Map::keys)
            .filter(|status| status.starts_with('2'))
            .collect();
        if statuses.is_empty() {
            return Err(OperationFault::NoResponse);
        }
        statuses.sort();
        let mut other_content = false;
        // Any number of statuses may share one response, which is examined only once.
        let mut seen = HashSet::new();
        for status in statuses {
            let Some(response) = responses.and_then(|responses| responses.get(status)) else {
                continue;
            };
            let shallow = self.target(response, &mut Vec::new())?;
            let Some(content) = shallow.get("content").and_then(Value::as_object) else {
                continue;
            };
            if status == "204" || content.is_empty() || !seen.insert(std::ptr::from_ref(content)) {
                continue;
            }
            let mut kinds: Vec<&String> = content.keys().collect();
            kinds.sort();
            match kinds
                .iter()
                .find(|kind| kind.to_ascii_lowercase().contains("json"))
            {
                Some(kind) => {
                    return match content[*kind].get("schema") {
                        Some(schema) => self.resolve(schema),
                        None => Ok(json!({})),
                    };
                }
                None => other_content = true,
            }
        }
        if other_content {
            return Err(OperationFault::NoJsonResponse);
        }
        Ok(json!({ "type": "null" }))
    }

    /// A copy of `schema` with every reference replaced by its target.
    fn resolve(&mut self, schema: &Value) -> Result<Value, OperationFault> {
        self.resolve_in(Place::Schema, schema, &mut Vec::new())
    }

    /// Like [`resolve`](Self::resolve) for a value in `place`. `open`: the references being resolved.
    fn resolve_in(
        &mut self,
        place: Place,
        value: &Value,
        open: &mut Vec<String>,
    ) -> Result<Value, OperationFault> {
        self.count(match value {
            Value::String(text) => text.len(),
            // A number keeps its digits, however many there are.
            Value::Number(number) => number.as_str().len(),
            Value::Object(entries) => match place.reference(entries) {
                Some(_) => 0,
                None => entries.keys().map(String::len).sum(),
            },
            Value::Null | Value::Bool(_) | Value::Array(_) => 0,
        })?;
        if self.depth > SCHEMA_DEPTH_MAX {
            return Err(OperationFault::Depth);
        }
        self.depth += 1;
        let resolved = self.resolve_inner(place, value, open);
        self.depth -= 1;
        resolved
    }

    fn resolve_inner(
        &mut self,
        place: Place,
        value: &Value,
        open: &mut Vec<String>,
    ) -> Result<Value, OperationFault> {
        match value {
            Value::Object(entries) => {
                if let Some(reference) = place.reference(entries) {
                    let target = self.lookup(reference, open)?;
                    open.push(reference.to_owned());
                    let resolved = self.resolve_in(place, target, open)?;
                    open.pop();
                    return Ok(resolved);
                }
                let mut copy = Map::new();
                for (key, value) in entries {
                    let value = self.resolve_in(place.of_member(key), value, open)?;
                    copy.insert(key.clone(), value);
                }
                Ok(Value::Object(copy))
            }
            Value::Array(items) => items
                .iter()
                .map(|item| self.resolve_in(place, item, open))
                .collect::<Result<_, _>>()
                .map(Value::Array),
            scalar => Ok(scalar.clone()),
        }
    }

    /// The target of `value` when references at its top level are followed. Not a copy: any number of references may name a large
    /// value.
    fn target(
        &mut self,
        value: &'a Value,
        open: &mut Vec<String>,
    ) -> Result<&'a Value, OperationFault> {
        match value.get("$ref").and_then(Value::as_str) {
            Some(reference) => {
                let target = self.lookup(reference, open)?;
                open.push(reference.to_owned());
                self.target(target, open)
            }
            None => Ok(value),
        }
    }

    /// Counts one node of `bytes` bytes.
    fn count(&mut self, bytes: usize) -> Result<(), OperationFault> {
        self.nodes += 1;
        self.charge(bytes)?;
        match self.nodes > NODES_MAX {
            true => Err(OperationFault::Nodes),
            false => Ok(()),
        }
    }

    /// Counts bytes of the description with its references resolved.
    fn charge(&mut self, bytes: usize) -> Result<(), OperationFault> {
        self.bytes += bytes;
        match self.bytes > RESOLVED_BYTES_MAX {
            true => Err(OperationFault::Bytes),
            false => Ok(()),
        }
    }

    /// Follows one reference. Its text is charged because looking up the target takes time in proportion.
    fn lookup(&mut self, reference: &str, open: &[String]) -> Result<&'a Value, OperationFault> {
        self.charge(reference.len())?;
        if open.iter().any(|seen| seen == reference) || open.len() > REFERENCE_DEPTH_MAX {
            return Err(OperationFault::Cyclic(reference.to_owned()));
        }
        let Some(pointer) = reference
            .strip_prefix('#')
            .filter(|pointer| pointer.starts_with("/components/"))
        else {
            return Err(OperationFault::Remote(reference.to_owned()));
        };
        match self.root.pointer(&percent_decode(pointer)) {
            Some(target) => Ok(target),
            None => Err(OperationFault::Unresolvable(reference.to_owned())),
        }
    }
}

/// Percent-decodes the fragment of a reference.
fn percent_decode(pointer: &str) -> String {
    let mut bytes = Vec::with_capacity(pointer.len());
    let mut rest = pointer.as_bytes();
    while let Some((&byte, tail)) = rest.split_first() {
        let hex = tail
            .get(..2)
            .and_then(|pair| std::str::from_utf8(pair).ok());
        match hex
            .filter(|_| byte == b'%')
            .and_then(|pair| u8::from_str_radix(pair, 16).ok())
        {
            Some(decoded) => {
                bytes.push(decoded);
                rest = &tail[2..];
            }
            None => {
                bytes.push(byte);
                rest = tail;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

fn scalar(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Bool(_) | Value::Number(_) => Some(value.to_string()),
        _ => None,
    }
}

/// Scheme, host and port of an absolute URL.
fn origin(url: &str) -> Option<(String, String, u16)> {
    let (scheme, rest) = url.split_once("://")?;
    let scheme = scheme.to_ascii_lowercase();
    let authority = rest.split(['/', '?', '#']).next()?.to_ascii_lowercase();
    let default = if scheme == "https" { 443 } else { 80 };
    match authority.rsplit_once(':') {
        Some((host, port)) if !port.is_empty() && port.bytes().all(|b| b.is_ascii_digit()) => {
            Some((scheme, host.to_owned(), port.parse().ok()?))
        }
        _ => Some((scheme, authority.trim_end_matches(':').to_owned(), default)),
    }
}
