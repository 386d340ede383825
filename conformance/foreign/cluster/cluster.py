#!/usr/bin/env python3
"""One server to its clients, three behind HAProxy in truth: every request goes to the next of three processes, which share a
Redis of their own. Takes the flags of `ptc start --http`, and ends with its input, a signal, or the first process that ends.

    PTC=target/release/ptc conformance/foreign/cluster/cluster.py start --http --http-port 7332 --sessions
"""

import itertools
import os
import signal
import socket
import subprocess
import sys
import time

NODES = 3
PTC = os.environ.get("PTC", "ptc")
CONFIG = """
global
    maxconn 1024
defaults
    mode http
    timeout connect 2s
    timeout client 120s
    timeout server 120s
    timeout http-request 60s
    option http-keep-alive
    option abortonclose
frontend mcp
    bind {host}:{port}
    default_backend nodes
backend nodes
    balance roundrobin
    option forwardfor
    http-reuse safe
{servers}
"""


# Below the ports that harnesses and outgoing connections take, so that none of them comes between the choice and the bind.
PORTS = range(2048, 10240)
PORTS_EACH = 8


def free_ports():
    """Ports that no other cluster of this moment chooses: each takes them under names that one process alone can have, while it lives."""
    begin = os.getpid() * PORTS_EACH
    for at in itertools.count(begin):
        port = PORTS[at % len(PORTS)]
        taken = socket.socket(socket.AF_UNIX)
        try:
            # A name without a file, as Linux has them; elsewhere the process id alone keeps clusters apart.
            if sys.platform == "linux":
                taken.bind(f"\0touchstone port {port}")
            with socket.socket() as listener:
                listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                listener.bind(("127.0.0.1", port))
        except OSError:
            taken.close()
            continue
        TAKEN.append(taken)
        yield port


TAKEN = []


def answers(port, host="127.0.0.1"):
    try:
        socket.create_connection((host, port), timeout=1).close()
        return True
    except OSError:
        return False


def taken(arguments, name, default):
    """The value of a flag, and the arguments without it."""
    rest, value, at = [], default, 0
    while at < len(arguments):
        word = arguments[at]
        if word == f"--{name}" and at + 1 < len(arguments):
            value, at = arguments[at + 1], at + 2
        elif word.startswith(f"--{name}="):
            value, at = word.split("=", 1)[1], at + 1
        else:
            rest.append(word)
            at += 1
    return value, rest


def main():
    arguments = sys.argv[1:]
    port, arguments = taken(arguments, "http-port", os.environ.get("PTC_RUNNER_MCP_HTTP_PORT", "7332"))
    host, _ = taken(arguments, "http-host", "127.0.0.1")
    if "--http" not in arguments or not port.isdigit():
        os.execvp(PTC, [PTC, *sys.argv[1:]])
    processes = []

    def end(status):
        for process in processes:
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
        for process in processes:
            try:
                process.wait(timeout=15)
            except subprocess.TimeoutExpired:
                process.kill()
        sys.exit(status)

    signal.signal(signal.SIGTERM, lambda *_: end(0))
    signal.signal(signal.SIGINT, lambda *_: end(0))

    def until(done):
        since = time.monotonic()
        while not done():
            for process in processes:
                if process.poll() is not None:
                    end(process.returncode or 1)
            if time.monotonic() - since > 60:
                print("the cluster does not start", file=sys.stderr)
                end(1)
            time.sleep(0.01)

    try:
        serve(arguments, host, port, processes, until)
    except OSError as error:
        print(f"the cluster does not start: {error}", file=sys.stderr)
    end(next((process.returncode for process in processes if process.poll() is not None), 1) or 1)


def serve(arguments, host, port, processes, until):
    """Starts the store, the servers and what is before them, and returns when the first of them ends."""
    quiet = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL}
    free = free_ports()
    store = next(free)
    redis = ["redis-server", "--port", str(store), "--bind", "127.0.0.1", "--save", ""]
    processes.append(subprocess.Popen(redis, **quiet))
    until(lambda: answers(store))
    environment = os.environ | {"PTC_RUNNER_MCP_SESSION_STORE": f"redis://127.0.0.1:{store}"}
    ports = [next(free) for _ in range(NODES)]
    for node in ports:
        command = [PTC, *arguments, "--http-port", str(node)]
        # Of what all of them log the first one's is enough: the others say the same of other requests.
        log = None if node == ports[0] else subprocess.DEVNULL
        processes.append(subprocess.Popen(command, env=environment, stderr=log, **quiet))
    address = "127.0.0.1" if host in ("localhost", "0.0.0.0") else host
    until(lambda: all(answers(node, address) for node in ports))
    servers = "\n".join(f"    server node{at} {address}:{node}" for at, node in enumerate(ports))
    bind = "127.0.0.1" if host == "localhost" else host
    # Through a pipe: whoever runs the cluster may kill all of it at once, and nothing is left behind then.
    haproxy = subprocess.Popen(["haproxy", "-db", "-q", "-f", "/dev/stdin"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    processes.append(haproxy)
    with haproxy.stdin as config:
        config.write(CONFIG.format(host=bind, port=port, servers=servers).encode())
    until(lambda: answers(int(port), address))
    while all(process.poll() is None for process in processes):
        time.sleep(0.05)


if __name__ == "__main__":
    main()
