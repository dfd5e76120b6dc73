//! Users of requests, and the access policy of the node for them.

use crate::{error::Problem, options::Options};
use core::time::Duration;
use data_encoding::BASE64;
use hyper::{
    HeaderMap, StatusCode,
    header::{AUTHORIZATION, SEC_WEBSOCKET_PROTOCOL},
};
use parking_lot::Mutex;
use std::net::IpAddr;
use zwire_engine::{Query, Session, clock, config::Secret, interfaces};
use zwire_proto::zenoh::{
    KeyExpr, Payload, Qos, Reliability,
    intercept::{Answer, Egress, Flow, Ingress, Inquiry, Interceptor, LinkFacts, MessageKind},
    session::{Get, Reply, Sample, SampleKind},
    wire::{
        Del, Err as WireErr, NetworkMessage, Push, PushBody, Put, Query as WireQuery, Reply as WireReply,
        Request, Response, ResponseBody, WireExpr,
    },
};

/// Subprotocol of a WebSocket that carries a token: scripts of pages cannot set other headers.
const BEARER_PROTOCOL: &str = "bearer.";
/// Period in which the password of a client with an open stream is compared with that in force.
const PASSWORDS: Duration = Duration::from_secs(1);

/// Client of a request.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Identity {
    /// Name of the user; `None`: unknown.
    pub(crate) user: Option<String>,
    /// Time since 1970 at which its token expires.
    expires: Option<Duration>,
    /// Password that it has logged in with.
    password: Option<Secret>,
    /// Whether it has presented a bearer token, which no browser adds by itself.
    pub(crate) bearer: bool,
}

impl Identity {
    /// Completed, with the reason, when the token has expired, or the password is no longer that of the user.
    pub(crate) async fn expired(&self, password_of: impl Fn(&str) -> Option<Secret>) -> &'static str {
        if let (Some(user), Some(known)) = (&self.user, &self.password) {
            while password_of(user).as_ref() == Some(known) {
                tokio::time::sleep(PASSWORDS).await;
            }
            return "the user was removed, or has another password";
        }
        let Some(end) = self.expires else { return core::future::pending().await };
        // The wall clock may be set: a wait of at most a minute keeps its error small.
        loop {
            let left = end.saturating_sub(clock::now().wall);
            if left.is_zero() {
                return "the token has expired";
            }
            tokio::time::sleep(left.min(Duration::from_secs(60))).await;
        }
    }
}

/// Checks credentials: bearer tokens, and users with the passwords in force, which `password_of` returns.
pub(crate) fn identify(
    options: &Options,
    password_of: impl Fn(&str) -> Option<Secret>,
    headers: &HeaderMap,
) -> Result<Identity, Problem> {
    let refused = |text: &str| Problem::new(StatusCode::UNAUTHORIZED, text);
    let protocols = headers.get(SEC_WEBSOCKET_PROTOCOL).and_then(|value| value.to_str().ok());
    let protocols = protocols.into_iter().flat_map(|list| list.split(','));
    let offered = protocols.map(str::trim).find_map(|one| one.strip_prefix(BEARER_PROTOCOL));
    let credentials = match (headers.get(AUTHORIZATION), offered) {
        (Some(value), _) => {
            let text = value.to_str().map_err(|_| refused("the header Authorization is not ASCII"))?;
            text.split_once(' ').ok_or_else(|| refused("the header Authorization has no credentials"))?
        }
        (None, Some(token)) => ("bearer", token),
        (None, None) if options.allows_anonymous() => return Ok(Identity::default()),
        (None, None) => return Err(refused("this server needs a bearer token, or a user with a password")),
    };
    match credentials {
        (scheme, token) if scheme.eq_ignore_ascii_case("bearer") => {
            let token = token.trim();
            // All are compared, so that the time tells nothing about their order.
            let known = options.tokens.iter().fold(None, |found, known| {
                if is_same(known.token.as_bytes(), token.as_bytes()) { Some(known) } else { found }
            });
            let known = known.ok_or_else(|| refused("the bearer token is not known"))?;
            let expires = known.expires.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
            if expires.is_some_and(|end| end <= clock::now().wall) {
                return Err(refused("the bearer token has expired"));
            }
            Ok(Identity { user: Some(known.user.clone()), expires, password: None, bearer: true })
        }
        (scheme, encoded) if scheme.eq_ignore_ascii_case("basic") => {
            let decoded = BASE64.decode(encoded.trim().as_bytes()).ok();
            let decoded = decoded.and_then(|octets| String::from_utf8(octets).ok());
            let pair = decoded.as_deref().and_then(|text| text.split_once(':'));
            let (user, password) =
                pair.ok_or_else(|| refused("the credentials are not base64 of USER:PASSWORD"))?;
            let known = password_of(user);
            if known.as_ref().is_some_and(|known| is_same(known.reveal().as_bytes(), password.as_bytes())) {
                return Ok(Identity { user: Some(user.to_owned()), password: known, ..Identity::default() });
            }
            Err(refused("the user or its password is wrong"))
        }
        _ => Err(refused("the scheme of the header Authorization is neither Bearer nor Basic")),
    }
}

