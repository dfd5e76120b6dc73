//! [`Living`]: keys that are alive, with the number of their tokens.

use std::collections::HashMap;

use crate::zenoh::KeyExpr;

/// How many tokens each living key has; without the namespace.
#[derive(Debug, Default)]
pub(super) struct Living(pub(super) HashMap<KeyExpr, usize>);

impl Living {
    #[cfg(test)]
    pub(super) const fn counts(&self) -> &HashMap<KeyExpr, usize> {
        &self.0
    }

    pub(super) fn clear(&mut self) {
        self.0.clear();
    }
}
