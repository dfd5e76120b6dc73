//! Applies the access policy of a node to its links.

use crate::{
    rt::clock,
    zenoh::authority::{AccessRequest, AccessSubject, Authority, AuthorityCounters, Question},
};
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use parking_lot::Mutex;
use std::{
    collections::VecDeque,
    sync::{Arc, Weak},
};
use zwire_proto::zenoh::{
    Reliability,
    intercept::{Answer, Egress, Ingress, Inquiry, Interceptor, LinkFacts, Policy, refusal},
    wire::NetworkMessage,
};

/// Most messages with data for a peer that wait behind a question to the authority. The fall-back answers what is beyond,
/// so that a slow function costs messages and not memory.
const MAX_HELD: usize = 1024;

/// Most messages of all kinds that wait. The node tells the peer of each declaration once, and may have many of them when
/// the link begins; each takes some 300 bytes.
const MAX_HELD_IN_ALL: usize = 65_536;

/// Most bytes of their payloads; one always fits.
const MAX_HELD_BYTES: usize = 4 << 20;

/// Function that queues a message for the peer.
type Sending<'a> = &'a dyn Fn(&NetworkMessage, Reliability);

/// Messages of a link, each with its channel.
type Messages = Vec<(NetworkMessage, Reliability)>;

/// Interceptor of a link, of which there is none if the policy does not concern the link: then a message costs the
/// reading of one flag, and takes no lock.
#[derive(Debug, Default)]
pub(crate) struct Guard {
    active: AtomicBool,
    /// How often the interceptor was replaced.
    changes: AtomicU64,
    state: Mutex<GuardState>,
}

#[derive(Debug, Default)]
struct GuardState {
    machine: Option<Interceptor>,
    asker: Option<Asker>,
    /// Messages for the peer that wait for the answer about the first of them, in order.
    held: VecDeque<(NetworkMessage, Reliability)>,
    held_bytes: usize,
    /// How many of them have data.
    held_data: usize,
    question: Option<Arc<Question>>,
    /// Answers to messages that were refused without a sender who could be told at once.
    refusals: Vec<NetworkMessage>,
}

/// Authority of a session, with the other end of a link.
#[derive(Clone, Debug)]
pub(crate) struct Asker {
    authority: Arc<Authority>,
    subject: Arc<AccessSubject>,
}

impl Asker {
    pub(crate) fn of(rules: &RulesInForce, facts: &LinkFacts<'_>) -> Option<Self> {
        let authority = rules.authority.clone()?;
        Some(Self { authority, subject: Arc::new(AccessSubject::of(facts)) })
    }

    pub(crate) fn ask(&self, inquiry: Inquiry, guard: Weak<Guard>, changes: u64) -> Arc<Question> {
        let request = AccessRequest { inquiry, subject: self.subject.clone() };
        self.authority.ask(request, guard, changes)
    }
}

/// Messages of the peer after the look at them.
#[derive(Default)]
pub(crate) struct Admitted {
    /// The answers that senders of refused messages wait for.
    pub(crate) refusals: Vec<NetworkMessage>,
    /// Messages that wait, because the authority has to decide about the first of them.
    pub(crate) waiting: Option<Waiting>,
}

/// Messages of a peer that wait for an answer.
pub(crate) struct Waiting {
    pub(crate) messages: Messages,
    pub(crate) question: Arc<Question>,
}

/// Decision about a message for the peer.
pub(crate) enum Passage {
    Pass,
    Changed(Box<NetworkMessage>),
    Refused,
    /// It waits, and is sent or refused later. The question is new if it is the first one that waits.
    Held(Option<Arc<Question>>),
}

fn payload_len(message: &NetworkMessage) -> usize {
    message.shareable().map_or(0, |payload| payload.len())
}

const fn has_data(message: &NetworkMessage) -> bool {
    matches!(message, NetworkMessage::Push(_) | NetworkMessage::Request(_) | NetworkMessage::Response(_))
}

