"""An MCP server of revision 2026-07-28 alone, on Python's standard library: `modern.py` speaks over its standard streams, `modern.py PORT`
over Streamable HTTP. It knows no `initialize` and no session. Nothing in it is made for whoever judges it; `faulty/modern.py` breaks it.
"""

import base64
import hashlib
import hmac
import json
import secrets
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

REVISION = "2026-07-28"
META = "io.modelcontextprotocol/"
INFO = {"name": "modern", "version": "1.0.0"}
LOCAL = {"localhost", "127.0.0.1", "[::1]"}


class Refused(Exception):
    """An error of the protocol."""

    def __init__(self, code, message, data=None, status=200):
        super().__init__(message)
        self.error = {"code": code, "message": message} | ({} if data is None else {"data": data})
        self.status = status


def tool(name, description, properties, **more):
    schema = {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}
    return {"name": name, "description": description, "inputSchema": schema, "annotations": {"readOnlyHint": True}} | more


def text(words, **more):
    return {"content": [{"type": "text", "text": words}]} | more


class Server:
    """What the server knows, whatever it is reached by."""

    tools = [
        tool("add", "Adds two numbers", {"a": {"type": "number"}, "b": {"type": "number"}}, outputSchema={"type": "object", "properties": {"sum": {"type": "number"}}, "required": ["sum"]}),
        tool("count", "Counts the rows of a region", {"region": {"type": "string", "x-mcp-header": "Region"}}),
        tool("greet", "Asks for a name and greets it", {}),
        tool("wait", "Waits a second", {}),
    ]
    # A tool whose parameter may be left out.
    tools[1]["inputSchema"]["required"] = []
    prompts = [{"name": "welcome", "description": "Welcomes somebody", "arguments": [{"name": "name", "required": True}]}]
    resources = [{"uri": "demo://readme", "name": "readme", "mimeType": "text/plain"}]
    templates = [{"uriTemplate": "demo://people/{name}", "name": "people"}]
    capabilities = {"tools": {"listChanged": True}, "prompts": {}, "resources": {}, "completions": {}}

    def __init__(self):
        self.key = secrets.token_bytes(32)

    def answer(self, message, tell, cancelled):
        """The result of a request. `tell` sends a notification that belongs to it, `cancelled` is an event."""
        method, params = message["method"], message.get("params", {})
        if method == "initialize":
            raise self.unsupported(params.get("protocolVersion"))
        if not isinstance(params, dict):
            raise Refused(-32602, "params must be an object", status=400)
        meta = params.get("_meta", {})
        revision, able = meta.get(META + "protocolVersion"), meta.get(META + "clientCapabilities")
        if not isinstance(revision, str):
            raise Refused(-32602, f"_meta lacks {META}protocolVersion", status=400)
        if revision != REVISION:
            raise self.unsupported(revision)
        if not isinstance(able, dict):
            raise Refused(-32602, f"_meta lacks {META}clientCapabilities", status=400)
        if method not in self.methods:
            raise Refused(-32601, f"there is no method {method}", status=404)
        call = Call(params, meta, able, message["id"], tell, cancelled)
        handle = getattr(self, self.methods[method])
        result = handle(call)
        return {"resultType": "complete", "_meta": {META + "serverInfo": INFO}} | result

    def unsupported(self, asked):
        return Refused(-32022, f"this server speaks revision {REVISION} alone", {"supported": [REVISION], "requested": asked}, status=400)

    def lasting(self, result, milliseconds=60_000):
        return {"ttlMs": milliseconds, "cacheScope": "public"} | result

    def discover(self, _call):
        return self.lasting({"supportedVersions": [REVISION], "capabilities": self.capabilities})

    def listed(self, call, **items):
        if "cursor" in call.params:
            raise Refused(-32602, "there is no such cursor")
        return self.lasting(items)

    def list_tools(self, call):
        return self.listed(call, tools=self.tools)

    def list_prompts(self, call):
        return self.listed(call, prompts=self.prompts)

    def list_resources(self, call):
        return self.listed(call, resources=self.resources)

    def list_templates(self, call):
        return self.listed(call, resourceTemplates=self.templates)

    def read(self, call):
        uri = call.params.get("uri")
        known = {"demo://readme": "Read me."}
        if uri not in known:
            raise Refused(-32602, f"there is no resource {uri}", {"uri": uri})
        return self.lasting({"contents": [{"uri": uri, "mimeType": "text/plain", "text": known[uri]}]}, 0)

    def prompt(self, call):
        if call.params.get("name") != "welcome":
            raise Refused(-32602, "prompt not found")
        name = call.params.get("arguments", {}).get("name")
        if not isinstance(name, str):
            raise Refused(-32602, "welcome needs a name")
        return {"messages": [{"role": "user", "content": {"type": "text", "text": f"Welcome, {name}!"}}]}

    def complete(self, call):
        ref, argument = call.params.get("ref"), call.params.get("argument")
        known = [{"type": "ref/prompt", "name": "welcome"}, {"type": "ref/resource", "uri": "demo://people/{name}"}]
        if ref not in known or not isinstance(argument, dict):
            raise Refused(-32602, "reference not found")
        names = [name for name in ["Ada", "Alan", "Barbara"] if name.lower().startswith(str(argument.get("value", "")).lower())]
        return {"completion": {"values": names, "total": len(names), "hasMore": False}}

    def listen(self, call):
        """Tells of changes, of which there are none, until it is cancelled."""
        wanted = call.params.get("notifications", {})
        told = {"toolsListChanged": True} if wanted.get("toolsListChanged") else {}
        call.tell("notifications/subscriptions/acknowledged", {"notifications": told, "_meta": {META + "subscriptionId": call.id}})
        call.cancelled.wait()
        return {}

    def call(self, call):
        name, arguments = call.params.get("name"), call.params.get("arguments", {})
        known = next((tool for tool in self.tools if tool["name"] == name), None)
        if known is None:
            raise Refused(-32602, f"there is no tool {name}")
        wrong = misfit(arguments, known["inputSchema"])
        if wrong:
            return text(wrong, isError=True)
        return getattr(self, f"call_{name}")(call, arguments)

    def call_add(self, _call, arguments):
        total = arguments["a"] + arguments["b"]
        return text(json.dumps({"sum": total}), structuredContent={"sum": total})

    def call_count(self, _call, arguments):
        return text(f"No rows in {arguments.get('region', 'any region')}.")

    def call_wait(self, call, _arguments):
        for step in range(1, 11):
            if call.cancelled.wait(0.1):
                break
            call.progress(step, 10)
        return text("waited")

    def call_greet(self, call, _arguments):
        greeting = "Hello"
        if "requestState" in call.params:
            greeting = self.opened(call.params["requestState"])
        given = call.params.get("inputResponses", {})
        if not isinstance(given, dict):
            raise Refused(-32602, "inputResponses must be an object")
        answer = given.get("name")
        if answer is not None:
            action = answer.get("action") if isinstance(answer, dict) else None
            if action not in ("accept", "decline", "cancel"):
                raise Refused(-32602, "the answer for name is none")
            name = answer.get("content", {}).get("name") if action == "accept" else None
            return text(f"{greeting}, {name}!") if isinstance(name, str) else text("Hello, whoever you are!")
        if "elicitation" not in call.able:
            raise Refused(-32021, "greet asks for a name", {"requiredCapabilities": {"elicitation": {}}}, status=400)
        schema = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
        asked = {"name": {"method": "elicitation/create", "params": {"mode": "form", "message": "Who is it?", "requestedSchema": schema}}}
        return {"resultType": "input_required", "inputRequests": asked, "requestState": self.closed(greeting)}

    def seal(self, payload):
        return hmac.new(self.key, payload, hashlib.sha256).digest()

    def closed(self, greeting):
        """What the next round needs to know, so that nobody can change it."""
        payload = json.dumps({"tool": "greet", "greeting": greeting, "until": time.time() + 300}).encode()
        return base64.urlsafe_b64encode(self.seal(payload) + payload).decode()

    def opened(self, state):
        try:
            raw = base64.urlsafe_b64decode(state)
            payload = raw[32:]
            if not hmac.compare_digest(raw[:32], self.seal(payload)):
                raise ValueError
            known = json.loads(payload)
            if known["tool"] != "greet" or known["until"] < time.time():
                raise ValueError
            return known["greeting"]
        except (TypeError, ValueError):
            raise Refused(-32602, "requestState is not one of this server's") from None

    methods = {
        "server/discover": "discover",
        "tools/list": "list_tools",
        "prompts/list": "list_prompts",
        "resources/list": "list_resources",
        "resources/templates/list": "list_templates",
        "resources/read": "read",
        "prompts/get": "prompt",
        "completion/complete": "complete",
        "subscriptions/listen": "listen",
        "tools/call": "call",
    }


