//! An MCP server built with the official Rust SDK: `rmcp-example` uses its standard streams, `rmcp-example PORT` Streamable HTTP.
//! Nothing in it is made for the test: it follows the SDK's documentation.

use std::time::Duration;

use rmcp::handler::server::router::tool::ToolRouter;
use rmcp::handler::server::wrapper::{Json, Parameters};
use rmcp::model::{ServerCapabilities, ServerConfig};
use rmcp::transport::streamable_http_server::{
    StreamableHttpServerConfig, StreamableHttpService, session::local::LocalSessionManager,
};
use rmcp::{ServerHandler, ServiceExt, schemars, tool, tool_handler, tool_router};

#[derive(Debug, serde::Deserialize, schemars::JsonSchema)]
struct Summands {
    a: i64,
    b: i64,
}

#[derive(Debug, serde::Serialize, schemars::JsonSchema)]
struct Sum {
    sum: i64,
}

#[derive(Debug, Clone)]
struct Example {
    tool_router: ToolRouter<Self>,
}

#[tool_router]
impl Example {
    fn new() -> Self {
        Self {
            tool_router: Self::tool_router(),
        }
    }

    #[tool(description = "Adds two numbers", annotations(read_only_hint = true))]
    fn add(&self, Parameters(Summands { a, b }): Parameters<Summands>) -> Json<Sum> {
        Json(Sum { sum: a + b })
    }

    #[tool(description = "Waits a second", annotations(read_only_hint = true))]
    async fn wait(&self) -> String {
        tokio::time::sleep(Duration::from_secs(1)).await;
        "waited".to_owned()
    }
}

#[tool_handler(router = self.tool_router)]
impl ServerHandler for Example {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let Some(port) = std::env::args().nth(1) else {
        let running = Example::new().serve(rmcp::transport::stdio()).await?;
        running.waiting().await?;
        return Ok(());
    };
    let service: StreamableHttpService<Example, LocalSessionManager> = StreamableHttpService::new(
        || Ok(Example::new()),
        Default::default(),
        StreamableHttpServerConfig::default(),
    );
    let listener = tokio::net::TcpListener::bind(format!("127.0.0.1:{port}")).await?;
    axum::serve(listener, axum::Router::new().nest_service("/mcp", service)).await?;
    Ok(())
}
