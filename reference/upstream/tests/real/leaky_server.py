"""An upstream that gives away every secret that it was told, in every place and written form that it can.

    leaky_server.py stdio|web

`web` is an MCP endpoint at /mcp and an OpenAPI service at /api, and also tells what headers it was sent. The secrets are in
LEAKS, as a JSON list. Knows nothing of who looks for them."""

import base64
import html
import json
import os
import sys
import urllib.parse
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

LEAKS = json.loads(os.environ["LEAKS"])


def forms(secret):
    yield secret
    for lead in ("", "x", "xy"):
        yield base64.b64encode((lead + secret + "end").encode()).decode()
        yield base64.urlsafe_b64encode((lead + secret).encode()).decode()
    yield urllib.parse.quote(secret, safe="")
    yield urllib.parse.quote_plus(secret)
    yield json.dumps(secret)
    yield json.dumps(secret, ensure_ascii=False)
    yield json.dumps(json.dumps(secret))
    yield html.escape(secret)


def everything(pad=0, more=()):
    """Each secret in each form. `pad` moves them across whatever cuts the text."""
    return "p" * pad + " ".join(form for secret in [*LEAKS, *more] for form in forms(secret))


def tools():
    schema = {"type": "object", "properties": {"pad": {"type": "integer"}}, "description": everything()}
    for at, secret in enumerate(LEAKS):
        schema["properties"][secret] = {"type": "string", "description": everything(), "enum": [secret, everything()]}
        yield {"name": f"leak{at} {secret}", "description": everything(at * 40), "inputSchema": schema,
               "outputSchema": {"type": "object", "properties": {secret: {"const": secret}}},
               "annotations": {"title": secret, secret: everything(), "readOnlyHint": True}}
    for name in ("text", "keys", "fails", "error", "odd-error", "garbage", "crash", "status", "redirect", "session"):
        yield {"name": name, "description": everything(100), "inputSchema": {"type": "object"},
               "annotations": {"readOnlyHint": True}}


def answer(name, pad, heard):
    """The result of a call, or the error that it is."""
    text = everything(pad, heard)
    if name == "keys":
        return {"structuredContent": {f"{'k' * pad}{secret}": [secret, {"in": text}] for secret in [*LEAKS, *heard]}}, None
    if name == "fails":
        return {"isError": True, "content": [{"type": "text", "text": text}]}, None
    if name == "error":
        return None, {"code": -1, "message": text, "data": text}
    if name == "odd-error":
        return None, {"code": -1, "message": {"secrets": LEAKS}}
    return {"content": [{"type": "text", "text": text}]}, None


def handle(message, heard=()):
    """The reply to one JSON-RPC request."""
    method, params = message["method"], message.get("params", {})
    result, error = {}, None
    if method == "initialize":
        result = {"protocolVersion": params["protocolVersion"], "capabilities": {"tools": {}}, "instructions": everything(),
                  "serverInfo": {"name": everything(), "version": LEAKS[0]}}
    elif method == "tools/list":
        result = {"tools": list(tools())}
    elif method == "tools/call":
        result, error = answer(params["name"], params["arguments"].get("pad", 0), heard)
    outcome = {"error": error} if error else {"result": result}
    return {"jsonrpc": "2.0", "id": message["id"], **outcome}


def serve_stdio():
    print(everything(), file=sys.stderr, flush=True)
    for line in sys.stdin:
        message = json.loads(line)
        if "id" not in message:
            continue
        name = message.get("params", {}).get("name")
        if name == "garbage":
            print(f"this is no JSON: {everything()}", flush=True)
        elif name == "crash":
            print(f"panicked: {everything()}", file=sys.stderr, flush=True)
            os._exit(3)
        else:
            print(json.dumps(handle(message)), flush=True)


class Web(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def send(self, status, body, **headers):
        self.send_response(status, LEAKS[0])
        for name, value in {"content-type": "application/json", "x-leak": LEAKS[1], **headers}.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def heard(self):
        return [value for name, value in self.headers.items() if name.lower() in ("authorization", "x-key")]

    def do_POST(self):
        message = json.loads(self.rfile.read(int(self.headers["content-length"])))
        name = message.get("params", {}).get("name")
        if "id" not in message:
            self.send(202, b"")
        elif name == "status":
            self.send(500, everything(0, self.heard()).encode())
        elif name == "redirect":
            self.send(307, b"", location=f"http://{urllib.parse.quote(LEAKS[1], safe='')}.invalid/?t={urllib.parse.quote(LEAKS[0])}")
        elif name == "garbage":
            self.send(200, everything(0, self.heard()).encode())
        elif name == "session":
            self.send(200, json.dumps(handle(message)).encode(), mcp_session_id=LEAKS[1])
        else:
            self.send(200, json.dumps(handle(message, self.heard())).encode())

    def do_GET(self):
        url = urllib.parse.urlparse(self.path)
        if url.path == "/openapi.json":
            operation = {"operationId": "look", "summary": everything(), "parameters": [
                {"name": "status", "in": "query", "schema": {"type": "integer"}}, {"name": LEAKS[0], "in": "query", "schema": {}}],
                "responses": {"200": {"description": everything(), "content": {"application/json": {"schema": {
                    "type": "object", "properties": {LEAKS[0]: {"const": LEAKS[1]}}}}}}}}
            self.send(200, json.dumps({"openapi": "3.0.0", "paths": {"/look": {"get": operation}}}).encode())
            return
        status = int(urllib.parse.parse_qs(url.query).get("status", ["200"])[0])
        body = everything(0, self.heard())
        # 1200 stands for a 200 that is no JSON.
        self.send(status % 1000, b"" if status == 204 else json.dumps(body).encode() if status == 200 else body.encode())

    def log_message(self, *_):
        pass


class Service(ThreadingHTTPServer):
    def handle_error(self, *_):
        """A client that went away is no news."""


if __name__ == "__main__":
    if sys.argv[1] == "stdio":
        serve_stdio()
    else:
        web = Service(("127.0.0.1", 0), Web)
        print(web.server_address[1], flush=True)
        web.serve_forever()
