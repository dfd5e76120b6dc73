//! Decisions for one direction of a link, in the order of Eclipse Zenoh: rate, access, QoS, size.

use super::{
    answers::{Answer, Answers, Inquiry},
    policy::{
        AccessRule, Filter, Flow, LinkFacts, LowPass, MessageKind, MessageKinds, Overwrite, Policy,
        QosNetwork, Rate,
    },
};
use crate::{
    Now,
    zenoh::{KeyExpr, Qos, Reliability},
};
use core::time::Duration;
use std::collections::HashMap;

/// Cached decisions about keys. A program uses some hundreds of keys; a peer that keeps inventing new
/// ones is limited to this many.
const MAX_REMEMBERED: usize = 4096;

/// Longest key with a cached decision, so that the cache takes no more than 1 MiB.
const MAX_REMEMBERED_LEN: usize = 256;

/// Subject of a decision.
pub(super) struct Subject {
    pub(super) kind: MessageKind,
    pub(super) key: SubjectKey,
    /// Payload and attachment.
    pub(super) size: usize,
    pub(super) qos: Qos,
    pub(super) reliability: Reliability,
    /// Whether it ends a declaration, which no authority is asked about.
    pub(super) ends: bool,
}

/// Decision about a message.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Decision {
    /// It passes, with this QoS.
    Pass(Qos),
    Refused,
    /// An authority has to decide.
    Ask(Inquiry),
}

/// Key of a message.
#[derive(Debug)]
pub(super) enum SubjectKey {
    Known(KeyExpr),
    /// The key has no meaning on this link.
    Unknown,
    /// An interest without a key is in all keys, verbatim chunks included.
    All,
}

impl SubjectKey {
    const fn known(&self) -> Option<&KeyExpr> {
        match self {
            Self::Known(key) => Some(key),
            Self::Unknown | Self::All => None,
        }
    }
}

#[derive(Debug, Default)]
pub(super) struct RuleChain {
    rates: Vec<Limiter>,
    access: Option<Access>,
    qos: Vec<QosNetwork>,
    sizes: Vec<LowPass>,
}

#[derive(Debug)]
struct Limiter {
    messages: MessageKinds,
    rates: Vec<(KeyExpr, Option<Duration>, Option<Duration>)>,
}

#[derive(Debug)]
struct Access {
    flow: Flow,
    default_allow: bool,
    asks: bool,
    rules: Vec<AccessRule>,
    /// Decisions of the rules; `None`: no rule decides.
    remembered: HashMap<(MessageKind, KeyExpr), Option<bool>>,
}