impl Guard {
    /// Interceptor for the link to a node, or to the members of a group.
    pub(crate) fn of(rules: &RulesInForce, facts: &LinkFacts<'_>) -> Self {
        let machine = Interceptor::new(&rules.policy, facts);
        let active = machine.is_some().into();
        let state = GuardState { machine, asker: Asker::of(rules, facts), ..GuardState::default() };
        Self { active, changes: AtomicU64::new(0), state: Mutex::new(state) }
    }

    /// How often the interceptor was replaced: messages that an earlier one has admitted are admitted again.
    #[inline]
    pub(crate) fn changes(&self) -> u64 {
        self.changes.load(Ordering::Acquire)
    }

    /// Removes refused messages from the list, and those behind one that the authority has to decide about. `answer`:
    /// to the question about the first of them.
    pub(crate) fn admit(
        self: &Arc<Self>,
        messages: &mut Messages,
        answer: Option<(u64, Answer)>,
    ) -> Admitted {
        let mut admitted = Admitted::default();
        if self.active.load(Ordering::Acquire) {
            let mut state = self.state.lock();
            let state = &mut *state;
            let Some(machine) = &mut state.machine else { return admitted };
            let now = clock::now();
            let lost = machine.lost();
            // Of rules that have been replaced since, an answer means nothing.
            let mut answer = answer.filter(|(by, _)| *by == self.changes()).map(|(_, answer)| answer);
            let (mut asked, mut kept) = (None, 0);
            messages.retain_mut(|(message, reliability)| {
                if asked.is_some() {
                    return true;
                }
                match machine.ingress_asking(now, message, *reliability, answer.take()) {
                    Ingress::Pass => kept += 1,
                    Ingress::Ask(inquiry) => asked = Some(inquiry),
                    Ingress::Refused => {
                        admitted.refusals.extend(refusal(message));
                        return false;
                    }
                }
                true
            });
            if lost == 0 && machine.lost() > 0 {
                tracing::warn!(
                    "a peer has more refused declarations than are kept for it: when the rules of access_control \
                     change, the later ones come in only after it has declared them again"
                );
            }
            if let Some(asker) = &state.asker {
                asker.authority.counters.count_cached(machine.take_used_answers());
                admitted.waiting = asked.map(|inquiry| Waiting {
                    messages: messages.split_off(kept),
                    question: asker.ask(inquiry, Arc::downgrade(self), self.changes()),
                });
            }
        }
        admitted
    }

    /// Decides what happens to a message for the peer. `send` queues those that have waited.
    #[inline]
    pub(crate) fn egress(
        self: &Arc<Self>,
        send: Sending<'_>,
        message: &NetworkMessage,
        reliability: Reliability,
    ) -> Passage {
        if !self.active.load(Ordering::Acquire) {
            return Passage::Pass;
        }
        let mut state = self.state.lock();
        if !state.held.is_empty() {
            // The newest message is refused, and not the first: its answer may come soon, for those behind it as well.
            if let Some(question) = state.question.as_ref().filter(|question| question.refuses_late())
                && state.is_full_for(message)
            {
                question.late();
                return Passage::Refused;
            }
            state.hold(message, reliability);
            while state.is_over() {
                let answer = state.question.as_ref().map(|question| question.late());
                self.release_some(&mut state, send, answer, 1);
            }
            return Passage::Held(None);
        }
        let Some(machine) = &mut state.machine else { return Passage::Pass };
        let decided = machine.egress_asking(clock::now(), message, reliability, None);
        let used = machine.take_used_answers();
        match (decided, &state.asker) {
            (Egress::Ask(inquiry), Some(asker)) => {
                let question = asker.ask(inquiry, Arc::downgrade(self), self.changes());
                state.question = Some(question.clone());
                state.hold(message, reliability);
                Passage::Held(Some(question))
            }
            (decided, asker) => {
                if let Some(asker) = asker {
                    asker.authority.counters.count_cached(used);
                }
                match decided {
                    Egress::Pass => Passage::Pass,
                    Egress::Changed(message) => Passage::Changed(message),
                    Egress::Refused | Egress::Ask(_) => Passage::Refused,
                }
            }
        }
    }

