//! Rules of a link that change while it is open: declarations are judged again (`zenoh-behaviour` 7.4).

use super::{FaceId, Node, face::Watch};
use crate::zenoh::{
    KeyExpr,
    entity::EntityKind,
    intercept::{Flow, Interceptor, MessageKind},
    wire::{Declare, Interest, InterestMode, NetworkMessage, QueryableInfo, WireExpr},
};

/// Messages that bring both ends of a link to what its new rules say.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Review {
    /// For the node, as if the peer had sent them: the end of what it may no longer declare.
    pub inward: Vec<NetworkMessage>,
    /// The declarations that end, for [`Interceptor::hold`]: a later change of the rules may let them in again.
    pub withdrawn: Vec<NetworkMessage>,
    /// For the peer, past the rules: the end of what it may no longer know, and what it may know from now on.
    pub outward: Vec<NetworkMessage>,
}

fn full(key: &KeyExpr) -> WireExpr {
    WireExpr::full(key.text().clone())
}

/// The interest of a watch in some kinds of entities; without one its end.
fn interest(id: u32, watch: &Watch, kinds: impl IntoIterator<Item = EntityKind>) -> NetworkMessage {
    let wanted = kinds.into_iter().filter(|kind| watch.kinds[*kind as usize]);
    NetworkMessage::Interest(match wanted.map(EntityKind::option).reduce(|all, option| all | option) {
        Some(options) => Interest::new(id, InterestMode::Future, options, watch.key.as_ref().map(full)),
        None => Interest::finished(id),
    })
}

impl Node {
    /// The numbers that a face has given to keys.
    #[must_use]
    pub fn key_numbers(&self, id: FaceId) -> Vec<(u16, KeyExpr)> {
        self.faces.get(&id).map_or_else(Vec::new, |face| face.key_numbers())
    }

    /// Compares the declarations of a face, and those that it has been told, with the rules of its link before and
    /// after a change. `None`: no rules.
    ///
    /// Of a neighbour in a network of routers it sees the messages only: their declarations travel along trees.
    #[must_use]
    pub fn review(&self, id: FaceId, before: Option<&Interceptor>, after: Option<&Interceptor>) -> Review {
        let mut review = Review::default();
        let Some(face) = self.faces.get(&id) else { return review };
        let same = match (before, after) {
            (Some(before), Some(after)) => before.agrees(after),
            (before, after) => before.is_none() && after.is_none(),
        };
        if same {
            return review;
        }
        // `None`: an authority decides, and with it stays what was told before.
        let decides = |rules: Option<&Interceptor>, flow, kind, key: Option<&KeyExpr>| {
            rules.map_or(Some(true), |rules| rules.decides(flow, kind, key))
        };
        for kind in EntityKind::ALL {
            let message = MessageKind::of_entity(kind);
            for (entity, resource) in &face.entities[kind as usize] {
                let Some(resource) = self.tables.get(*resource) else { continue };
                let key = &resource.key;
                if decides(after, Flow::Ingress, message, Some(key)) == Some(false) {
                    let mut infos = resource.entities(kind).filter(|(of, _)| *of == id);
                    let info = infos.next().map_or_else(QueryableInfo::default, |(_, info)| info);
                    let declared = kind.declaration(entity.id, full(key), info);
                    let ended = kind.undeclaration(entity.id, Some(full(key)));
                    review.withdrawn.push(NetworkMessage::Declare(Declare::new(None, declared)));
                    review.inward.push(NetworkMessage::Declare(Declare::new(None, ended)));
                }
            }
            for (key, told) in &face.announced[kind as usize] {
                // Without an id the face does not know of it.
                let Some(id) = told.id else { continue };
                let passes = |rules| decides(rules, Flow::Egress, message, Some(key));
                let Some(passes_after) = passes(after) else { continue };
                // What an authority has decided before is told once more: the peer may know either.
                let body = match (passes(before).unwrap_or(!passes_after), passes_after) {
                    (true, false) if kind == EntityKind::Subscriber => kind.undeclaration(id, None),
                    (true, false) => kind.undeclaration(id, Some(WireExpr::EMPTY)),
                    (false, true) => kind.declaration(id, face.wire_expr(key), told.info),
                    _ => continue,
                };
                review.outward.push(NetworkMessage::Declare(Declare::new(None, body)));
            }
        }
        for (id, watch) in face.watches.iter().filter(|(_, watch)| watch.kinds[EntityKind::Token as usize]) {
            let kind = MessageKind::DeclareLivelinessSubscriber;
            if decides(after, Flow::Ingress, kind, watch.key.as_ref()) == Some(false) {
                review.withdrawn.push(interest(*id, watch, EntityKind::ALL));
                review.inward.push(interest(*id, watch, [EntityKind::Subscriber, EntityKind::Queryable]));
            }
        }
        review
    }

    /// Tells a face of the present tokens that one of its interests is about, as if they had just been declared: it
    /// may hear of them now.
    pub fn tell_tokens(&mut self, id: FaceId, interest: u32) {
        let Some(face) = self.faces.get(&id) else { return };
        let Some(watch) = face.watches.get(&interest).filter(|watch| watch.kinds[EntityKind::Token as usize])
        else {
            return;
        };
        let offers = self.offers((id, face), EntityKind::Token, watch.key.as_ref());
        if self.check_answer(id, offers.len()).is_ok() {
            offers.iter().for_each(|(key, info)| self.announce(id, None, EntityKind::Token, key, *info));
        }
    }

    /// Forgets the tokens that a face was told of and no longer asks for: it does not hear of their end.
    pub fn forget_unwatched_tokens(&mut self, id: FaceId) {
        let Some(face) = self.faces.get_mut(&id) else { return };
        let kind = EntityKind::Token;
        let told = core::mem::take(&mut face.announced[kind as usize]);
        let before = told.len();
        let wanted = told.into_iter().filter(|(key, _)| face.watches_key(kind, key)).collect();
        face.announced[kind as usize] = wanted;
        let gone = before - face.announced[kind as usize].len();
        self.budget.withdraw(&mut face.account, gone);
    }
}
