#!/usr/bin/env python3
"""Three servers behind HAProxy are restarted one after the other while clients of the official Python SDK go on: every call is answered.
Needs redis-server, haproxy and the packages of reference/ptc/tests/clients/requirements.txt.

    PTC=target/release/ptc target/clients/venv/bin/python conformance/foreign/cluster/rolling.py
"""

import asyncio
import os
import pathlib
import shutil
import subprocess
import tempfile
import time
import urllib.error
import urllib.request

from cluster import NODES, PTC, answers, free_ports
from mcp import Client

ROUNDS = int(os.environ.get("ROUNDS", "2"))
# Two of each era: with a session of the protocol, and without.
MODES = ["auto", "legacy"] * 2
CONFIG = pathlib.Path(__file__).parents[3] / "reference/server/dist/cluster/haproxy.cfg"
DELAY = "5000"


def until(what, done, patience=60):
    since = time.monotonic()
    while not done():
        if time.monotonic() - since > patience:
            raise TimeoutError(what)
        time.sleep(0.02)


def instance(port):
    """The instance that says it is ready."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/ready", timeout=5) as reply:
            return reply.read().decode()
    except (OSError, urllib.error.URLError):
        return ""


async def count(url, mode, done, calls):
    """Counts in a session; each turn is kept once, and seen by the next one."""
    async with Client(url, mode=mode) as client:
        started = await client.call_tool("lisp_session_start", {})
        session = started.structured_content["session_id"]
        n = 0
        while not done.is_set():
            arguments = {"session_id": session, "program": "(do (def n (inc (or n 0))) n)"}
            reply = await client.call_tool("lisp_session_eval", arguments)
            n += 1
            assert not reply.is_error and f"user=> {n}\n" in reply.content[0].text + "\n", (n, reply)
            three = await client.call_tool("lisp_eval", {"program": "(+ 1 2)"})
            assert not three.is_error and "user=> 3" in three.content[0].text, three
            calls[mode] = calls.get(mode, 0) + 2


async def main():
    directory = tempfile.mkdtemp(prefix="ptc-rolling-")
    processes = []
    quiet = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL}
    try:
        free = free_ports()
        store = next(free)
        redis = ["redis-server", "--port", str(store), "--bind", "127.0.0.1", "--save", "", "--dir", directory]
        processes.append(subprocess.Popen(redis, **quiet))
        until("redis-server", lambda: answers(store))
        ports = [next(free) for _ in range(NODES)]

        def start(at):
            command = [PTC, "start", "--http", "--sessions", "--http-port", str(ports[at]), "--log-level", "error"]
            command += ["--http-shutdown-delay-ms", DELAY, "--session-store", f"redis://127.0.0.1:{store}"]
            command += ["--max-concurrent-calls", "16"]
            environment = os.environ | {"PTC_RUNNER_MCP_HTTP_INSTANCE_LABEL": f"node{at}"}
            return subprocess.Popen(command, env=environment, **quiet)

        nodes = [start(at) for at in range(NODES)]
        processes += nodes
        text = CONFIG.read_text()
        port = next(free)
        before = text[: text.index("    server-template")].replace("bind :7332", f"bind 127.0.0.1:{port}")
        servers = "".join(f"    server node{at} 127.0.0.1:{node}\n" for at, node in enumerate(ports))
        config = os.path.join(directory, "haproxy.cfg")
        with open(config, "w") as file:
            file.write(before + servers)
        processes.append(subprocess.Popen(["haproxy", "-db", "-q", "-f", config], stderr=subprocess.DEVNULL, **quiet))

        def serves(at):
            until(f"node{at} behind HAProxy", lambda: f"node{at}" in instance(port))

        for at in range(NODES):
            serves(at)
        done, calls = asyncio.Event(), {}
        url = f"http://127.0.0.1:{port}/mcp"
        clients = [asyncio.create_task(count(url, mode, done, calls)) for mode in MODES]

        def restart(at):
            nodes[at].terminate()
            assert nodes[at].wait(timeout=60) == 0
            nodes[at] = start(at)
            processes.append(nodes[at])
            serves(at)

        for _ in range(ROUNDS):
            for at in range(NODES):
                await asyncio.sleep(1)
                await asyncio.to_thread(restart, at)
                for client in clients:
                    if client.done():
                        client.result()
        done.set()
        await asyncio.gather(*clients)
        assert len(calls) == 2, calls
        print(f"ok   {ROUNDS * NODES} restarts under the Python SDK: {sum(calls.values())} calls, none failed")
    finally:
        for process in processes:
            process.kill()
        for process in processes:
            process.wait()
        shutil.rmtree(directory, ignore_errors=True)


if __name__ == "__main__":
    asyncio.run(main())
