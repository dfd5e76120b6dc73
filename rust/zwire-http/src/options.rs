//! Options of a server: those of the reference's `plugins/rest` and `plugins/remote_api`, and those of zwire.

use crate::error::Error;
use core::time::Duration;
use serde::{Deserialize, Deserializer, de::Error as _};
use serde_json::Value;
use std::path::PathBuf;
use zwire_engine::config::{Pem, TlsSettings};

/// Options of a server. Unknown keys are refused.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Options {
    /// Address to listen on: a port, or `HOST:PORT`.
    #[serde(rename = "http_port", deserialize_with = "address")]
    pub listen: String,
    /// Whether clients may read and write keys by HTTP.
    #[serde(default = "yes")]
    pub rest: bool,
    /// Whether WebSockets with the remote API of browsers are accepted.
    #[serde(default = "yes")]
    pub websocket: bool,
    /// Whether the live page is served at `/`: `true` or `"read"`; `"write"` for a page that also publishes.
    #[serde(default, deserialize_with = "ui_access")]
    pub ui: Option<UiAccess>,
    /// Whether clients may declare nothing but subscribers and queriers: no publications, queryables and tokens.
    #[serde(default)]
    pub read_only: bool,
    /// Certificate and key for TLS; without them the server is in clear.
    #[serde(default)]
    pub tls: Option<Tls>,
    /// Origins of web pages with scripts that may use the server, such as `https://dash.example`; `*`: all.
    #[serde(default = "all_origins")]
    pub origins: Vec<String>,
    /// Bearer tokens with their users.
    #[serde(default)]
    pub tokens: Vec<Token>,
    /// Whether requests without a user are accepted. By default only if there are no tokens.
    #[serde(default)]
    pub anonymous: Option<bool>,
    /// Whether answers are compressed for clients that accept it.
    #[serde(default = "yes")]
    pub gzip: bool,
    /// Bounds on clients.
    #[serde(default)]
    pub limits: Limits,
    /// Accepted and unused: the runtime of zwire is shared.
    #[serde(default, rename = "work_thread_num")]
    _workers: Option<u32>,
    #[serde(default, rename = "max_block_thread_num")]
    _blocking: Option<u32>,
    #[serde(default, rename = "__required__")]
    _required: Option<bool>,
    #[serde(default, rename = "__path__")]
    _path: Option<Value>,
    #[serde(default, rename = "__plugin__")]
    _plugin: Option<String>,
    #[serde(default, rename = "private")]
    _private: Option<Value>,
}

/// Purpose of the live page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UiAccess {
    /// To look on.
    Read,
    /// To look on and to publish.
    Write,
}

/// Files of TLS, in PEM.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tls {
    /// Certificate of the server, with its chain up to the authority.
    #[serde(alias = "certificate_path")]
    pub certificate: PathBuf,
    /// Private key of that certificate.
    #[serde(alias = "private_key_path")]
    pub private_key: PathBuf,
    /// Authorities of client certificates; if set, clients have to present one.
    #[serde(default)]
    pub client_ca: Option<PathBuf>,
}

impl Tls {
    pub(crate) fn settings(&self) -> TlsSettings {
        TlsSettings {
            listen_certificate: Some(Pem::File(self.certificate.clone())),
            listen_private_key: Some(Pem::File(self.private_key.clone())),
            root_ca_certificate: self.client_ca.clone().map(Pem::File),
            enable_mtls: Some(self.client_ca.is_some()),
            ..TlsSettings::default()
        }
    }
}

/// Bearer token with the user that it stands for.
#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Token {
    /// The secret.
    pub token: String,
    /// Name of the user, as in `access_control/subjects`.
    pub user: String,
    /// Seconds since 1970 from which on the token is refused; streams that it opened end.
    #[serde(default)]
    pub expires: Option<f64>,
}

impl core::fmt::Debug for Token {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Token").field("user", &self.user).finish_non_exhaustive()
    }
}

/// Largest limit: the semaphores that count have no more permits on machines of 32 bits.
const MOST: usize = (1 << 29) - 1;

/// Bounds on clients that an operator may change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Limits {
    /// Most connections at once. A new one takes the place of the one that is without a request for longest.
    pub connections: usize,
    /// Most event streams and WebSockets at once.
    pub streams: usize,
    /// Most octets of the body of a request, or of a message of a WebSocket.
    pub body: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { connections: 4096, streams: 2048, body: 16 << 20 }
    }
}

impl Options {
    /// Reads the options of `plugins/rest`.
    ///
    /// # Errors
    /// [`Error::Usage`] names the key.
    pub fn from_json(text: &str) -> Result<Self, Error> {
        let options: Self =
            serde_json::from_str(text).map_err(|error| Error::Usage(format!("plugins/rest: {error}")))?;
        let Limits { connections, streams, body } = options.limits;
        if [connections, streams, body].iter().any(|limit| !(1..=MOST).contains(limit)) {
            return Err(Error::Usage(format!("plugins/rest/limits: each has to be from 1 to {MOST}")));
        }
        if let Some(empty) = options.tokens.iter().find(|token| token.token.is_empty()) {
            return Err(Error::Usage(format!("plugins/rest/tokens: the token of {:?} is empty", empty.user)));
        }
        let odd = |time: &&Token| time.expires.is_some_and(|time| Duration::try_from_secs_f64(time).is_err());
        if let Some(odd) = options.tokens.iter().find(odd) {
            let problem = "expires has to be the number of seconds since 1970";
            return Err(Error::Usage(format!("plugins/rest/tokens: the token of {:?}: {problem}", odd.user)));
        }
        if options.ui.is_some() && !options.websocket {
            return Err(Error::Usage("plugins/rest/ui: the page needs websocket: true".to_owned()));
        }
        if options.ui == Some(UiAccess::Write) && options.read_only {
            let problem = "plugins/rest/ui: a page that publishes needs read_only: false";
            return Err(Error::Usage(problem.to_owned()));
        }
        Ok(options)
    }

