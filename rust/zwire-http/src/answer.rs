//! The answer to a request: its route, its client, and the headers that all answers have.

use crate::{
    body::{Body, text},
    client::Caller,
    error::Problem,
    events, monitor,
    options::Options,
    page::Form,
    query::{self, RAW},
    remote, ui,
};
use hyper::{
    HeaderMap, Method, Request, Response, StatusCode,
    body::Incoming,
    header::{
        ACCEPT, ACCEPT_ENCODING, ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS,
        ACCESS_CONTROL_ALLOW_ORIGIN, ACCESS_CONTROL_MAX_AGE, ACCESS_CONTROL_REQUEST_METHOD, ALLOW, HOST,
        HeaderValue, ORIGIN, VARY, WWW_AUTHENTICATE,
    },
};
use percent_encoding::percent_decode_str;
use std::net::IpAddr;
use zwire_engine::Session;
use zwire_proto::zenoh::{KeyExpr, Parameters};

/// Methods of keys, for preflights and refusals.
const METHODS: &str = "GET,HEAD,POST,PUT,PATCH,DELETE";

impl Caller {
    /// Answers a request.
    pub(crate) async fn answer(&self, request: Request<Incoming>) -> Response<Body> {
        let origin = request.headers().get(ORIGIN).cloned();
        let wants_json = media_range(request.headers()) == Some("application/json");
        let answer = self.route(request).await;
        let mut response = answer.unwrap_or_else(|problem| refusal(&problem, wants_json));
        allow_origin(&self.site.options, origin.as_ref(), response.headers_mut());
        self.site.counters.answered(response.status());
        response
    }

    async fn route(&self, mut request: Request<Incoming>) -> Result<Response<Body>, Problem> {
        let site = &self.site;
        let reads = matches!(*request.method(), Method::GET | Method::HEAD);
        if request.method() == Method::OPTIONS {
            return Ok(preflight(request.headers()));
        }
        match request.uri().path() {
            "/health" if reads => return Ok(monitor::health()),
            "/ready" if reads => return Ok(monitor::ready(site)),
            // Public as any script: the import of a page has no credentials.
            "/zwire.js" if reads && site.options.websocket && !remote::is_upgrade(request.headers()) => {
                return Ok(remote::script(site.options.gzip && accepts_gzip(request.headers())));
            }
            path if reads && !remote::is_upgrade(request.headers()) => {
                let gzip = site.options.gzip && accepts_gzip(request.headers());
                if let Some(file) = ui::file(&site.options, path, gzip) {
                    return Ok(file);
                }
            }
            _ => {}
        }
        let headers = request.headers();
        check_origin(&site.options, headers)?;
        let foreign = is_foreign(&site.options, headers);
        let client = self.client(headers, foreign, accepts_gzip(headers))?;
        if reads && remote::is_upgrade(request.headers()) {
            return remote::accept(&client, &mut request);
        }
        match request.uri().path() {
            "/metrics" if reads => {
                check_name(&site.options, request.headers(), client.identity.bearer)?;
                return monitor::metrics(&client);
            }
            _ if site.options.rest => {}
            _ => return Err(Problem::new(StatusCode::NOT_FOUND, "this port serves WebSockets only")),
        }
        let (head, body) = request.into_parts();
        match head.method {
            Method::GET | Method::HEAD | Method::POST => {
                let key = key_of(head.uri.path(), &site.session)?;
                let parameters = head.uri.query().unwrap_or_default();
                let form = match media_range(&head.headers) {
                    Some("text/event-stream") => return events::subscribe(&client, key),
                    _ if Parameters::new(parameters.to_owned()).contains(RAW) => Form::Json,
                    Some("text/html") => Form::Html,
                    _ => Form::Json,
                };
                let (payload, _room) = site.bodies.read(body).await?;
                let value =
                    if payload.is_empty() { None } else { Some((query::encoding(&head.headers)?, payload)) };
                query::query(&client, key, parameters, value, form).await
            }
            Method::PUT | Method::PATCH => {
                let key = key_of(head.uri.path(), &site.session)?;
                let encoding = query::encoding(&head.headers)?;
                let (payload, _room) = site.bodies.read(body).await?;
                query::publish(&client, key, Some((encoding, payload))).await
            }
            Method::DELETE => query::publish(&client, key_of(head.uri.path(), &site.session)?, None).await,
            method => {
                Err(Problem::new(StatusCode::METHOD_NOT_ALLOWED, format!("{method} is not one of {METHODS}")))
            }
        }
    }
}

