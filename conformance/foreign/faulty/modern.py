"""The server `servers/modern.py` of revision 2026-07-28 alone with one planted fault: `modern.py FAULT` over standard streams, `modern.py FAULT PORT`
over Streamable HTTP. Without a fault, or with `none`, it is right. What each fault breaks: faults.tsv beside this file.
"""

import importlib.util
import json
import sys
from pathlib import Path

spec = importlib.util.spec_from_file_location("right", Path(__file__).resolve().parent.parent / "servers" / "modern.py")
right = importlib.util.module_from_spec(spec)
spec.loader.exec_module(right)
Refused = right.Refused

fault = sys.argv[1] if len(sys.argv) > 1 else "none"


def when(name):
    return fault == name


class Faulty(right.Server):
    asked = 0

    def answer(self, message, tell, cancelled):
        method, params = message["method"], message.get("params", {})
        self.asked += 1
        if when("wants-discover-first") and self.asked == 1 and method != "server/discover":
            raise Refused(-32600, "ask server/discover first")
        if when("asks-for-roots") and method == "tools/list":
            tell({"jsonrpc": "2.0", "id": "roots-1", "method": "roots/list"})
        if when("lists-ask") and method == "prompts/list":
            return {"resultType": "input_required", "requestState": "a"}
        if when("revision-unchecked") and params.get("_meta", {}).get(right.META + "protocolVersion") == "1999-01-01":
            params["_meta"][right.META + "protocolVersion"] = right.REVISION
        if when("capabilities-unchecked"):
            params.get("_meta", {}).setdefault(right.META + "clientCapabilities", {})
        result = super().answer(message, tell, cancelled)
        if when("no-result-type"):
            del result["resultType"]
        if when("no-ttl"):
            result.pop("ttlMs", None)
        return result

    def unsupported(self, asked):
        if when("initialize-unknown") and asked in ("2025-06-18", "2025-11-25"):
            return Refused(-32601, "Method not found")
        if when("revision-code"):
            return Refused(-32602, f"this server speaks revision {right.REVISION} alone", {"supported": [right.REVISION]}, status=400)
        return super().unsupported(asked)

    def call(self, call):
        if when("lists-shrink"):
            # What a connection has done changes what it is shown.
            self.tools = [tool for tool in self.tools if tool["name"] != "wait" or call.params.get("name") == "wait"]
        result = super().call(call)
        if when("breaks-output-schema") and "structuredContent" in result:
            result["structuredContent"] = {"sum": "three"}
        return result

    def read(self, call):
        try:
            return super().read(call)
        except Refused:
            if when("resource-code"):
                raise Refused(-32002, "there is no such resource") from None
            raise

    def listen(self, call):
        if when("acknowledges-nothing"):
            call.tell = lambda *_: None
        return super().listen(call)

    def call_wait(self, call, arguments):
        if when("progress-backwards"):
            forwards, total = call.progress, 20
            call.progress = lambda now, _: forwards(total - now, total)
        if when("answers-cancelled"):
            call.cancelled.is_set, call.cancelled.wait = (lambda: False), (lambda _: right.time.sleep(0.1))
        return super().call_wait(call, arguments)

    def call_greet(self, call, arguments):
        given = call.params.get("inputResponses")
        if when("asks-undeclared"):
            call.able = {"elicitation": {}}
        if when("refuses-missing-input") and given == {}:
            raise Refused(-32602, "the name is missing")
        if when("refuses-other-input") and isinstance(given, dict) and set(given) - {"name"}:
            raise Refused(-32602, "there is more than the name")
        if when("takes-any-input") and "inputResponses" in call.params:
            name = given.get("name") if isinstance(given, dict) else given
            call.params["inputResponses"] = {"name": {"action": "accept", "content": {"name": json.dumps(name)}}}
        result = super().call_greet(call, arguments)
        if when("asks-for-nothing") and result.get("resultType") == "input_required":
            return {"resultType": "input_required"}
        if when("asks-for-anything") and result.get("resultType") == "input_required":
            result["inputRequests"]["name"]["method"] = "demo/ask"
        return result

    def closed(self, greeting):
        return greeting if when("state-in-the-open") else super().closed(greeting)

    def opened(self, state):
        return state if when("state-in-the-open") else super().opened(state)


class FaultyHandler(right.Handler):
    def send_header(self, name, value):
        if not (when("buffered") and name == "X-Accel-Buffering"):
            super().send_header(name, value)

    def reply(self, status, body=None, **headers):
        if when("session-ids"):
            headers["Mcp-Session-Id"] = "abc"
        if when("status-of-methods") and status == 404:
            status = 200
        if when("status-of-headers") and status == 400 and body and body.get("error", {}).get("code") == -32020:
            status = 200
        super().reply(status, body, **headers)

    def is_foreign(self):
        return False if when("any-origin") else super().is_foreign()

    def do_GET(self):
        self.reply(404) if when("get-404") else super().do_GET()

    def do_DELETE(self):
        self.reply(200) if when("delete-200") else super().do_DELETE()

    def agrees(self, header, value):
        seen = self.headers.get(header)
        if when("parameters-unchecked"):
            return
        if when("parameters-checked-where-given") and seen is None:
            return
        if when("parameters-wanted") and seen is None:
            raise right.mismatch(f"{header} is missing")
        if when("parameters-not-decoded"):
            if seen != right.written(value):
                raise right.mismatch(f"{header} says something else")
            return
        super().agrees(header, value)

    def agree(self, message):
        if when("method-unchecked"):
            self.headers.replace_header("Mcp-Method", message["method"]) if "Mcp-Method" in self.headers else self.headers.add_header("Mcp-Method", message["method"])
        super().agree(message)


def response(*given, right_response=right.response):
    answer, status = right_response(*given)
    if when("ids-as-text"):
        answer["id"] = str(answer["id"])
    return answer, status


right.response = response
if when("banner"):
    print("Modern MCP server, version 1.0.0", flush=True)
right.main(Faulty(), sys.argv[2:], FaultyHandler)
