"""An MCP server on the official Python SDK with one planted fault, named by the first argument: `python3 faulty.py FAULT`.

Without a fault, or with `none`, it is right. The faults sit between the SDK and the standard streams, as a bad transport would.
What each breaks: faults.tsv beside this file.
"""

import json
import os
import sys
import threading
import time

FAULT = sys.argv[1] if len(sys.argv) > 1 else "none"


def fault(name):
    return FAULT == name


def outgoing(line, write):
    """A line of the SDK on its way out."""
    message = json.loads(line)
    response = "method" not in message
    if fault("numbers-of-ids") and response and isinstance(message.get("id"), str):
        message["id"] = 0
    if fault("result-and-error") and "result" in message:
        message["error"] = {"code": 0, "message": "none"}
    if fault("no-jsonrpc"):
        del message["jsonrpc"]
    if fault("empty-lines"):
        write(b"\n")
    if fault("latin-1"):
        return write(json.dumps(message, ensure_ascii=False).encode("latin-1", "replace") + b"\n")
    if fault("image-data") and response and isinstance(message.get("result", {}).get("content"), list):
        message["result"]["content"] = [{"type": "image", "data": "not base64!", "mimeType": "image/png"}]
    if fault("content-without-type") and response:
        for block in message.get("result", {}).get("content", []):
            block.pop("type", None)
    if fault("names-with-blanks") and response:
        for tool in message.get("result", {}).get("tools", []):
            tool["name"] = tool["name"] + " tool"
    write(json.dumps(message, ensure_ascii=False).encode() + b"\n")


def incoming(line, write, reply):
    """A line of the client on its way in."""
    if fault("wants-bare-newlines") and line.endswith(b"\r\n"):
        return
    if fault("dies-on-garbage"):
        try:
            json.loads(line)
        except ValueError:
            os._exit(1)
    if fault("drops-long-lines") and len(line) > 65536:
        return
    if fault("wants-params") and b'"tools/list"' in line and b'"params"' not in line:
        return reply({"jsonrpc": "2.0", "id": json.loads(line).get("id"), "error": {"code": -32602, "message": "params?"}})
    if fault("takes-any-arguments") and b'"tools/call"' in line:
        request = json.loads(line)
        if not isinstance(request["params"].get("arguments", {}).get("text"), str):
            return reply({"jsonrpc": "2.0", "id": request["id"], "result": {"content": []}})
    write(line)


def relay(source, act):
    """Hands lines on until the source ends; one that arrives in pieces is put together, unless the fault is not to."""
    pending = b""
    while chunk := os.read(source, 65536):
        if fault("reads-by-chunks") and source == 0 + CLIENT:
            act(chunk if chunk.endswith(b"\n") else chunk + b"\n")
            continue
        pending += chunk
        *lines, pending = pending.split(b"\n")
        for line in lines:
            act(line + b"\n")


CLIENT = os.dup(0)
CONSOLE = os.dup(1)
to_sdk_read, to_sdk_write = os.pipe()
from_sdk_read, from_sdk_write = os.pipe()
os.dup2(to_sdk_read, 0)
os.dup2(from_sdk_write, 1)
os.close(to_sdk_read)
os.close(from_sdk_write)
lock = threading.Lock()


def console(data):
    with lock:
        os.write(CONSOLE, data)


def reply(message):
    console(json.dumps(message).encode() + b"\n")


def from_client():
    relay(CLIENT, lambda line: incoming(line, lambda data: os.write(to_sdk_write, data), reply))
    os.close(to_sdk_write)
    if fault("lingers"):
        time.sleep(60)


def from_sdk():
    relay(from_sdk_read, lambda line: outgoing(line, console))


if fault("banner"):
    console(b"Starting the server...\n")

from mcp.server.mcpserver import MCPServer  # noqa: E402: the standard streams are prepared before it is loaded
from mcp_types import ToolAnnotations  # noqa: E402

server = MCPServer("faulty", version="1.0.0")


@server.tool(annotations=ToolAnnotations(readOnlyHint=True), structured_output=False)
def shout(text: str) -> str:
    """Says it in capitals."""
    return text.upper()


threading.Thread(target=from_client, daemon=not fault("lingers")).start()
writer = threading.Thread(target=from_sdk, daemon=True)
writer.start()
server.run("stdio")
os.close(1)
writer.join(2)
