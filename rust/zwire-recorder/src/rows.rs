//! Conversion of the items of a queue to rows of a spool.

use zwire_engine::queue::Weigh;
use zwire_spool::{Error, Gap, LastNumber, ShardWriter};

/// How the items of a queue become rows.
pub(crate) trait Rows: Send + 'static {
    /// Item of the queue.
    type Item: Weigh + Send + 'static;

    /// Whether the item is recorded; `false` if another source of the same recorder records it.
    fn is_ours(&self, item: &Self::Item) -> bool;

    /// Text that chooses the shard of the item, where keys choose one.
    fn key<'a>(&self, item: &'a Self::Item) -> &'a str;

    /// Gap that the item reveals, such as missing numbers before it. The caller adds place and time.
    fn look(&mut self, item: &Self::Item) -> Option<Gap>;

    /// Last numbers of publishers, as of the last item that was looked at.
    fn publishers(&self) -> Vec<LastNumber> {
        Vec::new()
    }

    /// Appends the item; returns the size of its payload in octets, `None` if the item is no row.
    fn push(&mut self, writer: &mut ShardWriter, item: &Self::Item, time: i64) -> Result<Option<u64>, Error>;
}
