"""An MCP server that is right in an unusual way, on Python's standard library: `unusual.py WAY` speaks over its standard streams, `unusual.py WAY PORT`
over Streamable HTTP. No judge may accuse it. The ways: `ways.tsv` beside this file.
"""

import json
import random
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

WAY = sys.argv[1] if len(sys.argv) > 1 else "plain"
REVISIONS = {"only-2024-11-05": ["2024-11-05"], "only-2025-03-26": ["2025-03-26"], "only-2025-06-18": ["2025-06-18"]}.get(WAY, ["2025-11-25", "2025-06-18"])


def way(*names):
    return WAY in names


def described(name, schema, **more):
    annotations = {} if way("no-hints") else {"annotations": {"readOnlyHint": True}}
    return {"name": name, "description": name, "inputSchema": schema} | annotations | more


SCHEMAS = {
    "bare": {"type": "object"},
    "draft-07": {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "type": "object",
        "properties": {"place": {"$ref": "#/definitions/place"}},
        "required": ["place"],
        "definitions": {"place": {"type": "object", "properties": {"lat": {"type": "number", "minimum": -90, "maximum": 90}}, "required": ["lat"]}},
    },
    "one-of": {
        "type": "object",
        "properties": {"by": {"oneOf": [{"type": "object", "properties": {"kind": {"const": "id"}, "id": {"type": "integer"}}, "required": ["kind", "id"]}, {"type": "null"}]}},
        "required": ["by"],
    },
    "newer": {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$defs": {"pair": {"type": "array", "prefixItems": [{"type": "string"}, {"type": "integer"}], "minItems": 2, "items": False}},
        "type": "object",
        "properties": {"pair": {"$ref": "#/$defs/pair"}, "a": {"type": "string"}, "b": {"type": "string"}},
        "dependentRequired": {"a": ["b"]},
        "unevaluatedProperties": False,
    },
    "conditional": {
        "type": "object",
        "properties": {"unit": {"enum": ["c", "f"]}, "limit": {"type": ["integer", "null"], "exclusiveMinimum": 0}},
        "if": {"properties": {"unit": {"const": "f"}}, "required": ["unit"]},
        "then": {"required": ["limit"]},
    },
    "pattern": {"type": "object", "properties": {"id": {"type": "string", "pattern": "^[A-Z]{3}-\\d+$"}}, "required": ["id"]},
    "anchored": {"$id": "https://example.com/schemas/tool", "type": "object", "properties": {"x": {"$ref": "#x"}}, "$defs": {"x": {"$anchor": "x", "type": "string", "format": "date"}}},
    "recursive": {"type": "object", "properties": {"tree": {"$ref": "#/$defs/node"}}, "$defs": {"node": {"type": "object", "properties": {"children": {"type": "array", "items": {"$ref": "#/$defs/node"}}}}}},
}


def tools():
    if way("no-tools"):
        return []
    if way("schemas"):
        return [described(name, schema) for name, schema in SCHEMAS.items()]
    if way("big-pages"):
        return [described(f"tool-{n}", {"type": "object", "properties": {}}, title="t" * 2000) for n in range(400)]
    if way("unicode"):
        return [described("hinzufügen", {"type": "object", "properties": {"größe": {"type": "string"}}, "required": ["größe"]}), described("plain", {"type": "object"})]
    schema = {"type": "object", "properties": {"a": {"type": "number"}, "b": {"type": "number"}}, "required": ["a", "b"]}
    output = {"type": "object", "properties": {"sum": {"type": "number"}}, "required": ["sum"]}
    return [described("add", schema, outputSchema=output), described("now", {"type": "object", "additionalProperties": False})]


def capabilities():
    if way("only-prompts"):
        return {"prompts": {}}
    if way("only-resources"):
        return {"resources": {}}
    if way("nothing"):
        return {}
    more = {"logging": {}} if way("chatty") else {}
    return {"tools": {"listChanged": way("chatty")}, "experimental": {"example.com/x": {}}} | more