/// Key expression of a path. `@/local` stands for the node itself.
fn key_of(path: &str, session: &Session) -> Result<KeyExpr, Problem> {
    let path = path.strip_prefix('/').unwrap_or(path);
    if path.is_empty() {
        return Err(Problem::new(StatusCode::NOT_FOUND, "the path is empty: name a key, such as /demo/**"));
    }
    let text = percent_decode_str(path).decode_utf8();
    let mut text = text.map_err(|_| Problem::bad("the path is not UTF-8"))?.into_owned();
    let zid = session.zid();
    let below = |prefix: &str| {
        let rest = text.strip_prefix(prefix)?;
        (rest.is_empty() || rest.starts_with('/')).then(|| rest.to_owned())
    };
    if let Some(rest) = below("@/local") {
        text = format!("@/{zid}{rest}");
    } else if let Some(rest) = below("@/router/local") {
        // The order of releases before 1.0.
        text = format!("@/{zid}/router{rest}");
    }
    KeyExpr::new(text).map_err(|error| Problem::bad(format!("the path is no key: {error}")))
}

/// The first media range that the client accepts, without parameters. Others are not looked at.
fn media_range(headers: &HeaderMap) -> Option<&str> {
    headers.get(ACCEPT)?.to_str().ok()?.split(',').next()?.split(';').next()
}

/// Whether `gzip` is among the accepted encodings, and not refused by `q=0`.
fn accepts_gzip(headers: &HeaderMap) -> bool {
    let texts = headers.get_all(ACCEPT_ENCODING).iter().filter_map(|value| value.to_str().ok());
    texts.flat_map(|text| text.split(',')).any(|range| {
        let mut parts = range.split(';').map(str::trim);
        parts.next().is_some_and(|name| name.eq_ignore_ascii_case("gzip"))
            && !parts.any(|part| matches!(part.strip_prefix("q=").map(str::parse::<f32>), Some(Ok(0.0))))
    })
}

/// Answer with a problem, as text, or as JSON if the client asks for that.
fn refusal(problem: &Problem, json: bool) -> Response<Body> {
    let mut response = if json {
        let body = serde_json::json!({ "status": problem.status.as_u16(), "error": problem.text });
        text(problem.status, "application/json", body.to_string())
    } else {
        text(problem.status, "text/plain; charset=utf-8", problem.text.clone())
    };
    match problem.status {
        StatusCode::UNAUTHORIZED => {
            let schemes = HeaderValue::from_static("Bearer realm=\"zwire\", Basic realm=\"zwire\"");
            response.headers_mut().insert(WWW_AUTHENTICATE, schemes);
        }
        StatusCode::METHOD_NOT_ALLOWED => {
            response.headers_mut().insert(ALLOW, HeaderValue::from_static(METHODS));
        }
        _ => {}
    }
    response
}

/// Answer to the question of a browser whether a script may send a request.
fn preflight(headers: &HeaderMap) -> Response<Body> {
    let mut response = Response::new(Body::whole(""));
    let out = response.headers_mut();
    out.insert(ALLOW, HeaderValue::from_static(METHODS));
    if headers.contains_key(ACCESS_CONTROL_REQUEST_METHOD) {
        out.insert(ACCESS_CONTROL_ALLOW_METHODS, HeaderValue::from_static(METHODS));
        let names = HeaderValue::from_static("accept,authorization,content-type");
        out.insert(ACCESS_CONTROL_ALLOW_HEADERS, names);
        out.insert(ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static("600"));
    }
    response
}

/// Header in which browsers tell whether the page of a request is of the same site. Reads of `<img>` and `<script>` have
/// no `Origin`.
const FETCH_SITE: &str = "sec-fetch-site";

/// Whether pages of all origins may use the server.
fn takes_all(options: &Options) -> bool {
    options.origins.iter().any(|one| one == "*")
}

/// Whether an origin is listed by its name.
fn is_listed(options: &Options, origin: &HeaderValue) -> bool {
    options.origins.iter().any(|one| origin.as_bytes().eq_ignore_ascii_case(one.as_bytes()))
}

/// Whether a request without an `Origin` is of a page of another site.
fn is_cross_site(headers: &HeaderMap) -> bool {
    headers.get(FETCH_SITE).is_some_and(|site| site == "cross-site")
}

