//! Policy of links: downsampling, access control, QoS changes, limits of size (`zenoh-behaviour` 7.4).
//!
//! A [`Policy`] is the configuration. For each link it gives an [`Interceptor`], which stands between
//! the link and the node: before routing for incoming messages, before sending for outgoing ones. A
//! link that no part of the policy selects has none, and no overhead. [`Interceptor::renewed`] puts another
//! policy in its place: declarations that were refused before may come in then.

mod answers;
mod chain;
mod held;
mod policy;
#[cfg(test)]
mod tests;

pub use answers::{Answer, Inquiry};
pub use policy::{
    AccessControl, AccessPolicy, AccessRule, Downsampling, Filter, Flow, Flows, LinkFacts, Links, LowPass,
    MessageKind, MessageKinds, Overwrite, Policy, QosNetwork, Rate, RuleMatch,
};

use crate::{
    Now,
    limits::MAX_WILD_KEYEXPR_LEN,
    zenoh::{
        KeyExpr, Qos, Reliability,
        entity::EntityKind,
        wire::{
            Declaration, Declare, Interest, InterestMode, InterestOptions, Mapping, NetworkMessage, PushBody,
            Response, ResponseBody, ResponseFinal, WireExpr,
        },
    },
};
use answers::Answers;
use chain::{Decision, RuleChain, Subject, SubjectKey};
use held::Held;
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
    /// An authority decides, of [`Interceptor::egress_asking`] alone.
    Ask(Inquiry),
}