class Refused(Exception):
    def __init__(self, code, message, data=None):
        super().__init__(message)
        self.error = {"code": code, "message": message} | ({} if data is None else {"data": data})


def paged(member, items, params, size):
    try:
        start = int(params.get("cursor", "0"))
        if not 0 <= start < max(len(items), 1):
            raise ValueError
    except (TypeError, ValueError):
        raise Refused(-32602, "there is no such cursor") from None
    more = {"nextCursor": str(start + size)} if start + size < len(items) else {}
    return {member: items[start : start + size]} | more


def misfit(arguments, known):
    schema = known["inputSchema"]
    if not isinstance(arguments, dict) or any(name not in arguments for name in schema.get("required", [])):
        return True
    numbers = [name for name, one in schema.get("properties", {}).items() if one.get("type") == "number"]
    texts = [name for name, one in schema.get("properties", {}).items() if one.get("type") == "string"]
    wrong = any(isinstance(arguments.get(name, 0), (dict, list, str, bool)) for name in numbers)
    wrong = wrong or any(not isinstance(arguments.get(name, ""), str) for name in texts)
    refs = [name for name in schema.get("properties", {}) if isinstance(arguments.get(name), list) or "unexpected" in str(arguments.get(name))]
    return wrong or (way("schemas") and bool(refs)) or (schema.get("additionalProperties") is False and bool(set(arguments) - set(schema.get("properties", {}))))


def called(params):
    known = next((tool for tool in tools() if tool["name"] == params.get("name")), None)
    if known is None:
        raise Refused(-32602, "there is no such tool")
    arguments = params.get("arguments", {})
    if misfit(arguments, known):
        return {"content": [{"type": "text", "text": "these arguments do not fit"}], "isError": True}
    if way("tools-fail"):
        return {"content": [{"type": "text", "text": "no API key is set"}], "isError": True}
    if "outputSchema" in known:
        total = {"sum": arguments["a"] + arguments["b"]}
        return {"content": [{"type": "text", "text": json.dumps(total, indent=2)}, {"type": "text", "text": "done"}], "structuredContent": total}
    link = {"type": "resource_link", "uri": "demo://a", "name": "a"}
    blocks = [{"type": "text", "text": "a\u2028b\x00" * (20_000 if way("long-texts") else 1)}, {"type": "image", "data": "iVBORw0KGgo=", "mimeType": "image/png", "annotations": {"priority": 0.5, "audience": ["user"]}}]
    return {"content": [] if way("no-content") else blocks + [link], "_meta": {"example.com/took": 1}}


PROMPTS = [{"name": "welcome"}, {"name": "letter", "arguments": [{"name": "to", "description": "whom", "required": True}, {"name": "from"}]}]


def prompted(params):
    known = next((prompt for prompt in PROMPTS if prompt["name"] == params.get("name")), None)
    if known is None or any(one.get("required") and one["name"] not in params.get("arguments", {}) for one in known.get("arguments", [])):
        raise Refused(-32602, "there is no such prompt, or it lacks an argument")
    return {"description": "d", "messages": [{"role": "assistant", "content": {"type": "resource", "resource": {"uri": "demo://a", "text": ""}}}] if way("only-resources") else []}


def read(params):
    if params.get("uri") != "urn:example:a%20b":
        raise Refused(-32002, "there is no such resource", {"uri": params.get("uri")})
    return {"contents": []} if way("empty-resource") else {"contents": [{"uri": "urn:example:a%20b/1", "blob": ""}, {"uri": "urn:example:a%20b/2", "text": "", "mimeType": "text/plain"}]}


def initialized(params):
    asked = params.get("protocolVersion")
    return {
        "protocolVersion": asked if asked in REVISIONS else REVISIONS[0],
        "capabilities": capabilities(),
        "serverInfo": {"name": "unusual", "version": "0.0.0-α", "x-more": None} if way("unicode") else {"name": "unusual", "version": ""},
        "instructions": "i" * (200_000 if way("long-texts") else 3),
    }


