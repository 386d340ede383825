// The official TypeScript SDK against `ptc`, over stdio in every profile and over HTTP: list, call, cancel, close.
// Usage: PTC=/path/to/ptc node typescript_sdk.mjs
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';

const PTC = process.env.PTC ?? 'ptc';
const PORT = process.env.PORT ?? '17477';
const ENDLESS = '(defn f [n] (if (< n 2) n (+ (f (- n 1)) (f (- n 2))))) (f 60)';

async function check(label, transport) {
  const client = new Client({ name: 'check', version: '1' });
  await client.connect(transport);
  const { tools } = await client.listTools();
  assert.equal(tools[0].name, 'lisp_eval');
  const call = (program, options) => client.callTool({ name: 'lisp_eval', arguments: { program } }, undefined, options);
  const three = await call('(+ 1 2)');
  assert.ok(!three.isError && three.content[0].text.includes('user=> 3'));
  assert.equal((await call('(((')).isError, true);
  const abort = new AbortController();
  const slow = call(ENDLESS, { signal: abort.signal });
  setTimeout(() => abort.abort(), 100);
  await assert.rejects(slow);
  assert.equal((await call('1')).isError, false);
  await client.close();
  console.log(`ok   TypeScript SDK, ${label}`);
}

for (const profile of ['slim', 'structured', 'debug']) {
  const args = ['start', '--sessions', '--response-profile', profile, '--log-level', 'error'];
  await check(`stdio, ${profile}`, new StdioClientTransport({ command: PTC, args }));
}
const server = spawn(PTC, ['start', '--http', '--http-port', PORT, '--log-level', 'error'], { stdio: 'inherit' });
for (let tries = 0; tries < 100; tries += 1) {
  const up = await fetch(`http://127.0.0.1:${PORT}/ready`).then((reply) => reply.ok, () => false);
  if (up) break;
  await new Promise((done) => setTimeout(done, 50));
}
try {
  await check('HTTP', new StreamableHTTPClientTransport(new URL(`http://127.0.0.1:${PORT}/mcp`)));
} finally {
  server.kill();
}