/// Handling of an incoming message.
#[derive(Debug, PartialEq, Eq)]
pub enum Ingress {
    /// The message is accepted.
    Pass,
    /// The message is dropped; [`refusal`] makes the answer for a waiting sender.
    Refused,
    /// An authority decides.
    Ask(Inquiry),
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
    /// Refused declarations of the peer.
    held: Held,
    /// Answers of an authority, if the policy asks one.
    answers: Answers,
    /// Whether the link is one between routers.
    between_routers: bool,
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
        concerned.then(|| Self {
            ingress,
            egress,
            theirs: Names::new(),
            ours: Names::new(),
            held: Held::default(),
            answers: Answers::default(),
            between_routers: false,
        })
    }

    /// Forgets refused declarations, and keeps none from now on: routers tell each other declarations of any router
    /// of their network, which the ids in them do not tell apart.
    #[must_use]
    pub fn between_routers(self) -> Self {
        Self { between_routers: true, held: Held::default(), ..self }
    }

    /// The interceptor of a link under another policy, and messages of the peer for the declarations that were
    /// refused `before` and come in now. `theirs`: the key numbers that the node knows of the peer.
    #[must_use]
    pub fn renewed(
        before: Option<Self>,
        policy: &Policy,
        link: &LinkFacts<'_>,
        theirs: impl IntoIterator<Item = (u16, KeyExpr)>,
    ) -> (Option<Self>, Vec<NetworkMessage>) {
        let mut after = Self::new(policy, link);
        let (known, ours, held, between_routers) = match before {
            Some(before) => (before.theirs, before.ours, before.held, before.between_routers),
            None => (theirs.into_iter().collect(), Names::new(), Held::default(), false),
        };
        let passes = |kind, key: Option<&KeyExpr>| {
            after.as_ref().is_none_or(|after| after.permits(Flow::Ingress, kind, key))
        };
        let (held, free) = held.release(
            |kind, key| passes(MessageKind::of_entity(kind), Some(key)),
            |key| passes(MessageKind::DeclareLivelinessSubscriber, key),
        );
        if let Some(after) = &mut after {
            (after.theirs, after.ours, after.held) = (known, ours, held);
            after.between_routers = between_routers;
        }
        (after, free)
    }

    /// Keeps a declaration of the peer, with its full key, as one that was refused: the rules have become stricter.
    pub fn hold(&mut self, message: &NetworkMessage) {
        if let Some(subject) = subject(message, &self.theirs, &self.ours, Reliability::Reliable) {
            self.keep(message, &subject.key);
        }
    }

    fn keep(&mut self, message: &NetworkMessage, key: &SubjectKey) {
        if !self.between_routers {
            self.held.keep(message, key);
        }
    }

    /// The access rules alone, to compare with those of a later interceptor.
    #[must_use]
    pub fn rules(&self) -> Self {
        Self {
            ingress: self.ingress.access_alone(),
            egress: self.egress.access_alone(),
            theirs: Names::new(),
            ours: Names::new(),
            held: Held::default(),
            answers: Answers::default(),
            between_routers: self.between_routers,
        }
    }

    /// Whether the access rules let a message of this kind pass, which is refused as long as an authority would have
    /// to decide. `key`: `None` for a message about all keys.
    #[must_use]
    pub fn permits(&self, flow: Flow, kind: MessageKind, key: Option<&KeyExpr>) -> bool {
        self.decides(flow, kind, key) == Some(true)
    }

    /// As [`Self::permits`], but `None` if an authority decides.
    #[must_use]
    pub fn decides(&self, flow: Flow, kind: MessageKind, key: Option<&KeyExpr>) -> Option<bool> {
        match flow {
            Flow::Ingress => self.ingress.decides(kind, key),
            Flow::Egress => self.egress.decides(kind, key),
        }
    }

    /// Whether the access rules let a message pass, by the answers of an authority where no rule decides. `answer`: to
    /// this inquiry, which is kept.
    ///
    /// # Errors
    /// The authority has to be asked.
    pub fn permits_asking(
        &mut self,
        now: Now,
        inquiry: Inquiry,
        answer: Option<Answer>,
    ) -> Result<bool, Inquiry> {
        if let Some(decided) = self.decides(inquiry.flow, inquiry.kind, inquiry.key.as_ref()) {
            return Ok(decided);
        }
        match answer {
            Some(answer) => {
                self.answers.keep(now, inquiry, answer);
                Ok(answer.allowed)
            }
            None => self.answers.get(now, &inquiry).ok_or(inquiry),
        }
    }

    /// Keeps an answer of an authority, for messages that come later.
    pub fn keep_answer(&mut self, now: Now, inquiry: Inquiry, answer: Answer) {
        self.answers.keep(now, inquiry, answer);
    }

    /// How many messages the answers of an authority have decided about since the last call, without a new question.
    pub const fn take_used_answers(&mut self) -> u64 {
        core::mem::replace(&mut self.answers.used, 0)
    }

    /// Whether the access rules of both are the same, so that declarations need no second look.
    #[must_use]
    pub fn agrees(&self, other: &Self) -> bool {
        self.ingress.agrees(&other.ingress) && self.egress.agrees(&other.egress)
    }

    /// Number of refused declarations that were not kept, because the peer has too many of them.
    #[must_use]
    pub const fn lost(&self) -> u64 {
        self.held.lost
    }

    /// Whether a message of the peer is accepted; one that an authority has to decide about is not. Its QoS may be
    /// changed.
    pub fn ingress(&mut self, now: Now, message: &mut NetworkMessage, reliability: Reliability) -> bool {
        self.ingress_asking(now, message, reliability, None) == Ingress::Pass
    }

    /// Handling of a message of the peer. Its QoS may be changed. `answer`: of an authority that was asked about it.
    pub fn ingress_asking(
        &mut self,
        now: Now,
        message: &mut NetworkMessage,
        reliability: Reliability,
        answer: Option<Answer>,
    ) -> Ingress {
        name(message, Flow::Ingress, &mut self.theirs, &self.ours);
        self.held.end(message);
        let Some(subject) = subject(message, &self.theirs, &self.ours, reliability) else {
            return Ingress::Pass;
        };
        match self.ingress.decide(now, &subject, &mut self.answers, answer) {
            Decision::Refused => {
                self.keep(message, &subject.key);
                let Some(rest) = without_tokens(message) else { return Ingress::Refused };
                *message = rest;
            }
            Decision::Pass(qos) => set_qos(message, qos),
            Decision::Ask(inquiry) => return Ingress::Ask(inquiry),
        }
        Ingress::Pass
    }

    /// Handling of a message for the peer; one that an authority has to decide about is refused.
    pub fn egress(&mut self, now: Now, message: &NetworkMessage, reliability: Reliability) -> Egress {
        match self.egress_asking(now, message, reliability, None) {
            Egress::Ask(_) => Egress::Refused,
            decided => decided,
        }
    }

    /// Handling of a message for the peer. `answer`: of an authority that was asked about it.
    pub fn egress_asking(
        &mut self,
        now: Now,
        message: &NetworkMessage,
        reliability: Reliability,
        answer: Option<Answer>,
    ) -> Egress {
        name(message, Flow::Egress, &mut self.ours, &self.theirs);
        let Some(subject) = subject(message, &self.ours, &self.theirs, reliability) else {
            return Egress::Pass;
        };
        match self.egress.decide(now, &subject, &mut self.answers, answer) {
            Decision::Refused => {
                without_tokens(message).map_or(Egress::Refused, |rest| Egress::Changed(Box::new(rest)))
            }
            Decision::Pass(qos) if qos == message.qos() => Egress::Pass,
            Decision::Pass(qos) => {
                let mut changed = message.clone();
                set_qos(&mut changed, qos);
                Egress::Changed(Box::new(changed))
            }
            Decision::Ask(inquiry) => Egress::Ask(inquiry),
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
    let ends = matches!(message, NetworkMessage::Declare(declare) if is_end(&declare.body));
    Some(Subject { kind, key, size, qos: message.qos(), reliability, ends })
}

/// Whether a declaration ends another one.
const fn is_end(body: &Declaration) -> bool {
    matches!(
        body,
        Declaration::UndeclareSubscriber { .. }
            | Declaration::UndeclareQueryable { .. }
            | Declaration::UndeclareToken { .. }
    )
}

impl MessageKind {
    /// The kind of the declaration of an entity.
    pub(super) const fn of_entity(kind: EntityKind) -> Self {
        match kind {
            EntityKind::Subscriber => Self::DeclareSubscriber,
            EntityKind::Queryable => Self::DeclareQueryable,
            EntityKind::Token => Self::LivelinessToken,
        }
    }
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
