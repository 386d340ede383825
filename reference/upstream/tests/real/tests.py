"""Tests of the reference over upstreams that others wrote. `run` installs those and starts this.

Knows the seeds' example programs and what the servers answer; knows nothing of how the reference works."""

import datetime
import ipaddress
import json
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from clients import PTC, Http, Stdio

HERE = Path(__file__).parent
REAL = Path(os.environ["TOUCHSTONE_REAL"])
TOKEN = "store-token-2f9c81d7"
ENVIRONMENT = {**os.environ, "STORE_TOKEN": TOKEN}

# Seed 000, "Three example programs". The file server answers with structured content, so its text is under `content`.
SIMPLE_READ = """
(let [r (tool/call {:server "fs" :tool "read_text_file" :args {:path "%s/notes.md"}})]
  (if (:ok r)
    (:value r)
    (fail (:message r))))
"""
CROSS_SERVER_FILTER = """
(def unwrap
  (fn [r]
    (if (:ok r)
      (:value r)
      (fail (:message r)))))
(def open-prs
  (unwrap (tool/call {:server "github" :tool "list_prs" :args {:state "open" :limit 50}})))
(def watched-paths
  (:content (unwrap (tool/call {:server "fs" :tool "read_text_file" :args {:path "%s/watched-paths.txt"}}))))
(def watch-set
  (set (clojure.string/split-lines watched-paths)))
(def hits
  (filter (fn [pr] (some watch-set (:files pr))) open-prs))
(map :number hits)
"""
PARALLEL_BATCH = """
(def ids [101 102 103 104 105 106 107 108 109 110])
(def items
  (pmap (fn [id] (tool/call {:server "store" :tool "get" :args {:id id}})) ids))
(def good (map :value (filter :ok items)))
(map :name good)
"""
NAMES = " ".join(f'"item {n} in EUR"' for n in range(101, 111) if n != 107)


class Services:
    """The folder and the servers that every test shares."""

    def __init__(self):
        self.folder = tempfile.TemporaryDirectory()
        self.root = Path(self.folder.name).resolve()
        sandbox = self.sandbox = self.root / "sandbox"
        sandbox.mkdir()
        (sandbox / "notes.md").write_text("# Notes\nünï\n")
        (sandbox / "watched-paths.txt").write_text("src/a.rs\nsrc/b.rs\n")
        self.running = []
        github, store = self.serve("github_server.py"), self.serve("store_service.py")
        node = REAL / "node/node_modules/.bin"
        self.config = self.root / "upstreams.json"
        self.config.write_text(json.dumps({
            "credentials": {"store-token": {"source": "env", "var": "STORE_TOKEN"}},
            "upstreams": {
                "everything": {"transport": "mcp_stdio", "command": str(node / "mcp-server-everything"), "args": ["stdio"]},
                "fs": {"transport": "mcp_stdio", "command": str(node / "mcp-server-filesystem"), "args": [str(sandbox)],
                       "description": "Files."},
                "github": {"transport": "mcp_http", "url": f"http://127.0.0.1:{github}/mcp", "allow_insecure_http": True},
                "memory": {"transport": "mcp_stdio", "command": str(node / "mcp-server-memory"),
                           "env": {"MEMORY_FILE_PATH": str(self.root / "memory.jsonl")}},
                "store": {"transport": "openapi", "base_url": f"http://127.0.0.1:{store}",
                          "schema_url": f"http://127.0.0.1:{store}/openapi.json",
                          "include_operations": ["get", "searchItems", "health"],
                          "operation_overrides": {"searchItems": {"default_args": {"max_results": 3}}},
                          "auth": [{"scheme": "bearer", "binding": "store-token"}],
                          "allow_insecure_http": True, "allow_insecure_auth": True},
            },
        }))

    def serve(self, script, **environment):
        """Starts a service; its first line is its port."""
        child = subprocess.Popen([sys.executable, HERE / script], stdout=subprocess.PIPE, text=True, env={**ENVIRONMENT, **environment})
        self.running.append(child)
        return int(child.stdout.readline())

    def stop(self):
        for child in self.running:
            child.kill()
            child.wait()
            child.stdout.close()
        self.folder.cleanup()