    /// Sends or refuses the messages that have waited for an answer, up to the next that has to wait. Returns the
    /// answers that senders of refused ones wait for, and the next question.
    pub(crate) fn release(
        self: &Arc<Self>,
        send: Sending<'_>,
        (question, answer): (&Arc<Question>, Answer),
    ) -> (Vec<NetworkMessage>, Option<Arc<Question>>) {
        let mut state = self.state.lock();
        if let Some(other) = state.question.clone().filter(|other| !Arc::ptr_eq(other, question)) {
            // The fall-back has answered meanwhile, because too many were waiting.
            return (core::mem::take(&mut state.refusals), Some(other));
        }
        let same = state.question.is_some() && question.rules() == self.changes();
        let answer = same.then_some(answer);
        self.release_some(&mut state, send, answer, usize::MAX);
        (core::mem::take(&mut state.refusals), state.question.clone())
    }

    /// As [`Self::release`], for a number of messages at most.
    fn release_some(
        self: &Arc<Self>,
        state: &mut GuardState,
        send: Sending<'_>,
        mut answer: Option<Answer>,
        most: usize,
    ) {
        let now = clock::now();
        state.question = None;
        for _ in 0..most {
            let Some((message, reliability)) = state.held.pop_front() else { break };
            let decided = match &mut state.machine {
                Some(machine) => machine.egress_asking(now, &message, reliability, answer.take()),
                None => Egress::Pass,
            };
            if let (Egress::Ask(inquiry), Some(asker)) = (&decided, &state.asker) {
                state.question = Some(asker.ask(inquiry.clone(), Arc::downgrade(self), self.changes()));
                state.held.push_front((message, reliability));
                return;
            }
            state.held_bytes -= payload_len(&message);
            state.held_data -= usize::from(has_data(&message));
            match decided {
                Egress::Pass => send(&message, reliability),
                Egress::Changed(changed) => send(&changed, reliability),
                Egress::Refused | Egress::Ask(_) => state.refusals.extend(refusal(&message)),
            }
        }
        if let (Some(machine), Some(asker)) = (&mut state.machine, &state.asker) {
            asker.authority.counters.count_cached(machine.take_used_answers());
        }
        // The rules may have been replaced by none while these waited.
        self.active.store(state.machine.is_some() || !state.held.is_empty(), Ordering::Release);
    }

    /// Whether messages for the peer wait.
    pub(crate) fn holds_messages(&self) -> bool {
        self.active.load(Ordering::Acquire) && !self.state.lock().held.is_empty()
    }

    /// Keeps an answer that came after its deadline, for the next message.
    pub(crate) fn keep_answer(&self, changes: u64, inquiry: &Inquiry, answer: Answer) {
        let mut state = self.state.lock();
        if changes == self.changes()
            && let Some(machine) = &mut state.machine
        {
            machine.keep_answer(clock::now(), inquiry.clone(), answer);
        }
    }

    /// Puts another interceptor in the place of the present one; `renew` makes it, and returns something else, too.
    pub(crate) fn renew<R>(
        &self,
        asker: Option<Asker>,
        renew: impl FnOnce(Option<Interceptor>) -> (Option<Interceptor>, R),
    ) -> R {
        let mut state = self.state.lock();
        let (after, result) = renew(state.machine.take());
        self.active.store(after.is_some() || !state.held.is_empty(), Ordering::Release);
        self.changes.fetch_add(1, Ordering::Release);
        (state.machine, state.asker) = (after, asker);
        result
    }
}

impl GuardState {
    /// Whether a message is beyond the bounds. One without data fits as long as not all places are taken.
    fn is_full_for(&self, message: &NetworkMessage) -> bool {
        let data = has_data(message)
            && (self.held_data >= MAX_HELD || self.held_bytes + payload_len(message) > MAX_HELD_BYTES);
        data || self.held.len() >= MAX_HELD_IN_ALL
    }

    fn is_over(&self) -> bool {
        self.held_data > MAX_HELD
            || self.held.len() > MAX_HELD_IN_ALL
            || self.held_bytes > MAX_HELD_BYTES && self.held.len() > 1
    }

    fn hold(&mut self, message: &NetworkMessage, reliability: Reliability) {
        self.held_bytes += payload_len(message);
        self.held_data += usize::from(has_data(message));
        self.held.push_back((message.clone(), reliability));
    }
}