class Call:
    """One request."""

    def __init__(self, params, meta, able, id, tell, cancelled):
        self.params, self.meta, self.able, self.id, self.cancelled = params, meta, able, id, cancelled
        self._tell = tell

    def tell(self, method, params):
        self._tell({"jsonrpc": "2.0", "method": method, "params": params})

    def progress(self, now, total):
        if "progressToken" in self.meta:
            self.tell("notifications/progress", {"progressToken": self.meta["progressToken"], "progress": now, "total": total})


KINDS = {"string": str, "number": (int, float)}


def misfit(arguments, schema):
    """Why arguments are not as the schema says; nothing when they are."""
    if not isinstance(arguments, dict):
        return "the arguments must be an object"
    for name in schema["required"]:
        if name not in arguments:
            return f"{name} is missing"
    for name, value in arguments.items():
        if name not in schema["properties"]:
            return f"{name} is unknown"
        if not isinstance(value, KINDS[schema["properties"][name]["type"]]) or isinstance(value, bool):
            return f"{name} must be a {schema['properties'][name]['type']}"
    return None


def response(server, message, tell, cancelled):
    """The response to a request, and its status over HTTP."""
    try:
        return {"jsonrpc": "2.0", "id": message["id"], "result": server.answer(message, tell, cancelled)}, 200
    except Refused as refused:
        return {"jsonrpc": "2.0", "id": message["id"], "error": refused.error}, refused.status