    pub(crate) fn allows_anonymous(&self) -> bool {
        self.anonymous.unwrap_or(self.tokens.is_empty())
    }
}

const fn yes() -> bool {
    true
}

fn all_origins() -> Vec<String> {
    vec!["*".into()]
}

/// Reads the purpose of the page: a boolean, or a word.
fn ui_access<'de, D: Deserializer<'de>>(from: D) -> Result<Option<UiAccess>, D::Error> {
    match Value::deserialize(from)? {
        Value::Null | Value::Bool(false) => Ok(None),
        Value::Bool(true) => Ok(Some(UiAccess::Read)),
        Value::String(word) if word == "read" => Ok(Some(UiAccess::Read)),
        Value::String(word) if word == "write" => Ok(Some(UiAccess::Write)),
        other => Err(D::Error::custom(format!("ui: {other}: expected a boolean, \"read\" or \"write\""))),
    }
}

/// Reads a port, as number or text, or an address with one. Without a host all addresses of the machine are listened on.
fn address<'de, D: Deserializer<'de>>(from: D) -> Result<String, D::Error> {
    let value = Value::deserialize(from)?;
    let wrong = || D::Error::custom(format!("http_port: {value}: expected a port, or \"HOST:PORT\""));
    let port = |text: &str| text.parse::<u16>().map_err(|_| wrong());
    match &value {
        Value::Number(number) => Ok(format!("[::]:{}", port(&number.to_string())?)),
        Value::String(text) => match text.rsplit_once(':') {
            Some((host, number)) if !host.is_empty() => port(number).map(|_| text.clone()),
            Some(_) => Err(wrong()),
            None => Ok(format!("[::]:{}", port(text)?)),
        },
        _ => Err(wrong()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_options_of_the_reference_are_read() {
        for (json, listen) in [
            (r#"{"http_port": 8000}"#, "[::]:8000"),
            (r#"{"http_port": "8000", "__required__": true, "work_thread_num": 2}"#, "[::]:8000"),
            (r#"{"http_port": "127.0.0.1:0", "max_block_thread_num": 50}"#, "127.0.0.1:0"),
            (r#"{"http_port": "[::1]:8000", "__path__": ["a", "b"]}"#, "[::1]:8000"),
        ] {
            let options = Options::from_json(json).unwrap();
            assert_eq!(options.listen, listen);
            assert_eq!(options.limits, Limits::default());
            assert!(options.allows_anonymous() && options.gzip && options.rest && options.websocket);
        }
    }

    #[test]
    fn tokens_close_the_server_to_others_and_are_not_shown() {
        let json = r#"{"http_port": 1, "tokens": [{"token": "s3cret", "user": "ann", "expires": 1e10}]}"#;
        let options = Options::from_json(json).unwrap();
        assert!(!options.allows_anonymous());
        assert!(!format!("{options:?}").contains("s3cret"));
    }

    #[test]
    fn the_page_is_off_unless_it_is_asked_for() {
        for (json, access) in [
            ("null", None),
            ("false", None),
            ("true", Some(UiAccess::Read)),
            (r#""read""#, Some(UiAccess::Read)),
            (r#""write""#, Some(UiAccess::Write)),
        ] {
            let options = Options::from_json(&format!(r#"{{"http_port": 1, "ui": {json}}}"#)).unwrap();
            assert_eq!((options.ui, options.read_only), (access, false));
        }
        assert_eq!(Options::from_json(r#"{"http_port": 1}"#).unwrap().ui, None);
    }

    #[test]
    fn errors_name_the_key() {
        for (json, part) in [
            (r"{}", "missing field `http_port`"),
            (r#"{"http_port": 65536}"#, "expected a port"),
            (r#"{"http_port": ":80"}"#, "expected a port"),
            (r#"{"http_port": "a:b"}"#, "expected a port"),
            (r#"{"http_port": 1, "http_prot": 2}"#, "unknown field `http_prot`"),
            (r#"{"http_port": 1, "ui": "all"}"#, "ui"),
            (r#"{"http_port": 1, "ui": true, "websocket": false}"#, "ui"),
            (r#"{"http_port": 1, "ui": "write", "read_only": true}"#, "ui"),
            (r#"{"http_port": 1, "limits": {"body": 0}}"#, "limits"),
            (r#"{"http_port": 1, "limits": {"streams": 4611686018427387904}}"#, "limits"),
            (r#"{"http_port": 1, "limits": {"body": 4611686018427387904}}"#, "limits"),
            (r#"{"http_port": 1, "tokens": [{"token": "", "user": "ann"}]}"#, "ann"),
            (r#"{"http_port": 1, "tokens": [{"token": "a", "user": "ann", "expires": -1}]}"#, "expires"),
        ] {
            let error = Options::from_json(json).unwrap_err().to_string();
            assert!(error.starts_with("plugins/rest") && error.contains(part), "{error}");
        }
    }
}