/// Rules and authority of a node.
#[derive(Debug)]
pub(crate) struct RulesInForce {
    /// The policy of the configuration.
    pub(crate) configured: Policy,
    /// The same, asking the authority if there is one.
    pub(crate) policy: Arc<Policy>,
    pub(crate) authority: Option<Arc<Authority>>,
}

impl RulesInForce {
    pub(crate) fn of(configured: Policy, authority: Option<Arc<Authority>>) -> Self {
        let policy = Arc::new(asking(&configured, authority.is_some()));
        Self { configured, policy, authority }
    }
}

/// The policy of a node: the configured one, until it is replaced.
#[derive(Debug)]
pub(crate) struct Rules {
    now: Mutex<Arc<RulesInForce>>,
    changes: AtomicU64,
    pub(crate) counters: Arc<AuthorityCounters>,
}

impl Rules {
    pub(crate) fn new(policy: &Policy) -> Self {
        let now = Mutex::new(Arc::new(RulesInForce::of(policy.clone(), None)));
        Self { now, changes: AtomicU64::new(0), counters: Arc::default() }
    }

    pub(crate) fn in_force(&self) -> Arc<RulesInForce> {
        self.now.lock().clone()
    }

    /// Replaces the rules for links that begin from now on.
    pub(crate) fn set(&self, rules: Arc<RulesInForce>) {
        *self.now.lock() = rules;
        self.changes.fetch_add(1, Ordering::Release);
    }

    /// How often the rules were replaced.
    pub(crate) fn changes(&self) -> u64 {
        self.changes.load(Ordering::Acquire)
    }
}

/// A policy of the configuration as it is with an authority, or without one.
pub(crate) fn asking(configured: &Policy, asks: bool) -> Policy {
    let mut policy = configured.clone();
    if asks {
        policy.access_control.get_or_insert_default().asks = true;
    }
    policy
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::zenoh::authority::tests::hanging;
    use core::{cell::RefCell, time::Duration};
    use zwire_proto::zenoh::wire::{Declaration, Declare, Del, Push, PushBody, WireExpr};

    #[test]
    fn a_burst_behind_a_question_loses_neither_declarations_nor_the_answer() {
        let (go, authority) = hanging(Duration::from_secs(600));
        let rules = RulesInForce::of(Policy::default(), Some(authority.clone()));
        let facts =
            LinkFacts { zid: None, interfaces: &[], protocol: "tcp", common_name: None, username: None };
        let guard = Arc::new(Guard::of(&rules, &facts));
        let sent = RefCell::new((0, 0));
        let send = |message: &NetworkMessage, _: Reliability| match message {
            NetworkMessage::Push(_) => sent.borrow_mut().0 += 1,
            _ => sent.borrow_mut().1 += 1,
        };
        let body = || PushBody::Del(Del::default());
        let push = NetworkMessage::Push(Push::new(WireExpr::full("a".to_owned()), body()));
        let Passage::Held(Some(mut question)) = guard.egress(&send, &push, Reliability::Reliable) else {
            panic!("the first one asks")
        };
        let refused = (0..MAX_HELD + 9)
            .filter(|_| matches!(guard.egress(&send, &push, Reliability::Reliable), Passage::Refused))
            .count();
        assert_eq!(refused, 10);
        for id in 0..2000 {
            let key = WireExpr::full(format!("k/{}", id % 100));
            let declared = NetworkMessage::Declare(Declare::new(None, Declaration::Subscriber { id, key }));
            assert!(matches!(guard.egress(&send, &declared, Reliability::Reliable), Passage::Held(None)));
        }
        assert!(guard.holds_messages());
        drop(go);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        loop {
            let answer = runtime.block_on(question.answer());
            let (refusals, next) = guard.release(&send, (&question, answer));
            assert!(refusals.is_empty());
            match next {
                Some(next) => question = next,
                None => break,
            }
        }
        assert!(!guard.holds_messages());
        assert_eq!(*sent.borrow(), (MAX_HELD, 2000));
        authority.end();
    }
}
