"""The official Python SDK against `ptc`, over stdio and HTTP, in the stateless revision and with a handshake.

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


async def check(label: str, target, mode: str, revision: str) -> None:
    async with Client(target, mode=mode) as client:
        assert client.protocol_version == revision, client.protocol_version
        listed = await client.list_tools()
        assert listed.tools[0].name == "lisp_eval"
        three = await client.call_tool("lisp_eval", {"program": "(+ 1 2)"})
        assert not three.is_error and "user=> 3" in three.content[0].text
        schema = {"type": "object", "properties": {"a": {"type": "integer"}}}
        shaped = await client.call_tool("lisp_eval", {"program": "{:a 1}", "output_schema": schema})
        assert not shaped.is_error
        assert (await client.call_tool("lisp_eval", {"program": "((("})).is_error
    print(f"ok   Python SDK, {label}, {revision}")


def stdio(profile: str):
    arguments = ["start", "--response-profile", profile, "--log-level", "error"]
    return stdio_client(StdioServerParameters(command=PTC, args=arguments))


def wait_until_ready() -> None:
    for _ in range(100):
        try:
            urllib.request.urlopen(f"{URL}/ready").close()
            return
        except OSError:
            time.sleep(0.05)


async def main() -> None:
    for profile in ("slim", "structured", "debug"):
        await check(f"stdio, {profile}", stdio(profile), "auto", "2026-07-28")
        await check(f"stdio, {profile}", stdio(profile), "legacy", "2025-11-25")
    server = subprocess.Popen([PTC, "start", "--http", "--http-port", PORT, "--log-level", "error"])
    try:
        wait_until_ready()
        await check("HTTP", f"{URL}/mcp", "auto", "2026-07-28")
        await check("HTTP", f"{URL}/mcp", "legacy", "2025-11-25")
    finally:
        server.terminate()
        assert server.wait() == 0


asyncio.run(main())
