"""The reference, started and spoken to over its standard streams or over HTTP. Knows nothing of what is asked."""

import json
import os
import socket
import subprocess
import tempfile
import time
import urllib.request

PTC = os.environ["TOUCHSTONE_PTC"]


class Server:
    """A started reference. `said` is everything that it wrote or answered, for those who search it."""

    def __init__(self, config, *flags, environment=None):
        self.errors = tempfile.TemporaryFile(mode="w+", errors="replace")
        self.said = []
        self.id = 0
        command = [PTC, "start", "--upstreams-config", config, *self.flags(), *flags]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.errors, text=True,
                                        env={**os.environ, **(environment or {})})
        self.ready()
        self.ask("initialize", protocolVersion="2025-06-18", capabilities={}, clientInfo={"name": "test", "version": "1"})

    def flags(self):
        return []

    def ready(self):
        pass

    def ask(self, method, **params):
        self.id += 1
        text = self.exchange(json.dumps({"jsonrpc": "2.0", "id": self.id, "method": method, "params": params}))
        self.said.append(text)
        return json.loads(text)["result"]

    def call(self, tool, **arguments):
        """The result of a tool."""
        return self.ask("tools/call", name=tool, arguments=arguments)

    def told(self):
        """Standard error so far."""
        self.errors.seek(0)
        return self.errors.read()

    def close(self):
        self.end()
        self.process.stdin.close()
        self.process.stdout.close()
        self.said.append(self.told())
        self.errors.close()


class Stdio(Server):
    """Over its standard streams."""

    def exchange(self, frame):
        self.process.stdin.write(frame + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            raise AssertionError(f"the server ended: {self.told()}")
        return line

    def end(self):
        self.process.stdin.close()
        status = self.process.wait()
        assert status == 0, (status, self.told())


class Http(Server):
    """Over Streamable HTTP."""

    session = None

    def flags(self):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        self.address = f"http://127.0.0.1:{port}"
        return ["--http", "--http-port", str(port)]

    def ready(self):
        while True:
            try:
                return urllib.request.urlopen(f"{self.address}/ready").close()
            except OSError:
                if self.process.poll() is not None:
                    raise AssertionError(f"the server ended: {self.told()}") from None
                time.sleep(0.05)

    def exchange(self, frame):
        headers = {"content-type": "application/json", "accept": "application/json, text/event-stream"}
        if self.session:
            headers |= {"mcp-session-id": self.session, "mcp-protocol-version": "2025-06-18"}
        with urllib.request.urlopen(urllib.request.Request(f"{self.address}/mcp", frame.encode(), headers)) as reply:
            self.session = reply.headers.get("mcp-session-id", self.session)
            self.said.append(str(reply.headers))
            return reply.read().decode()

    def end(self):
        self.process.terminate()
        self.process.wait()
