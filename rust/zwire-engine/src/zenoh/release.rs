//! Releases messages that have waited in a [`Guard`](super::intercept::Guard) for the authority.

use crate::{
    rt::clock,
    zenoh::{authority::Question, effects::Effects, link::Link, shared::SessionShared},
};
use std::sync::{Arc, Weak};
use zwire_proto::zenoh::{Reliability, node::FaceId};

/// Lets messages for the peer of a link wait for the authority. To be called before the first message.
pub(crate) fn prepare(shared: &Arc<SessionShared>, link: &Arc<Link>, face: FaceId) {
    let (shared, weak) = (Arc::downgrade(shared), Arc::downgrade(link));
    link.set_holder(Box::new(move |question| {
        if let (Some(strong), Some(link)) = (shared.upgrade(), weak.upgrade()) {
            strong.spawn(release_held(link, (shared.clone(), face), question));
        }
    }));
}

/// Task of a link with messages for its peer that wait for the authority, until none is left.
async fn release_held(
    link: Arc<Link>,
    (shared, face): (Weak<SessionShared>, FaceId),
    mut question: Arc<Question>,
) {
    loop {
        let answer = tokio::select! {
            answer = question.answer() => answer,
            () = link.closed() => return,
        };
        let (refusals, next) = link
            .own_guard()
            .release(&|message, reliability| link.send(message, reliability), (&question, answer));
        link.flush();
        let mut refusals = refusals.into_iter().map(|message| (message, Reliability::Reliable)).collect();
        let mut effects = Effects::default();
        while !Vec::is_empty(&refusals) {
            let Some(shared) = shared.upgrade() else { return };
            // As if the peer had sent them. Its further messages may have to wait, and these as well. After an error
            // the others of them are gone, and the messages that are still held are released nevertheless.
            let wait = shared.deliver(face, &mut refusals, &mut effects, || true).unwrap_or(None);
            shared.settle(&mut effects);
            drop(shared);
            if let Some(until) = wait {
                tokio::time::sleep_until(clock::instant(until)).await;
            }
        }
        match next {
            Some(next) => question = next,
            None => {
                // A session that closes waits for this.
                shared.upgrade().inspect(|shared| shared.progress.notify());
                return;
            }
        }
    }
}