impl RuleChain {
    pub(super) fn new(policy: &Policy, link: &LinkFacts<'_>, flow: Flow) -> Self {
        let concerned = |filter: &Filter| filter.concerns(link, flow);
        let limiters = policy.downsampling.iter().filter(|entry| concerned(&entry.filter));
        let rates = |rates: &[Rate]| rates.iter().map(|r| (r.key.clone(), r.period, None)).collect();
        Self {
            rates: limiters
                .map(|entry| Limiter { messages: entry.filter.messages, rates: rates(&entry.rates) })
                .collect(),
            access: policy.access_control.as_ref().map(|all| {
                let policies = all.policies.iter();
                let mine = policies.filter(|p| p.subjects.iter().any(|subject| subject.contain(link)));
                let numbers = mine.flat_map(|policy| &policy.rules);
                let rules = numbers.filter_map(|number| all.rules.get(*number));
                Access {
                    flow,
                    default_allow: all.default_allow,
                    asks: all.asks,
                    rules: rules.filter(|rule| rule.flows.contains(flow)).cloned().collect(),
                    remembered: HashMap::new(),
                }
            }),
            qos: policy.qos.iter().filter(|entry| concerned(&entry.filter)).cloned().collect(),
            sizes: policy.low_pass.iter().filter(|entry| concerned(&entry.filter)).cloned().collect(),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        let open = |access: &Access| access.default_allow && !access.asks && access.rules.is_empty();
        self.rates.is_empty()
            && self.access.as_ref().is_none_or(open)
            && self.qos.is_empty()
            && self.sizes.is_empty()
    }

    /// Whether the access rules let a message pass, decided without the memory of earlier ones; `None`: an
    /// authority decides.
    pub(super) fn decides(&self, kind: MessageKind, key: Option<&KeyExpr>) -> Option<bool> {
        let Some(access) = &self.access else { return Some(true) };
        access.work_out(kind, key).or((!access.asks).then_some(access.default_allow))
    }

    /// The access rules without anything else.
    pub(super) fn access_alone(&self) -> Self {
        let access = self.access.as_ref().map(|access| Access {
            rules: access.rules.clone(),
            remembered: HashMap::new(),
            ..*access
        });
        Self { access, ..Self::default() }
    }

    /// Whether the access rules of both are the same.
    pub(super) fn agrees(&self, other: &Self) -> bool {
        let rules = |of: &Self| {
            of.access.as_ref().map(|access| (access.default_allow, access.asks, access.rules.clone()))
        };
        rules(self) == rules(other)
    }

    #[cfg(test)]
    pub(super) fn remembered(&self) -> usize {
        self.access.as_ref().map_or(0, |access| access.remembered.len())
    }

    /// Decides about a message. `answer`: of an authority that was asked about it, which is kept in `answers` as well.
    pub(super) fn decide(
        &mut self,
        now: Now,
        subject: &Subject,
        answers: &mut Answers,
        answer: Option<Answer>,
    ) -> Decision {
        // Before the rates: a message that waits for an answer is decided about twice, and counts once.
        let asked = match &mut self.access {
            Some(access) if access.asks => match access.asked(now, subject, answers, answer) {
                Ok(allowed) => Some(allowed),
                Err(inquiry) => return Decision::Ask(inquiry),
            },
            _ => None,
        };
        match self.decide_with(now, subject, asked) {
            Some(qos) => Decision::Pass(qos),
            None => Decision::Refused,
        }
    }

    /// The QoS with which the message passes; `None`: refused. `asked`: the decision of rules and authority together.
    fn decide_with(&mut self, now: Now, subject: &Subject, asked: Option<bool>) -> Option<Qos> {
        if let Some(key) = subject.key.known()
            && !self.rates.iter_mut().all(|limiter| limiter.passes(now, subject.kind, key))
        {
            return None;
        }
        let allowed = asked.unwrap_or_else(|| {
            let decides = |access: &mut Access| access.rule(subject).unwrap_or(access.default_allow);
            self.access.as_mut().is_none_or(decides)
        });
        if !allowed {
            return None;
        }
        let qos = self.qos.iter().fold(subject.qos, |qos, entry| changed(entry, subject, qos));
        let fits = |limit: &LowPass| {
            !limit.filter.messages.contains(subject.kind)
                || !included(&limit.keys, subject.key.known())
                || subject.size <= limit.size_limit
        };
        self.sizes.iter().all(fits).then_some(qos)
    }
}

fn included(keys: &[KeyExpr], key: Option<&KeyExpr>) -> bool {
    key.is_some_and(|key| keys.iter().any(|one| one.includes(key)))
}

impl Limiter {
    fn passes(&mut self, now: Now, kind: MessageKind, key: &KeyExpr) -> bool {
        if !self.messages.contains(kind) {
            return true;
        }
        match self.rates.iter_mut().find(|(of, ..)| of.intersects(key)) {
            None => true,
            Some((_, None, _)) => false,
            Some((_, Some(period), last)) => {
                let due = last.is_none_or(|last| now.mono.saturating_sub(last) >= *period);
                if due {
                    *last = Some(now.mono);
                }
                due
            }
        }
    }
}

impl Access {
    /// Decision of the rules, and where there is none of the authority; an error: the authority has to be asked.
    fn asked(
        &mut self,
        now: Now,
        subject: &Subject,
        answers: &mut Answers,
        answer: Option<Answer>,
    ) -> Result<bool, Inquiry> {
        if let Some(allowed) = self.rule(subject) {
            return Ok(allowed);
        }
        let key = match &subject.key {
            // Its receiver drops the message.
            SubjectKey::Unknown => return Ok(self.default_allow),
            // What it ends was let in before, or is unknown to the receiver.
            _ if subject.ends => return Ok(true),
            SubjectKey::Known(key) => Some(key.clone()),
            SubjectKey::All => None,
        };
        let inquiry = Inquiry { flow: self.flow, kind: subject.kind, key };
        match answer {
            Some(answer) => {
                answers.keep(now, inquiry, answer);
                Ok(answer.allowed)
            }
            None => answers.get(now, &inquiry).ok_or(inquiry),
        }
    }

    /// Decision of the rules; `None`: none applies.
    fn rule(&mut self, subject: &Subject) -> Option<bool> {
        let key = match &subject.key {
            SubjectKey::Known(key) => key,
            // It cannot be compared, and its receiver drops the message.
            SubjectKey::Unknown => return None,
            SubjectKey::All => return self.work_out(subject.kind, None),
        };
        let place = (subject.kind, key.clone());
        if let Some(known) = self.remembered.get(&place) {
            return *known;
        }
        let decided = self.work_out(subject.kind, Some(key));
        if key.len() <= MAX_REMEMBERED_LEN {
            if self.remembered.len() >= MAX_REMEMBERED {
                self.remembered.clear();
            }
            self.remembered.insert((subject.kind, key.unshared()), decided);
        }
        decided
    }

    /// Computes the decision of the rules: one that denies comes before those that allow.
    fn work_out(&self, kind: MessageKind, key: Option<&KeyExpr>) -> Option<bool> {
        let mut about = self.rules.iter().filter(|rule| rule.applies(kind, key));
        let mut decided = None;
        if about.any(|rule| {
            decided = Some(true);
            !rule.allow
        }) {
            decided = Some(false);
        }
        decided
    }
}

fn changed(entry: &QosNetwork, subject: &Subject, qos: Qos) -> Qos {
    let Overwrite { priority, congestion, express } = entry.only;
    let meant = entry.filter.messages.contains(subject.kind)
        && entry.keys.as_ref().is_none_or(|keys| included(keys, subject.key.known()))
        && entry.payload_size.contains(&subject.size)
        && priority.is_none_or(|p| p == qos.priority())
        && congestion.is_none_or(|c| c == qos.congestion())
        && express.is_none_or(|e| e == qos.express())
        && entry.reliability.is_none_or(|r| r == subject.reliability);
    if !meant {
        return qos;
    }
    let to = entry.overwrite;
    Qos::new(
        to.priority.unwrap_or_else(|| qos.priority()),
        to.congestion.unwrap_or_else(|| qos.congestion()),
        to.express.unwrap_or_else(|| qos.express()),
    )
}
