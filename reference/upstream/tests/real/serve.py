"""Serves an ASGI application on a free port of this machine, and says which one on standard output.

Knows nothing of the applications."""

import socket

import uvicorn


def serve(app, certificate=None):
    """Runs until it is killed. `certificate`: a PEM file with certificate and key, for TLS."""
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind(("127.0.0.1", 0))
    # From here on, a client that comes before the application is up waits instead of being refused.
    listener.listen()
    print(listener.getsockname()[1], flush=True)
    uvicorn.Server(uvicorn.Config(app, log_level="warning", ssl_certfile=certificate)).run(sockets=[listener])
