//! Replaces the access policy of a node while its links are open.

use crate::error::Error;
use crate::zenoh::{
    authority::{AccessRequest, AccessSubject, Authorise, Authority, AuthorityOptions},
    core::{SessionCore, Side},
    effects::Effects,
    intercept::{Asker, Guard, RulesInForce},
    link::{Link, Urgency},
    shared::SessionShared,
};
use std::sync::{Arc, Weak};
use zwire_proto::{
    Now,
    zenoh::{
        Reliability, WhatAmI, ZenohId,
        intercept::{Answer, Inquiry, Interceptor, LinkFacts, Policy},
        node::FaceId,
        wire::NetworkMessage,
    },
};

impl SessionShared {
    /// Replaces the policy of a router or peer. No link is closed: each gets its new interceptor, declarations that
    /// it refuses are withdrawn, and those that the old one refused come in. Links change one after the other, so
    /// that none waits for all.
    pub(crate) fn replace_rules(&self, policy: Policy) {
        let authority = self.rules.in_force().authority.clone();
        self.put_in_force(policy, authority);
    }

    /// Sets the function that decides about messages which no rule is about, or takes it away.
    pub(crate) fn set_authority(
        &self,
        authority: Option<(Authorise, AuthorityOptions)>,
    ) -> Result<(), Error> {
        let _turn = self.live.turn();
        let counters = self.rules.counters.clone();
        let started = authority.map(|(function, options)| Authority::start(function, options, counters));
        let before = self.rules.in_force();
        self.put_in_force(before.configured.clone(), started.transpose()?);
        if let Some(authority) = &before.authority {
            authority.end();
        }
        if self.is_closed() {
            self.end_authority();
        }
        Ok(())
    }

    /// Forgets the answers of the authority.
    pub(crate) fn forget_answers(&self) {
        let _turn = self.live.turn();
        let before = self.rules.in_force();
        self.put_in_force(before.configured.clone(), before.authority.clone());
    }

    /// Ends the thread of the authority: the session is closed.
    pub(crate) fn end_authority(&self) {
        if let Some(authority) = &self.rules.in_force().authority {
            authority.end();
        }
    }

    /// Asks the authority about a message, and waits for its answer: other tasks of the thread go on elsewhere. `None`:
    /// there is none.
    pub(crate) fn ask_authority(&self, inquiry: Inquiry, link: &LinkFacts<'_>) -> Option<Answer> {
        let authority = self.rules.in_force().authority.clone()?;
        let request = AccessRequest { inquiry, subject: Arc::new(AccessSubject::of(link)) };
        let question = authority.ask(request, Weak::new(), 0);
        Some(tokio::task::block_in_place(|| self.runtime.block_on(question.answer())))
    }

    fn put_in_force(&self, configured: Policy, authority: Option<Arc<Authority>>) {
        let rules = Arc::new(RulesInForce::of(configured, authority));
        let links: Vec<(FaceId, Arc<Link>)> = {
            let core = self.core.lock();
            self.rules.set(rules.clone());
            match &core.side {
                Side::Client(_) => Vec::new(),
                Side::Node(side) => side.links.iter().map(|(face, link)| (*face, link.clone())).collect(),
            }
        };
        for (face, link) in links {
            let zid = (!link.is_group()).then_some(link.params.remote.zid);
            let mut effects = Effects::default();
            self.with_core(&mut effects, |core, now, effects| {
                core.renew_rules(now, face, (&link, zid), link.own_guard(), &rules, effects);
            });
        }
    }
}

impl SessionCore {
    /// Gives the messages of a face another interceptor, and judges its declarations again. `link` is the link to
    /// the face and the node there; `None`: the members of a group.
    pub(crate) fn renew_rules(
        &mut self,
        now: Now,
        face: FaceId,
        (link, zid): (&Arc<Link>, Option<ZenohId>),
        guard: &Guard,
        rules: &RulesInForce,
        effects: &mut Effects,
    ) {
        let Side::Node(side) = &mut self.side else { return };
        effects.told = true;
        let node = &mut side.node;
        let roles = [node.whatami(), link.params.remote.whatami];
        let between_routers = !link.is_group() && roles == [WhatAmI::Router; 2];
        let (inward, outward) = link.with_facts(zid, |facts| {
            guard.renew(Asker::of(rules, facts), |before| {
                let theirs = node.key_numbers(face);
                // Judged without state, so that the old one can be taken apart afterwards.
                let old = before.as_ref().map(Interceptor::rules);
                let (mut after, mut inward) = Interceptor::renewed(before, &rules.policy, facts, theirs);
                if between_routers {
                    after = after.map(Interceptor::between_routers);
                }
                let review = node.review(face, old.as_ref(), after.as_ref());
                if let Some(after) = &mut after {
                    review.withdrawn.iter().for_each(|message| after.hold(message));
                }
                inward.extend(review.inward);
                (after, (inward, review.outward))
            })
        });
        let some = !inward.is_empty();
        for message in inward {
            let interest = match &message {
                NetworkMessage::Interest(interest) => Some(interest.id),
                _ => None,
            };
            if let Err(error) = node.handle_message(now, face, message, Reliability::Reliable) {
                tracing::warn!(
                    peer = link.peer, %error,
                    "a declaration that the rules admit now was refused by the node: the peer has to declare it again"
                );
            }
            if let Some(interest) = interest {
                node.tell_tokens(face, interest);
            }
        }
        if some {
            node.forget_unwatched_tokens(face);
        }
        for message in &outward {
            link.push_past_rules(message);
        }
        if !outward.is_empty() {
            effects.settle_later(link, Urgency::Now);
        }
    }
}
