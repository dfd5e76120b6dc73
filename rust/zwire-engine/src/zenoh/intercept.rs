//! Applies the access policy of a node to its links.

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

/// Interceptor of a link; `None` if the policy does not concern the link, so that messages cost nothing
/// extra.
#[derive(Debug, Default)]
pub(crate) struct Guard(Option<Box<Mutex<Interceptor>>>);

impl Guard {
    /// Interceptor for the link to a node, or to the members of a group.
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

    /// Removes refused messages from the list. Replies that their senders wait for are sent on `link`.
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

    /// Decides what happens to an outgoing message.
    #[inline]
    pub(crate) fn egress(&self, message: &NetworkMessage, reliability: Reliability) -> Egress {
        match &self.0 {
            None => Egress::Pass,
            Some(machine) => machine.lock().egress(clock::now(), message, reliability),
        }
    }
}