class OverAServer:
    """What holds over each transport. `connect` makes the client."""

    @classmethod
    def setUpClass(cls):
        cls.client = cls.connect(SERVICES.config, "--response-profile", "debug", environment=ENVIRONMENT)

    @classmethod
    def tearDownClass(cls):
        cls.client.close()

    def lisp(self, program):
        return self.client.call("lisp_eval", program=program)["structuredContent"]

    def gives(self, program, result):
        payload = self.lisp(program)
        self.assertEqual(payload.get("result"), f"user=> {result}", payload)
        return payload

    def test_simple_read(self):
        self.gives(SIMPLE_READ % SERVICES.sandbox, '{"content" "# Notes\\nünï\\n"}')

    def test_cross_server_filter(self):
        payload = self.gives(CROSS_SERVER_FILTER % SERVICES.sandbox, "[101 104]")
        calls = [(c["server"], c["tool"], c["status"]) for c in payload["upstream_calls"]]
        self.assertEqual(calls, [("github", "list_prs", "ok"), ("fs", "read_text_file", "ok")])
        self.assertGreater(payload["ptc_metrics"]["upstream_result_bytes"], payload["ptc_metrics"]["final_result_bytes"])

    def test_parallel_batch(self):
        payload = self.gives(PARALLEL_BATCH, f"[{NAMES}]")
        metrics = payload["ptc_metrics"]
        counts = [metrics[f"upstream_{what}_count"] for what in ("call", "ok", "error")]
        self.assertEqual(counts, [10, 9, 1])
        failed = [c for c in payload["upstream_calls"] if c["status"] == "error"]
        self.assertEqual(failed[0]["reason"], "tool_error")
        self.assertIn("no item 107", failed[0]["error"])

    def test_world_faults(self):
        for call, reason in [
            ('{:server "fs" :tool "read_text_file" :args {:path "/etc/hostname"}}', ":tool_error"),
            ('{:server "github" :tool "get_pr" :args {:number 7}}', ":tool_error"),
            ('{:server "store" :tool "get" :args {:id "seven"}}', ":tool_error"),
        ]:
            self.gives(f"(let [r (tool/call {call})] [(:ok r) (:reason r)])", f"[false {reason}]")

    def test_arguments_are_checked_before_a_call(self):
        payload = self.lisp('(tool/call {:server "everything" :tool "echo" :args {}})')
        self.assertEqual(payload["message"],
                         "runtime_error: tool 'everything.echo' rejected args: missing required args message")

    def test_kinds_of_values(self):
        for call, shown in [
            ('{:server "everything" :tool "echo" :args {:message "hi"}}', '[:text "Echo: hi"]'),
            ('{:server "github" :tool "get_pr" :args {:number 104}}',
             '[:json {"files" ["src/b.rs"] "number" 104 "state" "open"}]'),
            ('{:server "store" :tool "health" :args {}}', "[:none nil]"),
            ('{:server "store" :tool "search-items" :args {:q "x"}}',
             '[:json [{"id" 0 "name" "x 0" "price" nil} {"id" 1 "name" "x 1" "price" nil} {"id" 2 "name" "x 2" "price" nil}]]'),
        ]:
            self.gives(f"(let [r (tool/call {call})] [(:value_kind r) (:value r)])", shown)

    def test_a_graph_is_written_and_read(self):
        self.lisp("""
          (tool/call {:server "memory" :tool "create_entities"
                      :args {:entities [{:name "PR 1" :entityType "pr" :observations ["src/a.rs"]}]}})""")
        self.gives("""
          (let [graph (:value (tool/call {:server "memory" :tool "read_graph" :args {}}))]
            (map :name (:entities graph)))""", '["PR 1"]')

    def test_eight_at_a_time_over_one_child(self):
        self.gives("""
          (let [sums (pmap (fn [n] (tool/call {:server "everything" :tool "get-sum" :args {:a n :b 1}})) (range 40))]
            [(count (filter :ok sums)) (:value (last sums))])""", '[40 "The sum of 39 and 1 is 40."]')

    def test_discovery(self):
        self.gives('(map :name (tool/servers))', '["everything" "fs" "github" "memory" "store"]')
        self.gives('(mapv (fn [line] (first (clojure.string/split line #" "))) (apropos "read text file" {:limit 1}))',
                   '["fs/read_text_file"]')
        doc = self.lisp("(println (doc 'fs/read_text_file))")["prints"][0]
        self.assertIn("Args: {:path string :head number? :tail number?}", doc)
        self.assertIn("Returns: Result<{:content string}>", doc)
        doc = self.lisp("(println (doc 'store/search-items))")["prints"][0]
        self.assertIn("Args: {:q string :max-results integer?}", doc)
        self.gives("(get-in (meta 'store/search-items) [:_ptc :operationId])", '"searchItems"')

    def test_catalog(self):
        tools = {tool["name"]: tool for tool in self.client.ask("tools/list")["tools"]}
        self.assertIn("Configured upstream MCP servers:", tools["lisp_eval"]["description"])
        self.assertIn("fs", tools["lisp_eval"]["description"])


