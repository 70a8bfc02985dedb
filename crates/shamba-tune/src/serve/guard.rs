//! Which requests are answered, and what every response says to the browser.
//!
//! Anything on this machine can send requests, and so can any page that its browser shows. A page
//! of another site reaches 127.0.0.1 under its own name when it controls that name's addresses (DNS
//! rebinding): so the Host must be ours. It can also send forms and simple requests: so what has a
//! body must be JSON, and come from our own page where the browser says where from. Bodies are
//! bounded in size, and requests in time once their head is there.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::{Request, State};
use axum::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HOST, HeaderName, ORIGIN,
    REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS,
};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use tokio::time::timeout;

use super::Server;
use super::api::refusal;

/// Bytes of a request's body; all inputs together are far below it.
pub(super) const MOST_BODY: usize = 16 << 10;

/// From a request's head to its answer. Measuring looks many keys up.
const MOST_TIME: Duration = Duration::from_secs(600);

/// Nothing but what this server itself sends.
const CONTENT: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; \
    connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

const HEADERS: [(HeaderName, &str); 5] = [
    (CONTENT_SECURITY_POLICY, CONTENT),
    (X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (REFERRER_POLICY, "no-referrer"),
    (CACHE_CONTROL, "no-store"),
    (
        HeaderName::from_static("cross-origin-resource-policy"),
        "same-origin",
    ),
];

/// Passes a request on if it may be answered.
pub(super) async fn check(
    State(server): State<Arc<Server>>,
    request: Request,
    next: Next,
) -> Response {
    let mut response = match allowed(&request, server.port) {
        Ok(()) => {
            let _busy = server.activity.busy();
            let answer = timeout(MOST_TIME, next.run(request)).await;
            answer.unwrap_or_else(|_| {
                refusal(StatusCode::REQUEST_TIMEOUT, "the request took too long").into_response()
            })
        }
        Err((status, why)) => refusal(status, why).into_response(),
    };
    for (name, value) in HEADERS {
        let value = HeaderValue::from_static(value);
        response.headers_mut().insert(name, value);
    }
    response
}

fn allowed(request: &Request, port: u16) -> Result<(), (StatusCode, &'static str)> {
    let headers = request.headers();
    let host = only(headers, &HOST).is_some_and(|host| ours(host, port));
    if !host {
        return Err((
            StatusCode::MISDIRECTED_REQUEST,
            "this server answers as 127.0.0.1 and localhost only",
        ));
    }
    if request.method() != Method::POST {
        return Ok(());
    }
    if headers.contains_key(ORIGIN) {
        let origin = only(headers, &ORIGIN).and_then(|origin| origin.strip_prefix("http://"));
        if !origin.is_some_and(|host| ours(host, port)) {
            return Err((StatusCode::FORBIDDEN, "the request is of another site"));
        }
    }
    let json = only(headers, &CONTENT_TYPE).is_some_and(|kind| {
        let kind = kind.split(';').next().unwrap_or_default();
        kind.trim().eq_ignore_ascii_case("application/json")
    });
    if json {
        Ok(())
    } else {
        Err((
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            "the body must be application/json",
        ))
    }
}

/// The one value of a header.
fn only<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    let mut values = headers.get_all(name).iter();
    let value = values.next()?.to_str().ok()?;
    values.next().is_none().then_some(value)
}

/// Whether a host with its port is this server.
fn ours(host: &str, port: u16) -> bool {
    let (name, of) = host.split_once(':').unwrap_or((host, "80"));
    let name = name.eq_ignore_ascii_case("localhost") || name == "127.0.0.1";
    name && of == port.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_our_own_names_are_ours() {
        for host in ["127.0.0.1:8417", "localhost:8417", "LocalHost:8417"] {
            assert!(ours(host, 8417), "{host}");
        }
        assert!(ours("localhost", 80));
        for host in [
            "",
            "localhost",
            "localhost:84170",
            "localhost:08417",
            "localhost.evil.example:8417",
            "127.0.0.1.evil.example:8417",
            "127.0.0.2:8417",
            "evil.example:8417",
            "user@localhost:8417",
            "localhost:8417/",
            "[::1]:8417",
        ] {
            assert!(!ours(host, 8417), "{host}");
        }
    }
}
