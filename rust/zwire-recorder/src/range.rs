//! Ranges of a spool, served to readers that have no access to its files.

use crate::tier::open_spool;
use arrow_buffer::Buffer;
use parking_lot::Mutex;
use std::{path::Path, sync::Arc};
use zwire_proto::zenoh::keyexpr::{KeyExpr, KeyExprError};
use zwire_spool::{
    Cursor, KeyChoice, Result, Selection, Shard, Spool,
    wire::{Answer, Label},
};

/// Cursors kept for later requests. Each holds an open file and the positions of its blocks.
const MAX_CURSORS: usize = 16;

/// Server of ranges: answers a range of offsets with the blocks that hold it.
pub struct RangeServer {
    spool: Spool,
    /// Positions of the last answers: the next request often continues one of them.
    cursors: Mutex<Vec<Cursor>>,
}

impl RangeServer {
    /// A server for the spool in a folder, or in the store with an address.
    pub fn open(place: &Path) -> Result<Arc<Self>> {
        Ok(Arc::new(Self { spool: open_spool(place)?, cursors: Mutex::default() }))
    }

    /// Blocks that hold the rows of a range, or the first of them up to about `max_bytes`; of a selection without those of
    /// segments that have no wanted rows.
    pub fn answer(
        self: &Arc<Self>,
        shard: Shard,
        start: u64,
        stop: u64,
        max_bytes: u64,
        selection: Option<Arc<Selection>>,
    ) -> Result<RangeAnswer> {
        let mut cursors = self.cursors.lock();
        let known = cursors.iter().position(|cursor| cursor.shard() == shard);
        let known = known.map(|at| cursors.swap_remove(at));
        drop(cursors);
        let mut cursor = known.map_or_else(|| self.spool.cursor(shard), Ok)?;
        cursor.select(selection);
        let answer = cursor.answer(start, stop, max_bytes)?;
        Ok(RangeAnswer { server: self.clone(), answer: Mutex::new(Some(answer)) })
    }

    /// Closes the open segments; the blocks of a deleted file are not freed until then.
    pub fn rest(&self) {
        self.cursors.lock().clear();
    }
}

/// Blocks of one answer, read one after the other.
pub struct RangeAnswer {
    server: Arc<RangeServer>,
    answer: Mutex<Option<Answer>>,
}

impl RangeAnswer {
    /// Next block with its label; `None` at the end, and after an error.
    pub fn next_block(&self) -> Result<Option<(Label, Buffer)>> {
        let mut place = self.answer.lock();
        let Some(answer) = place.as_mut() else { return Ok(None) };
        let next = answer.next_block();
        if !matches!(next, Ok(Some(_)))
            && let Some(answer) = place.take()
        {
            let mut cursors = self.server.cursors.lock();
            if cursors.len() < MAX_CURSORS {
                cursors.push(answer.into_cursor());
            }
        }
        next
    }
}

/// Selection of rows by key expressions, and by times in microseconds since 1970; `None` if all rows are wanted.
pub fn selection(
    keys: Option<&[String]>,
    since: Option<i64>,
    until: Option<i64>,
) -> core::result::Result<Option<Arc<Selection>>, KeyExprError> {
    let choice = |keys: &[String]| {
        let wanted = keys.iter().map(|text| KeyExpr::new(&**text));
        let wanted: Vec<KeyExpr> = wanted.collect::<core::result::Result<_, KeyExprError>>()?;
        let wants = move |key: &str| {
            KeyExpr::new(key).is_ok_and(|key| wanted.iter().any(|wanted| wanted.intersects(&key)))
        };
        Ok(KeyChoice::new(keys, Arc::new(wants)))
    };
    let selection = Selection { keys: keys.map(choice).transpose()?, since, until };
    let all = selection.keys.is_none() && since.is_none() && until.is_none();
    Ok((!all).then(|| Arc::new(selection)))
}
