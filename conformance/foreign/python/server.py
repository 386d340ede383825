#!/usr/bin/env python3
"""A server built on the official Python SDK (`pip install mcp`): a small subset, claimed as such in claims.toml.

It knows one tool, `lisp_eval`, which runs what the toy in testee.py can run, and answers as the debug profile does. The SDK does
framing, handshake and dispatch. It validates integers, and knows no other schema.
"""

import asyncio
import json
import pathlib
import sys

from mcp import types
from mcp.server import Server
from mcp.server.stdio import stdio_server

sys.path.insert(0, str(pathlib.Path(__file__).parent))

import testee  # noqa: E402  the toy stands beside this file

SCHEMA = {
    "type": "object",
    "required": ["program"],
    "properties": {"program": {"type": "string"}, "context": {"type": "object"}, "output_schema": {"type": "object"}},
}


def result(payload):
    """A tool result whose text mirrors its structured content."""
    return types.CallToolResult(
        content=[types.TextContent(type="text", text=json.dumps(payload))],
        structured_content=payload,
        is_error=payload["status"] == "error",
    )


def refusal(reason, message):
    """The payload of an error."""
    return {"status": "error", "reason": reason, "message": message, "feedback": message}


async def list_tools(_context, _params):
    tool = types.Tool(name="lisp_eval", description="Adds, subtracts and multiplies.", input_schema=SCHEMA)
    return types.ListToolsResult(tools=[tool])


async def call_tool(_context, params):
    if params.name != "lisp_eval":
        return result(refusal("unknown_tool", f"unknown tool: {params.name}"))
    program = (params.arguments or {}).get("program")
    if program is None:
        return result(refusal("args_error", "argument `program` is required"))
    if not isinstance(program, str) or not program.strip():
        return result(refusal("args_error", "argument `program` must be a non-empty string"))
    reply = testee.answer({"op": "lisp_run", "input": {"program": program}})
    if "error" in reply:
        return result(refusal(reply["error"]["reason"], reply["error"]["message"]))
    ran = reply["ok"]
    payload = {"status": "ok", "prints": ran["prints"], "feedback": "", "truncated": False}
    if ran["result"] is not None:
        payload["result"] = ran["result"]
    schema = (params.arguments or {}).get("output_schema")
    if schema == {"type": "integer"} and ran["value"] is not None:
        payload["validated"] = ran["value"]
    return result(payload)


async def main():
    server = Server("toy", version="1", on_list_tools=list_tools, on_call_tool=call_tool)
    async with stdio_server() as (incoming, outgoing):
        await server.run(incoming, outgoing, server.create_initialization_options())


if __name__ == "__main__":
    asyncio.run(main())