class OverStdio(OverAServer, unittest.TestCase):
    connect = Stdio

    def test_a_task_with_a_scripted_planner(self):
        plan = SERVICES.root / "plan.jsonl"
        read = f'(def notes (:content (:value (tool/call {{:server "fs" :tool "read_text_file" ' \
               f':args {{:path "{SERVICES.sandbox}/notes.md"}}}}))))'
        replies = [read, '```clojure\n(return (str "The first line is " (first (clojure.string/split-lines notes)) "."))\n```']
        plan.write_text("".join(json.dumps({"content": reply}) + "\n" for reply in replies))
        server = Stdio(SERVICES.config, "--agentic", "--aggregator-read-only", "--agentic-max-turns", "2", "--agentic-model", f"replay:{plan}",
                       environment=ENVIRONMENT)
        result = server.call("lisp_task", task="What is the first line of the notes?")
        server.close()
        payload = result["structuredContent"]
        self.assertEqual(payload["answer"], "The first line is # Notes.", payload)
        self.assertEqual([(c["server"], c["effect"], c["turn"]) for c in payload["upstream_calls"]], [("fs", "read", 1)])
        self.assertEqual(payload["planner"]["calls"], 2)


class OverHttp(OverAServer, unittest.TestCase):
    connect = Http


def certificate(file):
    """Writes a certificate of 127.0.0.1, signed by itself, and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "store")])
    today = datetime.datetime.now(datetime.timezone.utc)
    made = (x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(today - datetime.timedelta(days=1)).not_valid_after(today + datetime.timedelta(days=1))
            .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), critical=False)
            .sign(key, hashes.SHA256()))
    file.write_bytes(made.public_bytes(serialization.Encoding.PEM) + key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()))


class Tls(unittest.TestCase):
    """An upstream over https, whose certificate is trusted or not."""

    def test_only_a_trusted_certificate_is_talked_to(self):
        file = SERVICES.root / "certificate.pem"
        certificate(file)
        port = SERVICES.serve("store_service.py", STORE_CERTIFICATE=str(file))
        config = SERVICES.root / "tls.json"
        config.write_text(json.dumps({
            "credentials": {"store-token": {"source": "env", "var": "STORE_TOKEN"}},
            "upstreams": {"store": {"transport": "openapi", "base_url": f"https://127.0.0.1:{port}",
                                    "schema_url": f"https://127.0.0.1:{port}/openapi.json", "include_operations": ["get"],
                                    "auth": [{"scheme": "bearer", "binding": "store-token"}]}}}))
        command = [PTC, "repl", "--upstreams-config", config, "-e", '(:value (tool/call {:server "store" :tool "get" :args {:id 4}}))']
        trusting = subprocess.run(command, capture_output=True, text=True, env={**ENVIRONMENT, "SSL_CERT_FILE": str(file)})
        self.assertEqual(trusting.stdout.strip(), '{"id" 4 "name" "item 4 in EUR" "price" 1.0}', trusting.stderr)
        wary = subprocess.run(command, capture_output=True, text=True, env=ENVIRONMENT)
        self.assertEqual((wary.returncode, wary.stdout), (1, ""))
        self.assertIn("certificate", wary.stderr)


class Repl(unittest.TestCase):
    """The same programs from a shell; upstreams start when they are first needed."""

    def repl(self, *programs):
        command = [PTC, "repl", "--upstreams-config", SERVICES.config]
        for program in programs:
            command += ["-e", program]
        return subprocess.run(command, capture_output=True, text=True, env=ENVIRONMENT)

    def test_the_examples(self):
        done = self.repl(SIMPLE_READ % SERVICES.sandbox, CROSS_SERVER_FILTER % SERVICES.sandbox, PARALLEL_BATCH)
        self.assertEqual(done.stdout.splitlines(), ['{"content" "# Notes\\nünï\\n"}', "[101 104]", f"[{NAMES}]"], done.stderr)

    def test_servers_are_not_started_to_be_named(self):
        done = self.repl("(map (fn [s] [(:name s) (:tool_count s)]) (tool/servers))")
        self.assertEqual(done.stdout.strip(),
                         '[["everything" nil] ["fs" nil] ["github" nil] ["memory" nil] ["store" 3]]', done.stderr)

    def test_a_secret_stays_in(self):
        done = self.repl(f'(str "{TOKEN}")')
        self.assertEqual(done.stdout.strip(), '"[REDACTED]"')


if __name__ == "__main__":
    SERVICES = Services()
    try:
        FAILED = not unittest.main(verbosity=2, exit=False).result.wasSuccessful()
    finally:
        SERVICES.stop()
    sys.exit(FAILED)
