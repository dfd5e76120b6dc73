//! What passes a link, and how: downsampling, access control, other QoS, limits of size (`zenoh-behaviour` 7.4).
//!
//! A [`Policy`] is what the configuration says. For each link it becomes an [`Interceptor`], which stands between
//! the link and the node: before routing for what comes, before sending for what goes. A link that no part of the
//! policy is about has none, and pays nothing.

mod chain;
mod policy;
#[cfg(test)]
mod tests;

pub use policy::{
    AccessControl, AccessPolicy, AccessRule, Downsampling, Filter, Flow, Flows, LinkFacts, Links, LowPass,
    MessageKind, MessageKinds, Overwrite, Policy, QosNetwork, Rate,
};

use crate::{
    Now,
    limits::MAX_WILD_KEYEXPR_LEN,
    zenoh::{
        KeyExpr, Qos, Reliability,
        wire::{
            Declaration, Declare, Interest, InterestMode, InterestOptions, Mapping, NetworkMessage, PushBody,
            Response, ResponseBody, ResponseFinal, WireExpr,
        },
    },
};
use chain::{Chain, Subject};
use std::collections::BTreeMap;

/// What becomes of a message on its way out.
#[derive(Debug, PartialEq, Eq)]
pub enum Egress {
    /// It goes as it is.
    Pass,
    /// This goes in its place.
    Changed(Box<NetworkMessage>),
    /// Nothing goes; [`refusal`] says what to tell whoever waits.
    Refused,
}

/// The policy of one link, with what it has to remember.
#[derive(Debug)]
pub struct Interceptor {
    ingress: Chain,
    egress: Chain,
    /// The numbers that the peer gave to keys.
    theirs: Names,
    /// The numbers that we gave to keys.
    ours: Names,
}

/// Numbers of keys. A peer may declare no more of them than its node allows, and is closed when it does.
type Names = BTreeMap<u16, KeyExpr>;

impl Interceptor {
    /// That of a link; `None`: nothing in the policy is about it.
    #[must_use]
    pub fn new(policy: &Policy, link: &LinkFacts<'_>) -> Option<Self> {
        let ingress = Chain::new(policy, link, Flow::Ingress);
        let egress = Chain::new(policy, link, Flow::Egress);
        let concerned = !(ingress.is_empty() && egress.is_empty());
        concerned.then(|| Self { ingress, egress, theirs: Names::new(), ours: Names::new() })
    }

    /// Whether a message of the peer is taken. Its QoS may be another one afterwards.
    pub fn ingress(&mut self, now: Now, message: &mut NetworkMessage, reliability: Reliability) -> bool {
        name(message, Flow::Ingress, &mut self.theirs, &self.ours);
        let Some(subject) = subject(message, &self.theirs, &self.ours, reliability) else {
            return true;
        };
        match self.ingress.decide(now, &subject) {
            None => without_tokens(message).map(|rest| *message = rest).is_some(),
            Some(qos) => {
                set_qos(message, qos);
                true
            }
        }
    }

    /// What becomes of a message for the peer.
    pub fn egress(&mut self, now: Now, message: &NetworkMessage, reliability: Reliability) -> Egress {
        name(message, Flow::Egress, &mut self.ours, &self.theirs);
        let Some(subject) = subject(message, &self.ours, &self.theirs, reliability) else {
            return Egress::Pass;
        };
        match self.egress.decide(now, &subject) {
            None => without_tokens(message).map_or(Egress::Refused, |rest| Egress::Changed(Box::new(rest))),
            Some(qos) if qos == message.qos() => Egress::Pass,
            Some(qos) => {
                let mut changed = message.clone();
                set_qos(&mut changed, qos);
                Egress::Changed(Box::new(changed))
            }
        }
    }
}

/// What ends the wait of whoever has sent a message that was refused: a query has its final, a question about
/// tokens its D_FINAL.
#[must_use]
pub fn refusal(message: &NetworkMessage) -> Option<NetworkMessage> {
    match message {
        NetworkMessage::Request(request) => Some(NetworkMessage::ResponseFinal(ResponseFinal {
            id: request.id,
            qos: request.qos,
            timestamp: None,
        })),
        NetworkMessage::Interest(interest) if interest.mode.current() => {
            Some(NetworkMessage::Declare(Declare::new(Some(interest.id), Declaration::Final)))
        }
        _ => None,
    }
}

/// Notes which number a message gives to a key, or takes back. `own` are those of its sender.
fn name(message: &NetworkMessage, flow: Flow, own: &mut Names, other: &Names) {
    let NetworkMessage::Declare(declare) = message else { return };
    match &declare.body {
        Declaration::KeyExpr { id, key } if *id != 0 && !own.contains_key(id) => {
            if let Some(key) = resolve(key, own, other) {
                // What a peer has sent must not keep a receive buffer alive.
                own.insert(*id, if flow == Flow::Ingress { key.unshared() } else { key });
            }
        }
        Declaration::UndeclareKeyExpr { id } => drop(own.remove(id)),
        _ => {}
    }
}