def is_request(message):
    return isinstance(message.get("method"), str) and isinstance(message.get("id"), (str, int)) and not isinstance(message.get("id"), bool)


def over_stdio(server):
    lock, running = threading.Lock(), {}

    def write(message):
        with lock:
            sys.stdout.buffer.write(json.dumps(message).encode() + b"\n")
            sys.stdout.buffer.flush()

    def work(message, cancelled):
        answer, _status = response(server, message, lambda told: None if cancelled.is_set() else write(told), cancelled)
        running.pop(json.dumps(message["id"]), None)
        if not cancelled.is_set():
            write(answer)

    for line in sys.stdin.buffer:
        try:
            message = json.loads(line)
        except ValueError:
            write({"jsonrpc": "2.0", "error": {"code": -32700, "message": "that is no JSON"}})
            continue
        if not isinstance(message, dict) or "method" not in message or ("id" in message and not is_request(message)):
            if not (isinstance(message, dict) and ("result" in message or "error" in message)):
                write({"jsonrpc": "2.0", "error": {"code": -32600, "message": "that is no request"}})
            continue
        if "id" not in message:
            named = json.dumps(message.get("params", {}).get("requestId"))
            if message["method"] == "notifications/cancelled" and named in running:
                running[named].set()
            continue
        cancelled = running[json.dumps(message["id"])] = threading.Event()
        threading.Thread(target=work, args=(message, cancelled)).start()
    # What listens for changes ends with the input; other requests are answered.
    ended = time.monotonic() + 2
    while running and time.monotonic() < ended:
        time.sleep(0.01)
    for cancelled in list(running.values()):
        cancelled.set()


def decoded(value):
    """What a header says, without blanks around it and out of Base64 where it says so."""
    value = value and value.strip(" \t")
    if value is None or not (value.startswith("=?base64?") and value.endswith("?=")):
        return value
    try:
        return base64.b64decode(value[9:-2], validate=True).decode()
    except ValueError:
        raise mismatch("a header is not readable Base64") from None


