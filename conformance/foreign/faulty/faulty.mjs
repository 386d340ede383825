// An MCP server on the official TypeScript SDK with one planted fault, named by the first argument: `node faulty.mjs FAULT`.
// Without a fault, or with `none`, it is right. What each fault breaks: faults.tsv beside this file.
import { McpServer } from "@modelcontextprotocol/sdk/server/mcp.js";
import { StdioServerTransport } from "@modelcontextprotocol/sdk/server/stdio.js";
import { z } from "zod";

const fault = process.argv[2] ?? "none";
const is = (name) => fault === name;

const server = new McpServer({ name: "faulty", version: "1.0.0" }, { capabilities: { logging: {} } });
server.registerTool(
  "add",
  {
    description: "Adds two numbers",
    inputSchema: { a: z.number(), b: z.number() },
    outputSchema: { sum: z.number() },
    annotations: { readOnlyHint: true },
  },
  async ({ a, b }, extra) => {
    if (is("logs-to-stdout")) console.log(`adding ${a} and ${b}`);
    const token = extra._meta?.progressToken;
    if (token !== undefined) {
      const steps = is("progress-backwards") ? [2, 1] : is("progress-stands") ? [1, 1] : [1, 2];
      for (const progress of steps) {
        const params = { progressToken: is("progress-foreign-token") ? "another" : token, progress, total: 2 };
        await extra.sendNotification({ method: "notifications/progress", params });
      }
    }
    const sum = a + b;
    return { content: [{ type: "text", text: JSON.stringify({ sum }) }], structuredContent: { sum } };
  },
);
server.registerTool(
  "wait",
  { description: "Waits", inputSchema: {}, annotations: { readOnlyHint: true } },
  async (_, extra) => {
    await new Promise((done) => {
      const timer = setTimeout(done, 1000);
      extra.signal.addEventListener("abort", () => (clearTimeout(timer), done()));
    });
    return { content: [{ type: "text", text: "waited" }] };
  },
);
server.registerPrompt("greet", { description: "Greets", argsSchema: { name: z.string() } }, ({ name }) => ({
  messages: [{ role: "user", content: { type: "text", text: `Hello, ${name}!` } }],
}));
server.registerResource("readme", "demo://readme", { mimeType: "text/plain" }, async (uri) => ({
  contents: [{ uri: uri.href, text: "Read me." }],
}));

// What the SDK does right is broken on the way out, or on the way in.
const methods = new Map();
const answer = (message, method) => {
  const result = message.result;
  if (is("text-ids") && typeof message.id === "number") message.id = String(message.id);
  if (is("drops-id-zero") && message.id === 0) return null;
  if (is("version-2.1")) message.jsonrpc = "2.1";
  if (is("error-code-text") && message.error) message.error.code = String(message.error.code);
  if (is("unknown-method-succeeds") && message.error?.code === -32601) return { jsonrpc: "2.0", id: message.id, result: {} };
  if (is("ping-pongs") && method === "ping") result.pong = true;
  if (is("null-cursor") && method === "tools/list" && result) result.nextCursor = null;
  if (is("looping-cursor") && method === "tools/list" && result) result.nextCursor = "again";
  if (is("no-input-schema") && method === "tools/list" && result) delete result.tools[0].inputSchema;
  if (is("input-schema-broken") && method === "tools/list" && result) result.tools[0].inputSchema.properties.a = { type: "numeral" };
  if (is("content-text") && method === "tools/call" && result) result.content = "3";
  if (is("breaks-output-schema") && method === "tools/call" && result?.structuredContent) result.structuredContent = { sum: "two" };
  if (is("unknown-tool-succeeds") && method === "tools/call" && (message.error || result?.isError)) {
    return { jsonrpc: "2.0", id: message.id, result: { content: [] } };
  }
  if (is("prompt-role") && method === "prompts/get" && result) result.messages[0].role = "system";
  if (is("resource-without-contents") && method === "resources/read" && result) delete result.contents[0].text;
  if (is("undeclared-tools") && method === "initialize" && result) delete result.capabilities.tools;
  if (is("no-server-version") && method === "initialize" && result) delete result.serverInfo.version;
  return message;
};

const transport = new StdioServerTransport();
const send = transport.send.bind(transport);
transport.send = async (message) => {
  const method = methods.get(message.id);
  const isResponse = "result" in message || "error" in message;
  const sent = isResponse ? answer(structuredClone(message), method) : message;
  if (sent === null) return;
  if (is("pretty")) return void process.stdout.write(`${JSON.stringify(sent, null, 2)}\n`);
  if (is("batches") && isResponse) return void process.stdout.write(`${JSON.stringify([sent])}\n`);
  if (is("answers-twice") && isResponse) await send(sent);
  await send(sent);
  if (is("asks-for-roots") && method === "tools/list") {
    process.stdout.write('{"jsonrpc":"2.0","id":"roots-1","method":"roots/list"}\n');
  }
};
await server.connect(transport);
const receive = transport.onmessage;
transport.onmessage = (message, extra) => {
  if ("id" in message && "method" in message) methods.set(message.id, message.method);
  if (is("echoes-revision") && message.method === "initialize") {
    const { protocolVersion } = message.params;
    const result = { protocolVersion, capabilities: { tools: {} }, serverInfo: { name: "faulty", version: "1.0.0" } };
    return void send({ jsonrpc: "2.0", id: message.id, result });
  }
  if (is("answers-notifications") && !("id" in message) && message.method !== "notifications/initialized") {
    return void send({ jsonrpc: "2.0", id: message.method, result: {} });
  }
  if (is("answers-cancelled") && message.method === "notifications/cancelled") return;
  if (is("dies-on-unknown-method") && message.method?.startsWith("touchstone")) process.exit(1);
  receive(message, extra);
};
if (is("banner")) process.stdout.write("Faulty MCP server, version 1.0.0\n");
if (is("banner-after-start")) setTimeout(() => process.stdout.write("ready\n"), 50);
if (is("lingers")) setInterval(() => {}, 1000);