/// Refuses the requests of pages of other origins: a browser would send them, and only hide the answer.
fn check_origin(options: &Options, headers: &HeaderMap) -> Result<(), Problem> {
    if takes_all(options) {
        return Ok(());
    }
    let text = match headers.get(ORIGIN) {
        Some(origin) if is_listed(options, origin) => return Ok(()),
        Some(origin) if options.ui.is_some() && is_own(headers, origin) && has_no_name(headers) => {
            return Ok(());
        }
        Some(origin) => format!("{origin:?} is not among the origins whose pages may use this server"),
        None if is_cross_site(headers) => {
            "a page of another site has sent this, and not its origin: only pages of listed origins may use this server"
                .to_owned()
        }
        None => return Ok(()),
    };
    Err(Problem::new(StatusCode::FORBIDDEN, text))
}

/// Refuses a read by a name on a port for the live page alone. A page may have got its name to lead to this server after
/// it was loaded: to the browser it is a page of this server, so that the request names no origin.
fn check_name(options: &Options, headers: &HeaderMap, bearer: bool) -> Result<(), Problem> {
    let page_alone = options.ui.is_some() && !options.rest && !takes_all(options);
    if !page_alone || bearer || headers.contains_key(ORIGIN) || has_no_name(headers) {
        return Ok(());
    }
    let text = "this port is for the live page alone and is read by address, or with a bearer token: the owner of a \
                name decides where it leads";
    Err(Problem::new(StatusCode::FORBIDDEN, text))
}

/// Whether a page sends a request that is neither of this server nor of a listed origin. A browser adds the password or
/// the certificate of its user to such a request as to any other.
fn is_foreign(options: &Options, headers: &HeaderMap) -> bool {
    let Some(origin) = headers.get(ORIGIN) else { return is_cross_site(headers) };
    !is_own(headers, origin) && !is_listed(options, origin)
}

/// Whether an origin is that of pages of this server.
fn is_own(headers: &HeaderMap, origin: &HeaderValue) -> bool {
    let text = origin.to_str().unwrap_or_default();
    let host = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"));
    host.zip(headers.get(HOST))
        .is_some_and(|(host, own)| own.as_bytes().eq_ignore_ascii_case(host.as_bytes()))
}

/// Whether a request names the server by its address, or `localhost`. The owner of any other name decides to which
/// address it leads: a page of that name would be one of this server.
fn has_no_name(headers: &HeaderMap) -> bool {
    let Some(host) = headers.get(HOST).and_then(|host| host.to_str().ok()) else { return false };
    let host = host.rsplit_once(':').filter(|(_, port)| !port.ends_with(']')).map_or(host, |(host, _)| host);
    let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    host.eq_ignore_ascii_case("localhost") || bare.parse::<IpAddr>().is_ok()
}

/// Tells a browser that the scripts of a page may read the answer.
fn allow_origin(options: &Options, origin: Option<&HeaderValue>, out: &mut HeaderMap) {
    if takes_all(options) {
        out.insert(ACCESS_CONTROL_ALLOW_ORIGIN, HeaderValue::from_static("*"));
        return;
    }
    out.append(VARY, HeaderValue::from_static("origin"));
    if let Some(origin) = origin.filter(|origin| is_listed(options, origin)) {
        out.insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin.clone());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(name: hyper::header::HeaderName, value: &'static str) -> HeaderMap {
        HeaderMap::from_iter([(name, HeaderValue::from_static(value))])
    }

    #[test]
    fn only_the_first_media_range_counts() {
        for (accept, range) in [
            ("text/event-stream", "text/event-stream"),
            ("text/html;q=0.5, application/json", "text/html"),
            ("*/*, text/html", "*/*"),
        ] {
            assert_eq!(media_range(&headers(ACCEPT, accept)), Some(range));
        }
        assert_eq!(media_range(&HeaderMap::new()), None);
    }

    #[test]
    fn addresses_and_localhost_are_no_names() {
        for (host, is) in [
            ("127.0.0.1:8000", true),
            ("127.0.0.1", true),
            ("[::1]:8000", true),
            ("[::1]", true),
            ("LocalHost:8000", true),
            ("robot:8000", false),
            ("127.0.0.1.evil.example:8000", false),
            ("localhost.evil.example", false),
            ("", false),
        ] {
            assert_eq!(has_no_name(&headers(HOST, host)), is, "{host}");
        }
        assert!(!has_no_name(&HeaderMap::new()));
    }

    #[test]
    fn gzip_is_sent_to_clients_that_accept_it() {
        for (value, accepted) in [
            ("gzip", true),
            ("deflate, GZIP;q=0.5", true),
            ("gzip;q=0", false),
            ("gzip; q=0.0", false),
            ("br", false),
            ("", false),
        ] {
            assert_eq!(accepts_gzip(&headers(ACCEPT_ENCODING, value)), accepted, "{value}");
        }
    }
}