def mismatch(why):
    return Refused(-32020, why, status=400)


def written(value):
    return json.dumps(value) if isinstance(value, (bool, int, float)) else value


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server_version = "modern"

    def log_message(self, *_):
        pass

    def reply(self, status, body=None, **headers):
        data = b"" if body is None else json.dumps(body).encode()
        self.send_response(status)
        if body is not None:
            self.send_header("Content-Type", "application/json")
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def is_foreign(self):
        origin = self.headers.get("Origin")
        return origin is not None and origin.split("://")[-1].rsplit(":", 1)[0] not in LOCAL

    def do_GET(self):
        self.reply(403) if self.is_foreign() else self.reply(405, Allow="POST")

    do_DELETE = do_GET

    def agree(self, message):
        """The headers say what the body says."""
        params = message.get("params") if isinstance(message.get("params"), dict) else {}
        revision = params.get("_meta", {}).get(META + "protocolVersion")
        said = decoded(self.headers.get("MCP-Protocol-Version"))
        if said is None or revision not in (None, said):
            raise mismatch("MCP-Protocol-Version does not say what the body says")
        if decoded(self.headers.get("Mcp-Method")) != message["method"]:
            raise mismatch("Mcp-Method does not say what the body says")
        named = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}.get(message["method"])
        if named in params and decoded(self.headers.get("Mcp-Name")) != params[named]:
            raise mismatch("Mcp-Name does not say what the body says")
        tool = next((tool for tool in self.server.mcp.tools if tool["name"] == params.get("name")), None)
        if message["method"] == "tools/call" and tool and isinstance(params.get("arguments"), dict):
            for name, schema in tool["inputSchema"]["properties"].items():
                if "x-mcp-header" in schema:
                    self.agrees(f"Mcp-Param-{schema['x-mcp-header']}", params["arguments"].get(name))

    def agrees(self, header, value):
        if decoded(self.headers.get(header)) != written(value):
            raise mismatch(f"{header} does not say what the body says")

    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if self.is_foreign():
            return self.reply(403)
        try:
            message = json.loads(body)
        except ValueError:
            return self.reply(400, {"jsonrpc": "2.0", "error": {"code": -32700, "message": "that is no JSON"}})
        if isinstance(message, dict) and "id" not in message and "method" in message:
            return self.reply(202)
        if not isinstance(message, dict) or not is_request(message):
            return self.reply(400, {"jsonrpc": "2.0", "error": {"code": -32600, "message": "that is no request"}})
        try:
            if message["method"] != "initialize":
                self.agree(message)
        except Refused as refused:
            return self.reply(refused.status, {"jsonrpc": "2.0", "id": message["id"], "error": refused.error})
        params = message.get("params", {})
        streamed = message["method"] == "subscriptions/listen" or "progressToken" in (params.get("_meta", {}) if isinstance(params, dict) else {})
        if not streamed:
            answer, status = response(self.server.mcp, message, lambda _: None, threading.Event())
            return self.reply(status, answer)
        self.stream(message)

    def stream(self, message):
        self.send_response(200)
        for name, value in [("Content-Type", "text/event-stream"), ("X-Accel-Buffering", "no"), ("Connection", "close")]:
            self.send_header(name, value)
        self.end_headers()
        gone = threading.Event()

        def tell(told):
            try:
                self.wfile.write(b"data: " + json.dumps(told).encode() + b"\n\n")
            except OSError:
                gone.set()

        answer, _status = response(self.server.mcp, message, tell, gone)
        tell(answer)
        self.close_connection = True


def main(server, arguments, handler=Handler):
    if not arguments:
        return over_stdio(server)
    listener = ThreadingHTTPServer(("127.0.0.1", int(arguments[0])), handler)
    listener.daemon_threads = True
    listener.mcp = server
    listener.serve_forever()


if __name__ == "__main__":
    main(Server(), sys.argv[1:])
