//! [`EntityKind`]: subscribers, queryables and tokens, which are declared and wanted alike.

use super::wire::{Declaration, InterestOptions, QueryableInfo, WireExpr};

/// Kind of entity declared on a key; the index of its table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum EntityKind {
    Subscriber = 0,
    Queryable = 1,
    Token = 2,
}

/// D_* or U_* of an entity.
pub(super) struct EntityChange {
    pub(super) kind: EntityKind,
    pub(super) id: u32,
    /// Of a D_* always present.
    pub(super) key: Option<WireExpr>,
    /// `None`: U_*.
    pub(super) info: Option<QueryableInfo>,
}

impl EntityKind {
    pub(super) const ALL: [Self; 3] = [Self::Subscriber, Self::Queryable, Self::Token];

    /// The bit of an interest in such entities.
    pub(super) const fn option(self) -> InterestOptions {
        match self {
            Self::Subscriber => InterestOptions::SUBSCRIBERS,
            Self::Queryable => InterestOptions::QUERYABLES,
            Self::Token => InterestOptions::TOKENS,
        }
    }

    /// The D_*; `info` is that of a queryable.
    pub(super) const fn declaration(self, id: u32, key: WireExpr, info: QueryableInfo) -> Declaration {
        match self {
            Self::Subscriber => Declaration::Subscriber { id, key },
            Self::Queryable => Declaration::Queryable { id, key, info },
            Self::Token => Declaration::Token { id, key },
        }
    }

    /// The U_*.
    pub(super) const fn undeclaration(self, id: u32, key: Option<WireExpr>) -> Declaration {
        match self {
            Self::Subscriber => Declaration::UndeclareSubscriber { id, key },
            Self::Queryable => Declaration::UndeclareQueryable { id, key },
            Self::Token => Declaration::UndeclareToken { id, key },
        }
    }
}

impl EntityChange {
    /// `None`: the declaration is not about an entity.
    pub(super) fn of(declaration: Declaration) -> Option<Self> {
        use EntityKind::{Queryable, Subscriber, Token};
        let (kind, id, key, info) = match declaration {
            Declaration::Subscriber { id, key } => {
                (Subscriber, id, Some(key), Some(QueryableInfo::default()))
            }
            Declaration::Queryable { id, key, info } => (Queryable, id, Some(key), Some(info)),
            Declaration::Token { id, key } => (Token, id, Some(key), Some(QueryableInfo::default())),
            Declaration::UndeclareSubscriber { id, key } => (Subscriber, id, key, None),
            Declaration::UndeclareQueryable { id, key } => (Queryable, id, key, None),
            Declaration::UndeclareToken { id, key } => (Token, id, key, None),
            Declaration::KeyExpr { .. } | Declaration::UndeclareKeyExpr { .. } | Declaration::Final => {
                return None;
            }
        };
        Some(Self { kind, id, key, info })
    }
}
