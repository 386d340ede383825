// A server on the official TypeScript SDK that has its programs run by another server, a child that speaks over its standard streams. So it
// can do whatever that one can, and its frames, its transports and its JSON are the SDK's:
//
//     RELAYED='target/debug/ptc start' node server.mjs [--http --http-port PORT] [flags of the child]

import { spawn } from "node:child_process";
import { randomUUID } from "node:crypto";
import { createServer } from "node:http";
import { createInterface } from "node:readline";
import { Server } from "@modelcontextprotocol/sdk/server/index.js";
import { StdioServerTransport } from "@modelcontextprotocol/sdk/server/stdio.js";
import { StreamableHTTPServerTransport } from "@modelcontextprotocol/sdk/server/streamableHttp.js";
import { CallToolRequestSchema, ListToolsRequestSchema, McpError } from "@modelcontextprotocol/sdk/types.js";

const given = process.argv.slice(2);
const port = given.includes("--http") ? Number(given[given.indexOf("--http-port") + 1]) : null;
const passed = port === null ? given : given.filter((flag) => flag !== "--http" && flag !== "--http-port" && flag !== String(port));
const [command, ...first] = (process.env.RELAYED ?? "target/debug/ptc start").split(" ");
const child = spawn(command, [...first, ...passed], { stdio: ["pipe", "pipe", "inherit"] });
child.on("exit", (code) => process.exit(code ?? 1));

let last = 0;
const waiting = new Map();
createInterface({ input: child.stdout }).on("line", (line) => {
  const frame = JSON.parse(line);
  waiting.get(frame.id)?.(frame);
  waiting.delete(frame.id);
});

function write(frame) {
  child.stdin.write(`${JSON.stringify({ jsonrpc: "2.0", ...frame })}\n`);
}

function ask(method, params, signal) {
  const id = ++last;
  signal?.addEventListener("abort", () => write({ method: "notifications/cancelled", params: { requestId: id } }));
  return new Promise((resolve, reject) => {
    waiting.set(id, ({ result, error }) => (error ? reject(new McpError(error.code, error.message, error.data)) : resolve(result)));
    write({ id, method, params });
  });
}

await ask("initialize", { protocolVersion: "2025-11-25", capabilities: {}, clientInfo: { name: "relay", version: "1.0.0" } });

function front() {
  const server = new Server({ name: "relay", version: "1.0.0" }, { capabilities: { tools: {} } });
  server.setRequestHandler(ListToolsRequestSchema, ({ params }) => ask("tools/list", params ?? {}));
  server.setRequestHandler(CallToolRequestSchema, ({ params }, { signal }) => ask("tools/call", params, signal));
  return server;
}

async function answer(transports, request, response) {
  const { pathname } = new URL(request.url, "http://localhost");
  const id = request.headers["mcp-session-id"];
  if (pathname !== "/mcp" || (id && !transports.has(id))) {
    const body = pathname === "/health" || pathname === "/ready" ? { status: "ok" } : null;
    response.writeHead(body ? 200 : 404, { "content-type": "application/json" }).end(JSON.stringify(body));
    return;
  }
  let transport = transports.get(id);
  if (!transport) {
    transport = new StreamableHTTPServerTransport({
      sessionIdGenerator: () => randomUUID(),
      onsessioninitialized: (session) => transports.set(session, transport),
      onsessionclosed: (session) => transports.delete(session),
    });
    await front().connect(transport);
  }
  await transport.handleRequest(request, response);
}

if (port === null) {
  await front().connect(new StdioServerTransport());
  process.stdin.on("end", () => child.stdin.end());
} else {
  const transports = new Map();
  createServer((request, response) => answer(transports, request, response)).listen(port, "127.0.0.1");
}
process.on("SIGTERM", () => child.stdin.end());