/// Compares secrets in a time that depends on their lengths only.
fn is_same(one: &[u8], other: &[u8]) -> bool {
    one.len() == other.len() && one.iter().zip(other).fold(0, |all, (a, b)| all | (a ^ b)) == 0
}

/// Way by which a client comes, as the rules of the node see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Way {
    /// Address of this machine that the client has connected to.
    pub(crate) here: IpAddr,
    pub(crate) tls: bool,
    /// Name in the certificate of the client, if it had to present one.
    pub(crate) common_name: Option<String>,
}

/// Access policy of the node for the requests of a user, as if they came by a link of it. It is always the one in force.
pub(crate) struct AccessGate {
    session: Session,
    way: Way,
    user: Option<String>,
    /// Whether the server takes nothing but questions and subscriptions.
    read_only: bool,
    /// The policy for this user, and how often that of the node was replaced before.
    policy: Mutex<Option<(u64, Option<Interceptor>)>>,
}

impl AccessGate {
    pub(crate) fn new(session: &Session, way: Way, user: Option<String>, read_only: bool) -> Self {
        Self { session: session.clone(), way, user, read_only, policy: Mutex::default() }
    }

    /// Whether it is that of this user on this way.
    pub(crate) fn is_of(&self, user: Option<&str>, way: &Way) -> bool {
        self.user.as_deref() == user && self.way == *way
    }

    /// Asks the policy in force, with its number; `free` if it does not concern the user.
    fn ask<R>(&self, free: R, question: impl FnOnce(u64, &mut Interceptor) -> R) -> R {
        let mut policy = self.policy.lock();
        let (rules, machine) = match &mut *policy {
            Some(known) if known.0 == self.session.link_policy_changes() => known,
            outdated => outdated.insert(self.policy_in_force()),
        };
        machine.as_mut().map_or(free, |machine| question(*rules, machine))
    }

    fn policy_in_force(&self) -> (u64, Option<Interceptor>) {
        let (changes, policy) = self.session.link_policy();
        if policy.is_empty() {
            return (changes, None);
        }
        (changes, self.with_facts(|facts| Interceptor::new(&policy, facts)))
    }

