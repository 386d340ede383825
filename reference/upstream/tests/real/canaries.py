"""The canary search: an upstream that gives away every credential, everywhere; afterwards no sink of the reference holds any part of
one, in any written form. `run` starts this.

Searched: replies of every tool in every profile, over both transports; logs at every level; traces with full payloads; the debug
ring; sessions and what inspecting them shows; the prompts that a planner is sent; the REPL. Knows nothing of how the reference scrubs."""

import base64
import html
import itertools
import json
import os
import subprocess
import sys
import tempfile
import threading
import unittest
import urllib.parse
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from clients import PTC, Http, Stdio

HERE = Path(__file__).parent

# One credential of each kind. Their letters differ, so that a find tells which.
BEARER = 'brr"x<&>/k 4f19c2d7e8'
HEADER = "hdr+/=QZk7m3Jw8x"
BASIC = "usr:bsc%pw'9Tn5Vb2y"
UNUSED = "unü\\sd-7Hc3Ra6w é!"
PLANNER_KEY = "plnr-Kd8s2Lq5Wz-7Tf"
SECRETS = [BEARER, HEADER, BASIC, BASIC.partition(":")[2], UNUSED, PLANNER_KEY]
LEAKS = [BEARER, HEADER, BASIC, UNUSED, PLANNER_KEY]
# So many characters of a secret in a row count as the secret: what a cut may have left of one.
PART = 8


def parts(secret):
    """What no sink may hold."""
    encoded = itertools.chain.from_iterable(pieces(secret, lead) for lead in range(3))
    escaped = [urllib.parse.quote(secret, safe=""), urllib.parse.quote_plus(secret), json.dumps(secret)[1:-1],
               json.dumps(json.dumps(secret))[3:-3], html.escape(secret)]
    found = {text[at:at + PART] for text in [secret, *escaped] for at in range(max(1, len(text) - PART + 1))}
    return {part for part in found | set(encoded) if len(part) >= PART}


def pieces(secret, lead):
    """What base64 makes of a secret that starts `lead` bytes into a group, where no neighbour shows through."""
    for alphabet in (base64.b64encode, base64.urlsafe_b64encode):
        text = alphabet(b"\0" * lead + secret.encode()).decode().rstrip("=")
        inner = text[4 if lead else 0:-2]
        yield from (inner[at:at + 12] for at in range(max(1, len(inner) - 11)))


class Planner(BaseHTTPRequestHandler):
    """A provider of language models, that keeps what it is asked and answers with one program. It also repeats the key."""

    asked = []
    program = ""

    def do_POST(self):
        self.asked.append(self.rfile.read(int(self.headers["content-length"])).decode())
        content = f"```clojure\n{self.program}\n```"
        if "Fail" in self.asked[-1]:
            status, body = 401, {"error": {"message": f"bad key {self.headers['authorization']}"}}
        else:
            status, body = 200, {"choices": [{"message": {"role": "assistant", "content": content}}]}
        text = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *_):
        pass


# Across the lengths at which previews, prints, descriptions, summaries and feedback are cut.
PADS = [0, 60, 100, 110, 220, 230, 240, 490, 500, 580, 1000, 2030, 4080]
PROGRAMS = [
    "(tool/servers)",
    *(f"{form}" for form in (
        '(dir "leaky")', '(dir "web")', '(map doc (map (fn [line] (str "leaky/" (first (clojure.string/split line #" - ")))) (dir "leaky")))',
        '(apropos "leak" {:limit 50})', '(meta "api/look")', '(doc "api/look")', '(meta "web/text")', '(doc "web/fails")')),
    *(f'(tool/call {{:server "{server}" :tool "{tool}" :args {{:pad {pad}}}}})'
      for server in ("leaky", "web") for tool in ("text", "keys", "fails", "error") for pad in PADS),
    *(f'(println (:value (tool/call {{:server "leaky" :tool "text" :args {{:pad {pad}}}}})))' for pad in PADS),
    *(f'(fail (:value (tool/call {{:server "leaky" :tool "text" :args {{:pad {pad}}}}})))' for pad in PADS),
    *(f'(do (tool/call {{:server "leaky" :tool "fails" :args {{:pad {pad}}}}}) (+ 1 "a"))' for pad in PADS),
    *(f'(tool/call {{:server "{server}" :tool "{tool}"}})'
      for server, tools in (("leaky", ("odd-error", "garbage", "crash", "text")),
                            ("web", ("status", "redirect", "garbage", "session", "text"))) for tool in tools),
    *(f'(tool/call {{:server "api" :tool "look" :args {{:status {status}}}}})' for status in (200, 1200, 204, 400, 401, 404, 429, 500)),
    '(tool/call {:server "leaky" :tool "nope"})',
    '(def kept (:value (tool/call {:server "leaky" :tool "keys" :args {:pad 3}}))) (def text (:value (tool/call {:server "leaky" :tool "text"})))',
    'kept', 'text', '[*1 *2]', '(keys kept)', '(seq text)', '(clojure.string/split text #" ")',
]


