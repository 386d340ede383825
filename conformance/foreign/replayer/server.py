"""An MCP server that does what version 0.12.0 of `ptc_runner_mcp` was recorded to do, and knows nothing else.

Programs are answered from `recorded.jsonl`: a line for each recorded program, found by a digest of program and context. What
was not recorded is an error that says so. The recordings were made in a build whose only change is that keywords stay keywords.
"""

import hashlib
import json
import pathlib
import re
import sys

HERE = pathlib.Path(__file__).parent
NAME = {"name": "ptc_lisp", "version": "0.12.0 as recorded"}
REVISIONS = ("2025-11-25", "2025-06-18")
CUT = re.compile(r"\.\.\.[^\w]{0,9}\((?:truncated|\d+/\d+)|\.\.\.\Z")
# Of longer prints the feedback was cut, which set the flag.
FEEDBACK_CHARS_MAX = 512
EVAL = {
    "name": "lisp_eval",
    "description": "Answers recorded programs.",
    "inputSchema": {
        "type": "object",
        "properties": {name: {"type": kind} for name, kind in (("program", "string"), ("context", "object"), ("output_schema", "object"))},
        "required": ["program"],
    },
}


def digest(program, context):
    text = program + "\0" + json.dumps(context or {}, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def recordings():
    with open(HERE / "recorded.jsonl", encoding="utf-8") as lines:
        return {row.pop("key"): row for row in map(json.loads, lines)}


def was_cut(row):
    """Whether the texts say so; not every recording kept the flag."""
    prints = row.get("prints", [])
    return any(CUT.search(text) for text in [row.get("result") or "", *prints]) or len("\n".join(prints)) > FEEDBACK_CHARS_MAX


def refused(arguments):
    """What the server refused before it read the program, recorded apart from the programs."""
    if not arguments.get("program", "").strip():
        return "argument `program` must be a non-empty string"
    keys = arguments.get("context") or {}
    if any("/" in key or not key for key in keys):
        return "argument `context` has a key that cannot be read"
    return None


def payload(row, wants_json):
    """The structured content of the debug profile."""
    if row is None:
        row = {"reason": "runtime_error", "message": "this program was not recorded"}
    if "reason" in row:
        error = {"status": "error", "reason": row["reason"], "message": row["message"], "feedback": row["message"]}
        return error | ({"result": row["result"]} if row.get("result") is not None else {})
    answer = {"status": "ok", "result": row.get("result"), "prints": row.get("prints", []), "feedback": "", "truncated": row.get("truncated", was_cut(row))}
    return answer | ({"validated": row["json"]} if wants_json and "json" in row else {})


def call(recorded, params):
    arguments = params.get("arguments") or {}
    why = refused(arguments)
    if why:
        row = {"reason": "args_error", "message": why}
    else:
        row = recorded.get(digest(arguments["program"], arguments.get("context")))
    content = payload(row, "output_schema" in arguments)
    text = json.dumps(content, ensure_ascii=False)
    return {"content": [{"type": "text", "text": text}], "structuredContent": content, "isError": content["status"] == "error"}


def answer(recorded, frame):
    method, params = frame.get("method"), frame.get("params") or {}
    if method == "initialize":
        asked = params.get("protocolVersion")
        revision = asked if asked in REVISIONS else REVISIONS[0]
        return {"result": {"protocolVersion": revision, "capabilities": {"tools": {"listChanged": False}}, "serverInfo": NAME}}
    if method == "tools/list":
        return {"result": {"tools": [EVAL]}}
    if method == "tools/call":
        return {"result": call(recorded, params)}
    # `ping` was not known either.
    return {"error": {"code": -32601, "message": "Method not found"}}


def main():
    recorded = recordings()
    for line in sys.stdin.buffer:
        try:
            frame = json.loads(line)
            ident = {"jsonrpc": "2.0", "id": frame.get("id")}
            reply = ident | answer(recorded, frame) if "id" in frame else None
        except (ValueError, AttributeError):
            reply = {"jsonrpc": "2.0", "id": None, "error": {"code": -32700, "message": "Parse error"}}
        if reply:
            sys.stdout.write(json.dumps(reply, ensure_ascii=True) + "\n")
            sys.stdout.flush()


main()
