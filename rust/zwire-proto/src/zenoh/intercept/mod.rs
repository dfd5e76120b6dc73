//! Policy of links: downsampling, access control, QoS changes, limits of size (`zenoh-behaviour` 7.4).
//!
//! A [`Policy`] is the configuration. For each link it gives an [`Interceptor`], which stands between
//! the link and the node: before routing for incoming messages, before sending for outgoing ones. A
//! link that no part of the policy selects has none, and no overhead.

mod chain;
mod policy;
#[cfg(test)]
mod tests;

pub use policy::{
    AccessControl, AccessPolicy, AccessRule, Downsampling, Filter, Flow, Flows, LinkFacts, Links, LowPass,
    MessageKind, MessageKinds, Overwrite, Policy, QosNetwork, Rate, RuleMatch,
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
use chain::{RuleChain, Subject, SubjectKey};
use std::collections::BTreeMap;

/// Handling of an outgoing message.
#[derive(Debug, PartialEq, Eq)]
pub enum Egress {
    /// The message is sent unchanged.
    Pass,
    /// This message is sent in its place.
    Changed(Box<NetworkMessage>),
    /// Nothing is sent; [`refusal`] makes the answer for a waiting sender.
    Refused,
}

/// The policy of one link, with its state.
#[derive(Debug)]
pub struct Interceptor {
    ingress: RuleChain,
    egress: RuleChain,
    /// Key numbers declared by the peer.
    theirs: Names,
    /// Key numbers declared by this node.
    ours: Names,
}

/// Keys by number. A peer may declare no more of them than its node allows, and is closed when it does.
type Names = BTreeMap<u16, KeyExpr>;

impl Interceptor {
    /// The interceptor of a link; `None`: no part of the policy selects the link.
    #[must_use]
    pub fn new(policy: &Policy, link: &LinkFacts<'_>) -> Option<Self> {
        let ingress = RuleChain::new(policy, link, Flow::Ingress);
        let egress = RuleChain::new(policy, link, Flow::Egress);
        let concerned = !(ingress.is_empty() && egress.is_empty());
        concerned.then(|| Self { ingress, egress, theirs: Names::new(), ours: Names::new() })
    }

    /// Whether a message of the peer is accepted. Its QoS may be changed.
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

    /// Handling of a message for the peer.
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

/// Answer that ends the wait of the sender of a refused message: RESPONSE_FINAL for a query, D_FINAL
/// for an interest in tokens.
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

/// Records the key numbers that a message declares or undeclares. `own` are those of its sender.
fn name(message: &NetworkMessage, flow: Flow, own: &mut Names, other: &Names) {
    let NetworkMessage::Declare(declare) = message else { return };
    match &declare.body {
        Declaration::KeyExpr { id, key } if *id != 0 && !own.contains_key(id) => {
            if let Some(key) = resolve(key, own, other) {
                // A stored key of a peer must not keep a receive buffer alive.
                own.insert(*id, if flow == Flow::Ingress { key.unshared() } else { key });
            }
        }
        Declaration::UndeclareKeyExpr { id } => drop(own.remove(id)),
        _ => {}
    }
}

/// The full key, `own` being the numbers of the message's sender.
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
    // Nodes ignore longer ones with wildcards, too: they are slow to compare.
    (!key.is_wild() || key.len() <= MAX_WILD_KEYEXPR_LEN).then_some(key)
}

/// Subject of a decision; `None` for messages that always pass.
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
        Some(wire) => resolve(wire, own, other).map_or(SubjectKey::Unknown, SubjectKey::Known),
        None => SubjectKey::All,
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

/// The kind and the key of a declaration that rules apply to. An undeclaration by number alone was
/// either allowed with its declaration, or is unknown to the receiver, which ignores it.
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

/// Rules apply to interests in tokens; others pass.
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

/// The part of an interest that remains without tokens: subscribers and queryables.
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
        // Rules change the QoS of no other message.
        _ => {}
    }
}