METHODS = {"initialize": (None, initialized), "ping": (None, lambda _: {})}
METHODS |= {"tools/list": ("tools", lambda params: paged("tools", tools(), params, 37)), "tools/call": ("tools", called)}
METHODS |= {"prompts/list": ("prompts", lambda params: paged("prompts", PROMPTS, params, 1)), "prompts/get": ("prompts", prompted)}
METHODS |= {"resources/list": ("resources", lambda params: paged("resources", [{"uri": "urn:example:a%20b", "name": "a"}], params, 5)), "resources/read": ("resources", read)}
METHODS |= {"resources/templates/list": ("resources", lambda _: {"resourceTemplates": []})}
LEVELS = ["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"]


def level(params):
    if params.get("level") not in LEVELS:
        raise Refused(-32602, "there is no such level")
    return {}


METHODS["logging/setLevel"] = ("logging", level)


def answer(message):
    """The response to a message; nothing to a notification."""
    head = {"jsonrpc": "2.0"}
    if not isinstance(message, dict) or message.get("jsonrpc") != "2.0" or not isinstance(message.get("method"), str):
        if isinstance(message, dict) and ("result" in message or "error" in message):
            return None
        return head | {"id": None, "error": {"code": -32600, "message": "that is no request"}}
    if "id" not in message:
        return None
    if isinstance(message["id"], bool) or not isinstance(message["id"], (str, int)):
        return head | {"id": None, "error": {"code": -32600, "message": "an id is a string or an integer"}}
    params = message.get("params", {})
    try:
        needs, handle = METHODS.get(message["method"], ("never", None))
        if handle is None or (needs and needs not in capabilities()):
            raise Refused(-32601, "there is no such method", {"method": message["method"]})
        if not isinstance(params, dict) or not isinstance(params.get("arguments", {}), dict):
            raise Refused(-32602, "params are an object")
        return head | {"id": message["id"], "result": handle(params)}
    except Refused as refused:
        return {"error": refused.error, "id": message["id"]} | head


