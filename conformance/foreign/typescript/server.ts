// A server built on the official TypeScript SDK: one tool, `lisp_eval`, that knows integers, `+`, `*` and `println`.
// It uses no syntax that Node would have to compile: 22.18 runs it as it is, an older one under the name `server.mjs`.

import { Server } from "@modelcontextprotocol/sdk/server/index.js";
import { StdioServerTransport } from "@modelcontextprotocol/sdk/server/stdio.js";
import { CallToolRequestSchema, ListToolsRequestSchema } from "@modelcontextprotocol/sdk/types.js";

const server = new Server({ name: "toy-ts", version: "1.0.0" }, { capabilities: { tools: {} } });

/** A program that fails. */
class Refusal extends Error {
  constructor(reason, message) {
    super(message);
    this.reason = reason;
  }
}

function read(tokens) {
  const token = tokens.shift();
  if (token === undefined) throw new Refusal("parse_error", "the program ends inside a form");
  if (token === ")") throw new Refusal("parse_error", "a stray ')'");
  if (token !== "(") return token;
  const form = [];
  while (tokens.length && tokens[0] !== ")") form.push(read(tokens));
  if (!tokens.length) throw new Refusal("parse_error", "unbalanced parentheses: 1 unclosed '('");
  tokens.shift();
  return form;
}

function evaluate(form, prints) {
  if (form === "nil") return null;
  if (typeof form === "string") {
    if (/^[+-]?\d+$/.test(form)) return BigInt(form);
    throw new Refusal("runtime_error", `Undefined variable: ${form}`);
  }
  const [name, ...rest] = form;
  const values = rest.map((argument) => evaluate(argument, prints));
  if (name === "println") {
    prints.push(values.map((value) => (value === null ? "nil" : String(value))).join(" "));
    return null;
  }
  if (values.includes(null)) throw new Refusal("runtime_error", `type_error: ${name} expects numbers`);
  if (name === "+") return values.reduce((sum, value) => sum + value, 0n);
  if (name === "*") return values.reduce((product, value) => product * value, 1n);
  throw new Refusal("runtime_error", `Undefined variable: ${name}`);
}

function run(program, schema) {
  const code = program.split("\n").map((line) => line.split(";")[0]).join("\n");
  const tokens = code.replaceAll(",", " ").replaceAll("(", " ( ").replaceAll(")", " ) ").split(/\s+/).filter(Boolean);
  const prints = [];
  let value = null;
  const forms = [];
  while (tokens.length) forms.push(read(tokens));
  for (const form of forms) value = evaluate(form, prints);
  const payload = { status: "ok", prints, feedback: "", truncated: false };
  if (value === null) return payload;
  const validated = schema?.type === "integer" ? { validated: Number(value) } : {};
  return { ...payload, result: `user=> ${value}`, ...validated };
}

function answer(payload) {
  return {
    content: [{ type: "text", text: JSON.stringify(payload) }],
    structuredContent: payload,
    isError: payload.status === "error",
  };
}

server.setRequestHandler(ListToolsRequestSchema, async () => ({
  tools: [{ name: "lisp_eval", description: "Adds and multiplies.", inputSchema: { type: "object", required: ["program"], properties: { program: { type: "string" } } } }],
}));

server.setRequestHandler(CallToolRequestSchema, async (request) => {
  try {
    const given = request.params.arguments ?? {};
    return answer(run(String(given.program ?? ""), given.output_schema));
  } catch (error) {
    if (!(error instanceof Refusal)) throw error;
    return answer({ status: "error", reason: error.reason, message: error.message, feedback: error.message });
  }
});

await server.connect(new StdioServerTransport());
