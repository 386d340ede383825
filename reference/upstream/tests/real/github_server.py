"""A code host's MCP server, on the Python SDK over Streamable HTTP. Knows nothing of who calls it."""

import asyncio
import json

from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ToolError

from serve import serve

PULL_REQUESTS = [
    {"number": 101, "state": "open", "files": ["src/a.rs", "docs/x.md"]},
    {"number": 102, "state": "open", "files": ["docs/x.md"]},
    {"number": 103, "state": "closed", "files": ["src/a.rs"]},
    {"number": 104, "state": "open", "files": ["src/b.rs"]},
]

server = MCPServer("github")


@server.tool(structured_output=False)
def list_prs(state: str = "open", limit: int = 50) -> str:
    """Lists pull requests, as JSON text."""
    chosen = [pr for pr in PULL_REQUESTS if pr["state"] == state]
    return json.dumps(chosen[:limit])


@server.tool()
def get_pr(number: int) -> dict:
    """Gets one pull request, as structured content."""
    for pr in PULL_REQUESTS:
        if pr["number"] == number:
            return pr
    raise ToolError(f"no pull request {number}")


@server.tool()
async def wait(seconds: float) -> str:
    """Answers late."""
    await asyncio.sleep(seconds)
    return "waited"


if __name__ == "__main__":
    serve(server.streamable_http_app())
