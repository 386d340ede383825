// The official TypeScript SDKs against `ptc`, over stdio and HTTP, in each revision that they speak: list, call, cancel, close.
// Usage: PTC=/path/to/ptc node typescript_sdk.mjs
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { Client } from '@modelcontextprotocol/client';
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { Client as ClientV1 } from '@modelcontextprotocol/sdk/client/index.js';
import { StdioClientTransport as StdioV1 } from '@modelcontextprotocol/sdk/client/stdio.js';
import { StreamableHTTPClientTransport as HttpV1 } from '@modelcontextprotocol/sdk/client/streamableHttp.js';

const PTC = process.env.PTC ?? 'ptc';
const PORT = process.env.PORT ?? '17477';
const URL_OF_ENDPOINT = new URL(`http://127.0.0.1:${PORT}/mcp`);
const ENDLESS = '(defn f [n] (if (< n 2) n (+ (f (- n 1)) (f (- n 2))))) (f 60)';
// Long enough that a cancelled program that went on would still hold the only place.
const SETTINGS = ['--max-concurrent-calls', '1', '--program-timeout-ms', '60000', '--log-level', 'error'];
const WHO = { name: 'check', version: '1' };

// Each revision, and a client that speaks it.
const CLIENTS = [
  ['v1', '2025-11-25', () => new ClientV1(WHO), StdioV1, HttpV1],
  ['v2', '2025-06-18', () => legacy('2025-06-18'), StdioClientTransport, StreamableHTTPClientTransport],
  ['v2', '2025-11-25', () => legacy('2025-11-25'), StdioClientTransport, StreamableHTTPClientTransport],
  ['v2', '2026-07-28', modern, StdioClientTransport, StreamableHTTPClientTransport],
];

function legacy(revision) {
  return new Client(WHO, { supportedProtocolVersions: [revision], versionNegotiation: { mode: 'legacy' } });
}

function modern() {
  return new Client(WHO, { versionNegotiation: { mode: { pin: '2026-07-28' } } });
}

async function check(label, version, revision, client, transport) {
  await client.connect(transport);
  if (client.getNegotiatedProtocolVersion) assert.equal(client.getNegotiatedProtocolVersion(), revision);
  const { tools } = await client.listTools();
  assert.equal(tools[0].name, 'lisp_eval');
  const call = (program, options) => {
    const params = { name: 'lisp_eval', arguments: { program } };
    return version === 'v1' ? client.callTool(params, undefined, options) : client.callTool(params, options);
  };
  const three = await call('(+ 1 2)');
  assert.ok(!three.isError && three.content[0].text.includes('user=> 3'), JSON.stringify(three));
  assert.equal((await call('(((')).isError, true);
  const abort = new AbortController();
  const slow = call(ENDLESS, { signal: abort.signal });
  setTimeout(() => abort.abort(), 200);
  await assert.rejects(slow);
  // The cancelled program held the only place; it is free as soon as the cancellation arrives.
  let after;
  for (let tries = 0; tries < 100; tries += 1) {
    after = await call('(+ 40 2)');
    if (!after.isError) break;
    await new Promise((done) => setTimeout(done, 20));
  }
  assert.ok(after.content[0].text.includes('user=> 42'), JSON.stringify(after));
  if (transport.terminateSession && transport.sessionId) await transport.terminateSession();
  await client.close();
  console.log(`ok   TypeScript SDK ${version}, ${label}, ${revision}`);
}

for (const profile of ['slim', 'structured', 'debug']) {
  const args = ['start', '--sessions', '--response-profile', profile, ...SETTINGS];
  for (const [version, revision, client, Stdio] of CLIENTS) {
    await check(`stdio, ${profile}`, version, revision, client(), new Stdio({ command: PTC, args }));
  }
}
const server = spawn(PTC, ['start', '--http', '--http-port', PORT, ...SETTINGS], { stdio: 'inherit' });
try {
  for (let tries = 0; tries < 200; tries += 1) {
    const up = await fetch(`http://127.0.0.1:${PORT}/ready`).then((reply) => reply.ok, () => false);
    if (up) break;
    await new Promise((done) => setTimeout(done, 50));
  }
  for (const [version, revision, client, , Http] of CLIENTS) {
    await check('HTTP', version, revision, client(), new Http(URL_OF_ENDPOINT));
  }
} finally {
  server.kill();
  const [status] = await once(server, 'exit');
  assert.equal(status, 0);
}