/// The full key, `own` being the numbers of who sends the message.
fn resolve(wire: &WireExpr, own: &Names, other: &Names) -> Option<KeyExpr> {
    let key = if wire.scope == 0 {
        KeyExpr::from_text(wire.suffix.clone()).ok()?
    } else {
        let names = match wire.mapping {
            Mapping::Sender => own,
            Mapping::Receiver => other,
        };
        let prefix = names.get(&wire.scope)?;
        if wire.suffix.is_empty() {
            prefix.clone()
        } else {
            KeyExpr::new(format!("{prefix}{}", wire.suffix)).ok()?
        }
    };
    // Longer ones with wildcards mean nothing to nodes either: they are slow to compare.
    (!key.is_wild() || key.len() <= MAX_WILD_KEYEXPR_LEN).then_some(key)
}

/// What a decision is about; `None` for what always passes.
fn subject(
    message: &NetworkMessage,
    own: &Names,
    other: &Names,
    reliability: Reliability,
) -> Option<Subject> {
    let (kind, key, size) = match message {
        NetworkMessage::Push(push) => (data_kind(&push.body), Some(&push.key), data_size(&push.body)),
        NetworkMessage::Request(request) => {
            let body = request.query.body.as_ref().map_or(0, |body| body.payload.len());
            let attachment = request.query.attachment.as_ref().map_or(0, |bytes| bytes.len());
            (MessageKind::Query, Some(&request.key), body + attachment)
        }
        NetworkMessage::Response(Response { key, body, .. }) => {
            let size = match body {
                ResponseBody::Reply(reply) => data_size(&reply.body),
                ResponseBody::Err(error) => error.payload.len(),
            };
            (MessageKind::Reply, Some(key), size)
        }
        NetworkMessage::Declare(declare) => {
            let (kind, key) = declared(&declare.body)?;
            (kind, Some(key), 0)
        }
        NetworkMessage::Interest(interest) => (interest_kind(interest)?, interest.key.as_ref(), 0),
        NetworkMessage::ResponseFinal(_) | NetworkMessage::Oam(_) => return None,
    };
    let key = match key {
        Some(wire) => resolve(wire, own, other),
        None => KeyExpr::new("**").ok(),
    };
    Some(Subject { kind, key, size, qos: message.qos(), reliability })
}

const fn data_kind(body: &PushBody) -> MessageKind {
    match body {
        PushBody::Put(_) => MessageKind::Put,
        PushBody::Del(_) => MessageKind::Delete,
    }
}

/// Payload and attachment.
fn data_size(body: &PushBody) -> usize {
    let (payload, attachment) = match body {
        PushBody::Put(put) => (put.payload.len(), &put.attachment),
        PushBody::Del(del) => (0, &del.attachment),
    };
    payload + attachment.as_ref().map_or(0, |bytes| bytes.len())
}

/// The kind and the key of a declaration that rules can be about. What is taken back by its number alone was
/// either let through, or is unknown to the receiver, who ignores it.
fn declared(body: &Declaration) -> Option<(MessageKind, &WireExpr)> {
    match body {
        Declaration::Subscriber { key, .. } | Declaration::UndeclareSubscriber { key: Some(key), .. } => {
            Some((MessageKind::DeclareSubscriber, key))
        }
        Declaration::Queryable { key, .. } | Declaration::UndeclareQueryable { key: Some(key), .. } => {
            Some((MessageKind::DeclareQueryable, key))
        }
        Declaration::Token { key, .. } | Declaration::UndeclareToken { key: Some(key), .. } => {
            Some((MessageKind::LivelinessToken, key))
        }
        _ => None,
    }
    .filter(|(_, key)| !key.is_empty())
}

/// Rules are about interests in tokens; others pass.
const fn interest_kind(interest: &Interest) -> Option<MessageKind> {
    if !interest.options.contains(InterestOptions::TOKENS) {
        return None;
    }
    match interest.mode {
        InterestMode::Final => None,
        InterestMode::Current => Some(MessageKind::LivelinessQuery),
        InterestMode::Future | InterestMode::CurrentFuture => Some(MessageKind::DeclareLivelinessSubscriber),
    }
}

/// What is left of an interest that may not ask for tokens: what it asks of subscribers and queryables.
fn without_tokens(message: &NetworkMessage) -> Option<NetworkMessage> {
    let NetworkMessage::Interest(interest) = message else { return None };
    let others = interest.options.contains(InterestOptions::SUBSCRIBERS)
        || interest.options.contains(InterestOptions::QUERYABLES);
    others.then(|| {
        let options = interest.options.without(InterestOptions::TOKENS);
        NetworkMessage::Interest(Interest { options, ..interest.clone() })
    })
}

fn set_qos(message: &mut NetworkMessage, qos: Qos) {
    match message {
        NetworkMessage::Push(push) => push.qos = qos,
        NetworkMessage::Request(request) => request.qos = qos,
        NetworkMessage::Response(response) => response.qos = qos,
        // No rule changes that of others.
        _ => {}
    }
}
