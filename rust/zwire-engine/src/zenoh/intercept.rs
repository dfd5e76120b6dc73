//! Where the policy of a node meets its links.

use crate::{
    rt::clock,
    zenoh::{connectivity::interfaces_with, link::Link},
};
use parking_lot::Mutex;
use zwire_proto::zenoh::{
    Reliability, ZenohId,
    intercept::{Egress, Interceptor, LinkFacts, Policy, refusal},
    wire::NetworkMessage,
};

/// The interceptor of a link; `None` where the policy is not about it, which costs a message nothing.
#[derive(Debug, Default)]
pub(crate) struct Guard(Option<Box<Mutex<Interceptor>>>);

impl Guard {
    /// That of the link to a node, or to the members of a group.
    pub(crate) fn of(policy: &Policy, link: &Link, zid: Option<ZenohId>) -> Self {
        if policy.is_empty() {
            return Self::default();
        }
        let interfaces = link.addresses.map_or_else(Vec::new, |(local, _)| interfaces_with(local.ip()));
        let facts = LinkFacts {
            zid,
            interfaces: &interfaces,
            protocol: link.local.split_once('/').map_or("", |(protocol, _)| protocol),
            common_name: link.io().name(),
            username: link.params.user.as_ref().map(zwire_proto::Text::as_str),
        };
        Self(Interceptor::new(policy, &facts).map(|machine| Box::new(Mutex::new(machine))))
    }

    /// Leaves the messages that are taken. `link` gets what those who sent the others wait for.
    pub(crate) fn admit(&self, messages: &mut Vec<(NetworkMessage, Reliability)>, link: &Link) {
        let Some(machine) = &self.0 else { return };
        let now = clock::now();
        let mut answers = Vec::new();
        {
            let mut machine = machine.lock();
            messages.retain_mut(|(message, reliability)| {
                let taken = machine.ingress(now, message, *reliability);
                if !taken {
                    answers.extend(refusal(message));
                }
                taken
            });
        }
        if !answers.is_empty() {
            for answer in &answers {
                link.push(answer, Reliability::Reliable, None);
            }
            link.flush();
        }
    }

    /// What becomes of a message for the other end.
    #[inline]
    pub(crate) fn egress(&self, message: &NetworkMessage, reliability: Reliability) -> Egress {
        match &self.0 {
            None => Egress::Pass,
            Some(machine) => machine.lock().egress(clock::now(), message, reliability),
        }
    }
}