def noise():
    """What a server may tell at any time."""
    yield {"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}
    yield {"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "logger": "x", "data": {"any": [1, None]}}}
    yield {"jsonrpc": "2.0", "method": "notifications/example.com/whatever", "params": {"_meta": {"example.com/x": 1}}}


def over_stdio():
    out, lock, workers = sys.stdout.buffer, threading.Lock(), []

    def write(message):
        text = json.dumps(message, ensure_ascii=not way("unicode"), separators=(", ", " : ") if way("spaced") else None)
        with lock:
            data = text.encode() + (b"\r\n" if way("crlf") else b"\n")
            if way("pieces"):
                for piece in (data[:7], data[7:]):
                    out.write(piece)
                    out.flush()
                    time.sleep(0.005)
                return
            out.write(data)
            out.flush()

    def work(message):
        if way("out-of-order"):
            time.sleep(random.random() * 0.15)
        said = answer(message)
        if way("chatty"):
            for told in noise():
                write(told)
        if said is not None:
            write(said)

    if way("slow-start"):
        time.sleep(4)
    if way("noisy-stderr"):
        sys.stderr.write(("x" * 200 + "\n") * 20_000)
        sys.stderr.flush()
    pings = 0
    for line in sys.stdin.buffer:
        try:
            message = json.loads(line)
        except ValueError:
            write({"jsonrpc": "2.0", "id": None, "error": {"code": -32700, "message": "that is no JSON"}})
            continue
        if way("pings-first") and isinstance(message, dict) and "method" in message:
            pings += 1
            write({"jsonrpc": "2.0", "id": ["ü" * 300, 2**53 - 1 - pings, f"ping {pings}"][pings % 3], "method": "ping"})
        if way("out-of-order"):
            workers.append(threading.Thread(target=work, args=(message,)))
            workers[-1].start()
        else:
            work(message)
    for worker in workers:
        worker.join()


SESSIONS = set()


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.0" if way("http-1.0") else "HTTP/1.1"

    def log_message(self, *_):
        pass

    def reply(self, status, body=b"", kind=None, **headers):
        self.send_response(status)
        if kind:
            self.send_header("content-type", kind)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def refused(self):
        """Whether the request may not even be read."""
        origin, host = self.headers.get("Origin"), self.headers.get("Host", "")
        if origin is not None and "://localhost" not in origin and "://127.0.0.1" not in origin:
            self.reply(403, b'{"jsonrpc":"2.0","error":{"code":-32000,"message":"Forbidden"}}', "application/json")
            return True
        if host.rsplit(":", 1)[0] not in ("127.0.0.1", "localhost"):
            self.reply(421)
            return True
        return False

    def session(self, message):
        """Whether the request is of a session that goes on."""
        if way("stateless") or (isinstance(message, dict) and message.get("method") == "initialize"):
            return True
        named = self.headers.get("Mcp-Session-Id")
        if named is None:
            self.reply(400, b'{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"no session"}}', "application/json")
        elif named not in SESSIONS:
            self.reply(404)
        return named in SESSIONS

    def do_GET(self):
        if not self.refused():
            self.reply(405, allow="POST, DELETE")

    def do_DELETE(self):
        if self.refused():
            return
        if way("stateless"):
            return self.reply(405, allow="POST")
        known = self.headers.get("Mcp-Session-Id") in SESSIONS
        SESSIONS.discard(self.headers.get("Mcp-Session-Id"))
        self.reply(204 if known else 404)

    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if self.refused():
            return
        accept = self.headers.get("Accept", "")
        if not ("application/json" in accept and "text/event-stream" in accept):
            return self.reply(406)
        if not self.headers.get("Content-Type", "").startswith("application/json"):
            return self.reply(415)
        try:
            message = json.loads(body)
        except ValueError:
            return self.reply(400, b'{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"no JSON"}}', "application/json; charset=utf-8")
        if not self.session(message):
            return
        if self.headers.get("MCP-Protocol-Version", REVISIONS[0]) not in [*REVISIONS, "2025-03-26"]:
            return self.reply(400, b"unknown revision", "text/plain")
        if isinstance(message, dict) and "method" in message and "id" not in message:
            if way("late-202"):
                time.sleep(0.4)
            if way("refuses-notifications") and not message["method"].startswith(("notifications/initialized", "notifications/cancelled")):
                return self.reply(400, b'{"jsonrpc":"2.0","error":{"code":-32601,"message":"unknown"}}', "application/json")
            return self.reply(202)
        said = answer(message)
        if said is None:
            return self.reply(202)
        more = {}
        if isinstance(message, dict) and message.get("method") == "initialize" and not way("stateless"):
            more["mcp_session_id"] = f"{len(SESSIONS)}!~{random.random()}"
            SESSIONS.add(more["mcp_session_id"])
        if not way("streams"):
            status = 400 if said.get("id") is None else 200
            return self.reply(status, json.dumps(said).encode(), "application/json; charset=utf-8", **more)
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream; charset=utf-8")
        for name, value in more.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        number = random.random()
        lines = json.dumps(said, indent=1).splitlines()
        event = "".join(f"data: {line}\r\n" for line in lines)
        told = "".join(f"event: message\ndata:{json.dumps(one)}\n\n" for one in list(noise())[2:])
        for piece in [f"id: {number}/0\ndata:\n\n", ": keep-alive\n\n", "retry: 100\n\n", told, f"event: message\r\nid: {number}/1\r\n{event}\r\n"]:
            data = piece.encode()
            if data:
                self.wfile.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
                self.wfile.flush()
                time.sleep(0.01)
        self.wfile.write(b"0\r\n\r\n")


if len(sys.argv) > 2:
    listener = ThreadingHTTPServer(("127.0.0.1", int(sys.argv[2])), Handler)
    listener.daemon_threads = True
    listener.serve_forever()
else:
    over_stdio()
