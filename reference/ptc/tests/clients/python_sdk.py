"""The official Python SDK against `ptc`, over stdio and HTTP, in the stateless revision and with a handshake: list, call, cancel, close.

Usage: PTC=/path/to/ptc python python_sdk.py
"""

import asyncio
import os
import subprocess
import time
import urllib.request

from mcp import Client, stdio_client
from mcp.client.stdio import StdioServerParameters

PTC = os.environ.get("PTC", "ptc")
PORT = os.environ.get("PORT", "17478")
URL = f"http://127.0.0.1:{PORT}"
ENDLESS = "(defn f [n] (if (< n 2) n (+ (f (- n 1)) (f (- n 2))))) (f 60)"
# Long enough that a cancelled program that went on would still hold the only place.
SETTINGS = ["--max-concurrent-calls", "1", "--program-timeout-ms", "60000", "--log-level", "error"]


async def check(label: str, target, mode: str, revision: str) -> None:
    async with Client(target, mode=mode) as client:
        assert client.protocol_version == revision, client.protocol_version

        async def call(program: str, **more):
            return await client.call_tool("lisp_eval", {"program": program, **more})

        listed = await client.list_tools()
        assert listed.tools[0].name == "lisp_eval"
        three = await call("(+ 1 2)")
        assert not three.is_error and "user=> 3" in three.content[0].text, three
        schema = {"type": "object", "properties": {"a": {"type": "integer"}}}
        assert not (await call("{:a 1}", output_schema=schema)).is_error
        assert (await call("(((")).is_error
        slow = asyncio.create_task(call(ENDLESS))
        await asyncio.sleep(0.2)
        slow.cancel()
        try:
            await slow
            raise AssertionError("the call was not cancelled")
        except asyncio.CancelledError:
            pass
        # The cancelled program held the only place; it is free as soon as the cancellation arrives.
        for _ in range(100):
            after = await call("(+ 40 2)")
            if not after.is_error:
                break
            await asyncio.sleep(0.02)
        assert "user=> 42" in after.content[0].text, after
    print(f"ok   Python SDK, {label}, {revision}", flush=True)


def stdio(profile: str):
    arguments = ["start", "--response-profile", profile, *SETTINGS]
    return stdio_client(StdioServerParameters(command=PTC, args=arguments))


def wait_until_ready() -> None:
    for _ in range(200):
        try:
            urllib.request.urlopen(f"{URL}/ready").close()
            return
        except OSError:
            time.sleep(0.05)


async def main() -> None:
    for profile in ("slim", "structured", "debug"):
        await check(f"stdio, {profile}", stdio(profile), "auto", "2026-07-28")
        await check(f"stdio, {profile}", stdio(profile), "legacy", "2025-11-25")
    server = subprocess.Popen([PTC, "start", "--http", "--http-port", PORT, *SETTINGS])
    try:
        wait_until_ready()
        await check("HTTP", f"{URL}/mcp", "auto", "2026-07-28")
        await check("HTTP", f"{URL}/mcp", "legacy", "2025-11-25")
    finally:
        server.terminate()
        assert server.wait() == 0


asyncio.run(main())