class Canaries(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.root = Path(cls.folder.name)
        (cls.root / "header.secret").write_text(HEADER + "\n")
        cls.environment = {"BEARER": BEARER, "OPENAI_API_KEY": PLANNER_KEY, "LEAKS": json.dumps(LEAKS)}
        cls.web = subprocess.Popen([sys.executable, HERE / "leaky_server.py", "web"], stdout=subprocess.PIPE, text=True,
                                   env={**os.environ, **cls.environment})
        address = f"http://127.0.0.1:{int(cls.web.stdout.readline())}"
        cls.planner = ThreadingHTTPServer(("127.0.0.1", 0), Planner)
        threading.Thread(target=cls.planner.serve_forever, daemon=True).start()
        cls.environment["OPENAI_BASE_URL"] = f"http://127.0.0.1:{cls.planner.server_address[1]}/v1"
        insecure = {"allow_insecure_http": True, "allow_insecure_auth": True}
        cls.config = cls.root / "upstreams.json"
        cls.config.write_text(json.dumps({
            "credentials": {"bearer": {"source": "env", "var": "BEARER"},
                            "header": {"source": "file", "path": str(cls.root / "header.secret")},
                            "basic": {"source": "literal", "value": BASIC},
                            "unused": {"source": "literal", "value": UNUSED}},
            "upstreams": {
                "leaky": {"transport": "mcp_stdio", "command": sys.executable, "args": [str(HERE / "leaky_server.py"), "stdio"],
                          "inherit_env": ["LEAKS"],
                          "description": f"Says {UNUSED}.", "capabilities": [HEADER]},
                "web": {"transport": "mcp_http", "url": f"{address}/mcp", **insecure,
                        "auth": [{"scheme": "bearer", "binding": "bearer"},
                                 {"scheme": "custom_header", "binding": "header", "header": "X-Key"}]},
                "api": {"transport": "openapi", "base_url": address, "schema_url": f"{address}/openapi.json", **insecure,
                        "include_operations": ["look"], "auth": [{"scheme": "basic", "binding": "basic"}]},
            }}))

    @classmethod
    def tearDownClass(cls):
        cls.planner.shutdown()
        cls.planner.server_close()
        cls.web.kill()
        cls.web.wait()
        cls.web.stdout.close()
        cls.folder.cleanup()

    def clean(self, sink, text, secrets=SECRETS):
        for secret in secrets:
            for part in parts(secret):
                at = text.find(part)
                self.assertLess(at, 0, f"{sink} holds {part!r} of {secret!r}: …{text[max(0, at - 200):at + 60]!r}")

    def serve(self, transport, profile):
        """A whole working life, with everything on that remembers."""
        traces = self.root / f"traces-{transport.__name__}-{profile}"
        server = transport(self.config, "--response-profile", profile, "--sessions", "--debug-tool", "--trace-dir", str(traces),
                           "--trace-payloads", "full", "--log-level", "debug", "--agentic", "--agentic-allow-writes",
                           "--agentic-model", "openai:m", "--agentic-trace-prompts", "--agentic-max-turns", "2",
                           "--catalog-mode", "inline", environment=self.environment)
        server.ask("tools/list")
        session = server.call("lisp_session_start")["structuredContent"]["session_id"]
        for program in PROGRAMS:
            server.call("lisp_eval", program=program)
            server.call("lisp_session_eval", session_id=session, program=program)
        # What a client itself says is not the upstreams' leak, and is scrubbed all the same.
        for secret in SECRETS:
            server.call("lisp_eval", program=f"(str data/a {json.dumps(secret)})", context={"a": f"{'c' * 200}{secret}"})
            server.call("lisp_eval", program=f"(+ 1 {json.dumps(secret)})")
            server.call("lisp_session_eval", session_id=session, program=f"(def a {json.dumps(secret)})")
            server.call(secret, a=secret)
        for program in ('(return (:value (tool/call {:server "leaky" :tool "keys" :args {:pad 30}})))',
                        '(fail (:value (tool/call {:server "web" :tool "text" :args {:pad 4080}})))',
                        '(println (:value (tool/call {:server "api" :tool "look"})))', "(return 1"):
            Planner.program = program
            server.call("lisp_task", task=f"Look at {UNUSED}", context={"key": PLANNER_KEY})
        server.call("lisp_task", task="Fail")
        for view in ("overview", "bindings", "history", "calls", "all"):
            server.call("lisp_session_inspect", session_id=session, view=view)
        server.call("lisp_session_list")
        for op in ("stats", "recent"):
            server.call("lisp_debug", op=op, limit=50)
        for id in range(1, server.id):
            server.call("lisp_debug", op="get", request_id=str(id))
        server.call("lisp_session_close", session_id=session)
        server.close()
        for at, said in enumerate(server.said):
            self.clean(f"reply {at}", said)
        files = sorted(traces.iterdir())
        self.assertGreater(len(files), len(PROGRAMS))
        for file in files:
            self.clean(file.name, file.name + file.read_text())
        self.assertTrue(any("[REDACTED]" in said for said in server.said))

    def test_slim(self):
        self.serve(Stdio, "slim")

    def test_structured(self):
        self.serve(Stdio, "structured")

    def test_debug(self):
        self.serve(Stdio, "debug")

    def test_http(self):
        self.serve(Http, "debug")
        self.assertGreater(len(Planner.asked), 4)

    def test_prompts(self):
        for prompt in Planner.asked:
            self.clean("a prompt", prompt)

    def test_repl(self):
        typed = "\n".join([*PROGRAMS, ":tools", ":doc api/look", ":find leak", ":display json", "kept", ":display envelope", "kept"])
        for arguments in (["-i"], []):
            done = subprocess.run([PTC, "repl", "--upstreams-config", self.config, *arguments], input=typed, capture_output=True,
                                  text=True, env={**os.environ, **self.environment})
            # Without a planner, the planner's key is no credential of this process.
            credentials = [secret for secret in SECRETS if secret != PLANNER_KEY]
            self.clean("the REPL", done.stdout, credentials)
            self.clean("its errors", done.stderr, credentials)
            self.assertIn("[REDACTED]", done.stdout)

    def test_starts_that_fail(self):
        broken = json.loads(self.config.read_text())
        for upstream, field, value in (("web", "url", "ftp://x"), ("leaky", "command", f"/no/{BEARER}"), ("web", "auth", [{"scheme": "x"}]),
                                       ("leaky", "args", ["-c", f"import sys; print({BEARER!r}); sys.exit({BEARER!r})"]),
                                       ("api", "include_operations", [HEADER])):
            changed = json.loads(json.dumps(broken))
            changed["upstreams"][upstream][field] = value
            config = self.root / "broken.json"
            config.write_text(json.dumps(changed))
            done = subprocess.run([PTC, "start", "--upstreams-config", config], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                                  env={**os.environ, **self.environment})
            self.assertEqual(done.returncode, 1, done.stderr)
            self.clean(f"a start with a broken {field}", done.stdout + done.stderr)