    fn with_facts<R>(&self, f: impl FnOnce(&LinkFacts<'_>) -> R) -> R {
        f(&LinkFacts {
            zid: None,
            interfaces: &interfaces::interfaces_with(self.way.here),
            protocol: if self.way.tls { "tls" } else { "tcp" },
            common_name: self.way.common_name.as_deref(),
            username: self.user.as_deref(),
        })
    }

    /// Whether the policy in force lets a message pass. Where an authority decides, this waits for its answer, without
    /// the lock, which `question` is asked with a second time.
    fn passes(&self, question: impl Fn(&mut Interceptor, Option<Answer>) -> Result<bool, Inquiry>) -> bool {
        let mut by = 0;
        let inquiry = match self.ask(Ok(true), |rules, machine| {
            by = rules;
            question(machine, None)
        }) {
            Ok(passes) => return passes,
            Err(inquiry) => inquiry,
        };
        let answer = self.with_facts(|facts| self.session.ask_authority(inquiry, facts));
        // Rules that have replaced them meanwhile decide themselves: the answer means nothing to them.
        answer.is_some_and(|answer| {
            self.ask(Ok(true), |rules, machine| question(machine, (rules == by).then_some(answer)))
                == Ok(true)
        })
    }

    /// Whether a message of the client enters, also by its size and rate.
    fn enters(&self, message: impl Fn() -> NetworkMessage) -> bool {
        self.passes(|machine, answer| {
            match machine.ingress_asking(clock::now(), &mut message(), Reliability::Reliable, answer) {
                Ingress::Pass => Ok(true),
                Ingress::Refused => Ok(false),
                Ingress::Ask(inquiry) => Err(inquiry),
            }
        })
    }

    /// Whether a message to the client leaves, also by its size and rate.
    fn leaves(&self, message: impl Fn() -> NetworkMessage) -> bool {
        self.passes(|machine, answer| {
            match machine.egress_asking(clock::now(), &message(), Reliability::Reliable, answer) {
                Egress::Pass | Egress::Changed(_) => Ok(true),
                Egress::Refused => Ok(false),
                Egress::Ask(inquiry) => Err(inquiry),
            }
        })
    }

    /// Whether the rules of access control let a message of this kind pass.
    fn permits(&self, flow: Flow, kind: MessageKind, key: &KeyExpr) -> bool {
        self.passes(|machine, answer| {
            let inquiry = Inquiry { flow, kind, key: Some(key.clone()) };
            machine.permits_asking(clock::now(), inquiry, answer)
        })
    }

    /// Refuses what a client of a server that is to be read may not do.
    fn may_write(&self, kind: MessageKind, key: &KeyExpr) -> Result<(), Problem> {
        if self.read_only {
            let text = format!("{key}: {}: this server may be read alone: read_only is true", kind.name());
            return Err(Problem::new(StatusCode::FORBIDDEN, text));
        }
        Ok(())
    }

    /// Whether the rules of access control let a message of the client enter.
    fn admit(&self, kind: MessageKind, key: &KeyExpr) -> Result<(), Problem> {
        if self.permits(Flow::Ingress, kind, key) {
            return Ok(());
        }
        Err(refused(kind, key))
    }

    /// Whether a publication may enter, also by its size and rate.
    pub(crate) fn publish(&self, key: &KeyExpr, body: &PushBody) -> Result<(), Problem> {
        let kind = if matches!(body, PushBody::Put(_)) { MessageKind::Put } else { MessageKind::Delete };
        self.may_write(kind, key)?;
        if self.enters(|| push(key, body.clone())) { Ok(()) } else { Err(refused(kind, key)) }
    }

    /// Whether a publisher may be declared: what it publishes is looked at once more.
    pub(crate) fn publisher(&self, key: &KeyExpr) -> Result<(), Problem> {
        self.may_write(MessageKind::Put, key)?;
        self.admit(MessageKind::Put, key).or_else(|_| self.admit(MessageKind::Delete, key))
    }

    /// Whether a querier may be declared: what it asks is looked at once more.
    pub(crate) fn querier(&self, key: &KeyExpr) -> Result<(), Problem> {
        self.admit(MessageKind::Query, key)
    }

    /// Whether a query may enter, also by its size and rate.
    pub(crate) fn query(&self, get: &Get) -> Result<(), Problem> {
        let enters = self.enters(|| {
            let (body, attachment) = (get.body.clone(), get.attachment.clone());
            request(&get.key, WireQuery { body, attachment, ..WireQuery::default() })
        });
        if enters { Ok(()) } else { Err(refused(MessageKind::Query, &get.key)) }
    }

    /// Whether an answer of a queryable of the client may enter, also by its size and rate. `key`: that of the sample,
    /// or of the query for an error.
    pub(crate) fn answer(&self, key: &KeyExpr, body: &ResponseBody) -> Result<(), Problem> {
        if self.enters(|| response(key, body.clone())) {
            Ok(())
        } else {
            Err(refused(MessageKind::Reply, key))
        }
    }

    /// Whether keys of the admin space of this node may be read.
    pub(crate) fn admin(&self, path: &str) -> Result<(), Problem> {
        let (zid, role) = (self.session.zid(), self.session.config().mode);
        let key = KeyExpr::new(format!("@/{zid}/{role}/{path}"))
            .map_err(|error| Problem::bad(error.to_string()))?;
        if !self.session.admin_is_readable() {
            let text = format!(
                "{key}: the configuration of this node refuses it: adminspace/permissions/read is false"
            );
            return Err(Problem::new(StatusCode::FORBIDDEN, text));
        }
        self.admit(MessageKind::Query, &key)
    }

    /// Whether a subscriber may be declared.
    pub(crate) fn subscribe(&self, key: &KeyExpr) -> Result<(), Problem> {
        self.admit(MessageKind::DeclareSubscriber, key)
    }

    /// Whether a queryable may be declared.
    pub(crate) fn queryable(&self, key: &KeyExpr) -> Result<(), Problem> {
        self.may_write(MessageKind::DeclareQueryable, key)?;
        self.admit(MessageKind::DeclareQueryable, key)
    }

    /// Whether a liveliness token may be declared.
    pub(crate) fn token(&self, key: &KeyExpr) -> Result<(), Problem> {
        self.may_write(MessageKind::LivelinessToken, key)?;
        self.admit(MessageKind::LivelinessToken, key)
    }

    /// Whether tokens may be asked for, once or from now on.
    pub(crate) fn liveliness(&self, key: &KeyExpr, future: bool) -> Result<(), Problem> {
        let kind =
            if future { MessageKind::DeclareLivelinessSubscriber } else { MessageKind::LivelinessQuery };
        self.admit(kind, key)
    }

    /// Whether a sample of a subscriber may leave.
    pub(crate) fn leave(&self, sample: &Sample) -> bool {
        self.leaves(|| push(&sample.key, body_of(sample)))
    }

    /// Whether a reply to a get on a key may leave, also by its size and rate.
    pub(crate) fn reply(&self, get: &KeyExpr, reply: &Reply) -> bool {
        self.leaves(|| match &reply.result {
            Ok(sample) => response(&sample.key, ResponseBody::Reply(WireReply::new(body_of(sample)))),
            Err(error) => response(get, error_body(error.payload.clone())),
        })
    }

    /// Whether a token may leave.
    pub(crate) fn show_token(&self, key: &KeyExpr) -> bool {
        self.permits(Flow::Egress, MessageKind::LivelinessToken, key)
    }

    /// Whether a query may leave to a queryable of the client, also by its size and rate.
    pub(crate) fn ask_client(&self, query: &Query) -> bool {
        self.leaves(|| {
            let (body, attachment) = (query.body.clone(), query.attachment.clone());
            request(&query.key, WireQuery { body, attachment, ..WireQuery::default() })
        })
    }
}

/// Body of the message that brings a sample, as rules look at it.
fn body_of(sample: &Sample) -> PushBody {
    let attachment = sample.attachment.clone();
    match sample.kind {
        SampleKind::Put => {
            PushBody::Put(Put { payload: sample.payload.clone(), attachment, ..Put::default() })
        }
        SampleKind::Delete => PushBody::Del(Del { attachment, ..Del::default() }),
    }
}

/// Body of the message that brings an error of a queryable, as rules look at it.
pub(crate) fn error_body(payload: Payload) -> ResponseBody {
    ResponseBody::Err(WireErr { payload, ..WireErr::default() })
}

fn request(key: &KeyExpr, query: WireQuery) -> NetworkMessage {
    NetworkMessage::Request(Request::new(0, WireExpr::full(key.text().clone()), query))
}

fn response(key: &KeyExpr, body: ResponseBody) -> NetworkMessage {
    NetworkMessage::Response(Response {
        id: 0,
        key: WireExpr::full(key.text().clone()),
        qos: Qos::REQUEST,
        timestamp: None,
        responder: None,
        ts_stack: None,
        body,
    })
}

fn push(key: &KeyExpr, body: PushBody) -> NetworkMessage {
    NetworkMessage::Push(Push::new(WireExpr::full(key.text().clone()), body))
}

fn refused(kind: MessageKind, key: &KeyExpr) -> Problem {
    let text = format!("the rules of this node refuse {} on {key}", kind.name());
    Problem::new(StatusCode::FORBIDDEN, text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use hyper::header::HeaderValue;

    fn options(json: &str) -> Options {
        Options::from_json(&format!(r#"{{"http_port": 0, {json}}}"#)).unwrap()
    }

    fn of(options: &Options, name: &'static str, value: &str) -> Result<Identity, Problem> {
        let password = |user: &str| (user == "bob").then(|| Secret::new("pw:1".to_owned()));
        let mut headers = HeaderMap::new();
        headers.insert(name, HeaderValue::from_str(value).unwrap());
        identify(options, password, &headers)
    }

    #[test]
    fn tokens_and_passwords_stand_for_users() {
        let options = options(
            r#""tokens": [{"token": "abc", "user": "ann"}, {"token": "old", "user": "ann", "expires": 1}]"#,
        );
        let user = |name, value| of(&options, name, value).map(|found| found.user.unwrap_or_default());
        assert_eq!(user("authorization", "Bearer abc").unwrap(), "ann");
        assert_eq!(user("authorization", "bearer  abc").unwrap(), "ann");
        assert_eq!(user("sec-websocket-protocol", "zwire, bearer.abc").unwrap(), "ann");
        // bob:pw:1
        assert_eq!(user("authorization", "Basic Ym9iOnB3OjE=").unwrap(), "bob");
        for (value, text) in [
            ("Bearer abd", "not known"),
            ("Bearer old", "expired"),
            ("Bearer", "no credentials"),
            ("Basic Ym9iOnB3OjI=", "wrong"),
            ("Basic bob", "base64"),
            ("Digest abc", "neither"),
        ] {
            let problem = of(&options, "authorization", value).unwrap_err();
            assert_eq!(problem.status, StatusCode::UNAUTHORIZED);
            assert!(problem.text.contains(text), "{}", problem.text);
        }
        let none = of(&options, "accept", "*/*").unwrap_err();
        assert!(none.text.contains("needs"), "{}", none.text);
    }

    #[test]
    fn without_tokens_clients_may_be_unknown() {
        assert_eq!(of(&options(r#""tokens": []"#), "accept", "*/*"), Ok(Identity::default()));
        assert!(of(&options(r#""anonymous": false"#), "accept", "*/*").is_err());
    }
}
