//! Applies the access policy of a node to its links.

use crate::rt::clock;
use parking_lot::Mutex;
use zwire_proto::zenoh::{
    Reliability,
    intercept::{Egress, Interceptor, LinkFacts, Policy, refusal},
    wire::NetworkMessage,
};

/// Interceptor of a link; `None` if the policy does not concern the link, so that messages cost nothing
/// extra.
#[derive(Debug, Default)]
pub(crate) struct Guard(Option<Box<Mutex<Interceptor>>>);

impl Guard {
    /// Interceptor for the link to a node, or to the members of a group.
    pub(crate) fn of(policy: &Policy, facts: &LinkFacts<'_>) -> Self {
        Self(Interceptor::new(policy, facts).map(|machine| Box::new(Mutex::new(machine))))
    }

    /// Removes refused messages from the list. Returns the answers that their senders wait for.
    pub(crate) fn admit(&self, messages: &mut Vec<(NetworkMessage, Reliability)>) -> Vec<NetworkMessage> {
        let mut answers = Vec::new();
        if let Some(machine) = &self.0 {
            let now = clock::now();
            let mut machine = machine.lock();
            messages.retain_mut(|(message, reliability)| {
                let taken = machine.ingress(now, message, *reliability);
                if !taken {
                    answers.extend(refusal(message));
                }
                taken
            });
        }
        answers
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
