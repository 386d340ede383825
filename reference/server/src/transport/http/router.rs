//! The table of routes and the order of checks, which is part of the contract (`mcp.http.bearer.order`): the request's id, its log
//! line, its addressee, its path; on the endpoint's path the host, the origin, the token; then the method. Knows nothing of what
//! handlers do.

use super::accept::Peer;
use super::endpoint::Endpoint;
use super::refusal::Refusal;
use super::{access_log, bearer, host, mcp, origin, status};
use crate::token;
use axum::extract::{Request, State};
use axum::http::header::{CACHE_CONTROL, HeaderName, HeaderValue, VARY};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodRouter, any, post};
use axum::{Extension, Router};
use std::convert::Infallible;
use std::sync::Arc;
use tower::{Service, ServiceBuilder};
use tower_http::catch_panic::CatchPanicLayer;
use tower_http::request_id::{
    MakeRequestId, PropagateRequestIdLayer, RequestId, SetRequestIdLayer,
};
use tower_http::set_header::SetResponseHeaderLayer;

static REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
/// A longer `X-Request-Id` is replaced.
const REQUEST_ID_BYTES_MAX: usize = 128;
/// What replies say of caches: they vary by an encoding that a proxy may apply, and are nobody else's.
static CACHES: HeaderValue = HeaderValue::from_static("max-age=0, private, must-revalidate");
static VARIES: HeaderValue = HeaderValue::from_static("accept-encoding");

/// What answers requests.
pub trait Routes:
    Service<Request, Response = Response, Error = Infallible, Future: Send> + Clone + Send + 'static
{
}

impl<S> Routes for S where
    S: Service<Request, Response = Response, Error = Infallible, Future: Send>
        + Clone
        + Send
        + 'static
{
}

/// All that the endpoint serves. What every request meets lies around the table of routes, so that it is there once for all of them.
pub fn router(endpoint: Arc<Endpoint>) -> impl Routes {
    let settings = endpoint.settings();
    let guarded = |route: MethodRouter<Arc<Endpoint>>| {
        route.layer(from_fn_with_state(endpoint.clone(), guard))
    };
    let mcp = post(mcp::post)
        .delete(mcp::delete)
        .fallback(async || Refusal::MethodNotAllowed(mcp::METHODS));
    let mut routes = vec![
        ("/health", any(status::health)),
        ("/health/", any(status::health)),
        ("/ready", any(status::ready)),
        ("/ready/", any(status::ready)),
        (settings.path.as_str(), guarded(mcp)),
    ];
    if let Some(path) = settings.metrics_path.as_deref() {
        routes.push((path, guarded(any(status::metrics))));
    }
    // Paths are the operator's, to the letter: what looks like a pattern is none.
    let router = Router::new().without_v07_checks();
    let router = routes.into_iter().fold(router, |router, (path, route)| {
        router.route(&path.replace('{', "{{").replace('}', "}}"), route)
    });
    let router = router
        .fallback(async || Refusal::NotFound)
        .with_state(endpoint.clone());
    ServiceBuilder::new()
        .map_request(drop_long_id)
        .layer(SetRequestIdLayer::new(REQUEST_ID.clone(), RandomId))
        .layer(PropagateRequestIdLayer::new(REQUEST_ID.clone()))
        .layer(SetResponseHeaderLayer::overriding(
            CACHE_CONTROL,
            CACHES.clone(),
        ))
        .layer(SetResponseHeaderLayer::appending(VARY, VARIES.clone()))
        .layer(from_fn_with_state(endpoint, enter))
        .layer(CatchPanicLayer::custom(|_| {
            Refusal::Internal.into_response()
        }))
        .service(router)
}

/// What every request meets first, as one layer: each layer that can wait costs a request some microseconds.
async fn enter(State(endpoint): State<Arc<Endpoint>>, request: Request, next: Next) -> Response {
    let answer = async |request| match host::read(request) {
        Ok(request) => next.run(request).await,
        Err(refusal) => refusal.into_response(),
    };
    access_log::log(&endpoint, request, answer).await
}

/// The checks of the endpoint's paths, in their order.
async fn guard(
    State(endpoint): State<Arc<Endpoint>>,
    Extension(peer): Extension<Arc<Peer>>,
    request: Request,
    next: Next,
) -> Result<Response, Refusal> {
    host::check(&endpoint, &request)?;
    let page = origin::check(&endpoint, request.headers())?;
    let preflight = page.as_ref().and_then(|_| origin::preflight(&request));
    let mut response = match preflight {
        Some(answer) => answer,
        None => match bearer::check(&endpoint, &peer, request.headers()) {
            Ok(()) => next.run(request).await,
            Err(refusal) => refusal.into_response(),
        },
    };
    if let Some(page) = page {
        page.may_read(&mut response);
    }
    Ok(response)
}

fn drop_long_id(mut request: Request) -> Request {
    let id = request.headers().get(&REQUEST_ID);
    if id.is_some_and(|id| id.len() > REQUEST_ID_BYTES_MAX) {
        request.headers_mut().remove(&REQUEST_ID);
    }
    request
}

/// Names requests that have no name.
#[derive(Clone)]
struct RandomId;

impl MakeRequestId for RandomId {
    fn make_request_id<B>(&mut self, _: &axum::http::Request<B>) -> Option<RequestId> {
        let id = HeaderValue::from_str(&token::random(12)).ok()?;
        Some(RequestId::new(id))
    }
}
