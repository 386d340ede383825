//! The table of routes and the order of checks, which is part of the contract (`mcp.http.bearer.order`): the request's id, its log line,
//! its addressee, its path; on the endpoint's path the host, the origin, the token; then the method. Knows nothing of what handlers do.

use super::accept::Peer;
use super::endpoint::Endpoint;
use super::refusal::HttpRefusal;
use super::{access_log, bearer, host, mcp, origin, status};
use crate::token;
use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::http::header::{CACHE_CONTROL, HeaderName, HeaderValue, VARY};
use axum::response::{IntoResponse, Response};
use axum::routing::{any, post};
use std::convert::Infallible;
use std::sync::Arc;
use tower::{Service, ServiceBuilder, service_fn};
use tower_http::catch_panic::CatchPanicLayer;
use tower_http::request_id::{
    MakeRequestId, PropagateRequestIdLayer, RequestId, SetRequestIdLayer,
};
use tower_http::set_header::SetResponseHeaderLayer;

static REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
/// A longer `X-Request-Id` is replaced.
const REQUEST_ID_BYTES_MAX: usize = 128;
/// Caching headers of replies: they vary by an encoding that a proxy may apply, and are private.
static CACHES: HeaderValue = HeaderValue::from_static("max-age=0, private, must-revalidate");
static VARIES: HeaderValue = HeaderValue::from_static("accept-encoding");

/// Who may reach a route.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Access {
    Everyone,
    /// Requests that pass the checks of host, origin and token.
    Checked,
}

/// A service that answers requests.
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

/// Everything that the endpoint serves. The layers that apply to every request surround the whole table, so that they exist only once.
pub fn router(endpoint: Arc<Endpoint>) -> impl Routes {
    let settings = endpoint.settings();
    let mcp = post(mcp::post)
        .delete(mcp::delete)
        .fallback(async || HttpRefusal::MethodNotAllowed(mcp::METHODS));
    let mut rows = vec![
        ("/health", Access::Everyone, any(status::health)),
        ("/health/", Access::Everyone, any(status::health)),
        ("/ready", Access::Everyone, any(status::ready)),
        ("/ready/", Access::Everyone, any(status::ready)),
        (settings.path.as_str(), Access::Checked, mcp),
    ];
    if let Some(path) = settings.metrics_path.as_deref() {
        rows.push((path, Access::Checked, any(status::metrics)));
    }
    let checked = rows
        .iter()
        .filter(|(_, access, _)| *access == Access::Checked);
    let checked: Arc<[String]> = checked.map(|(path, ..)| String::from(*path)).collect();
    // Paths are taken literally, even where they look like a pattern.
    let routes = Router::new().without_v07_checks();
    let routes = rows.into_iter().fold(routes, |routes, (path, _, route)| {
        routes.route(&path.replace('{', "{{").replace('}', "}}"), route)
    });
    ServiceBuilder::new()
        .map_request(drop_long_id)
        .layer(SetRequestIdLayer::new(REQUEST_ID.clone(), RandomId))
        .layer(PropagateRequestIdLayer::new(REQUEST_ID.clone()))
        .layer(SetResponseHeaderLayer::overriding(
            CACHE_CONTROL,
            CACHES.clone(),
        ))
        .layer(SetResponseHeaderLayer::appending(VARY, VARIES.clone()))
        .layer_fn(|inner| enter(endpoint.clone(), inner))
        .map_response(|response: Response<_>| response.map(Body::new))
        .layer(CatchPanicLayer::custom(|_| {
            HttpRefusal::Internal.into_response()
        }))
        .layer_fn(|inner| guard(endpoint.clone(), checked.clone(), inner))
        .service(
            routes
                .fallback(async || HttpRefusal::NotFound)
                .with_state(endpoint.clone()),
        )
}

/// The outermost steps of every request. Not `axum::middleware`, here and below, because its layers copy the inner service into a new box
/// for each request.
fn enter(endpoint: Arc<Endpoint>, inner: impl Routes) -> impl Routes {
    service_fn(move |request| {
        let (endpoint, mut inner) = (endpoint.clone(), inner.clone());
        // The future is large, and the outer layers would move it several times.
        Box::pin(async move {
            let answer = async |request| match host::read(request) {
                Ok(request) => answer(&mut inner, request).await,
                Err(refusal) => refusal.into_response(),
            };
            Ok(access_log::log(&endpoint, request, answer).await)
        })
    })
}

/// Requests to `checked` paths must pass the checks, in their order.
fn guard(endpoint: Arc<Endpoint>, checked: Arc<[String]>, inner: impl Routes) -> impl Routes {
    service_fn(move |request: Request| {
        let (endpoint, mut inner) = (endpoint.clone(), inner.clone());
        let path = request.uri().path();
        let is_checked = checked.iter().any(|checked| checked == path);
        async move {
            Ok(match is_checked {
                true => check(&endpoint, &mut inner, request)
                    .await
                    .unwrap_or_else(IntoResponse::into_response),
                false => answer(&mut inner, request).await,
            })
        }
    })
}

async fn check(
    endpoint: &Endpoint,
    inner: &mut impl Routes,
    request: Request,
) -> Result<Response, HttpRefusal> {
    host::check(endpoint, &request)?;
    let page = origin::check(endpoint, request.headers())?;
    let preflight = page.as_ref().and_then(|_| origin::preflight(&request));
    let mut response = match preflight {
        Some(answer) => answer,
        None => match bearer::check(endpoint, peer(&request)?, request.headers()) {
            Ok(()) => answer(inner, request).await,
            Err(refusal) => refusal.into_response(),
        },
    };
    if let Some(page) = page {
        page.allow_read(&mut response);
    }
    Ok(response)
}

fn peer(request: &Request) -> Result<&Peer, HttpRefusal> {
    let peer = request.extensions().get::<Arc<Peer>>();
    peer.map(Arc::as_ref).ok_or(HttpRefusal::Internal)
}

async fn answer(inner: &mut impl Routes, request: Request) -> Response {
    let Ok(response) = inner.call(request).await;
    response
}

fn drop_long_id(mut request: Request) -> Request {
    let id = request.headers().get(&REQUEST_ID);
    if id.is_some_and(|id| id.len() > REQUEST_ID_BYTES_MAX) {
        request.headers_mut().remove(&REQUEST_ID);
    }
    request
}

/// Generates ids for requests without one.
#[derive(Clone)]
struct RandomId;

impl MakeRequestId for RandomId {
    fn make_request_id<B>(&mut self, _: &axum::http::Request<B>) -> Option<RequestId> {
        let id = HeaderValue::from_str(&token::random(12)).ok()?;
        Some(RequestId::new(id))
    }
}
