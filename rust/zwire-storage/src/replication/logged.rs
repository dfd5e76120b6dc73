//! [`LoggedTable`]: writes each change of a volume into the log as well.

use crate::{
    error::Result,
    place::Span,
    replication::log::EventLog,
    rules::{Mark, Table, Value},
    wildcards::Wildcard,
};
use zwire_proto::zenoh::Timestamp;

/// Table of a change whose effects are events of a log. If the change is abandoned, the log has to be filled again.
pub struct LoggedTable<'a> {
    table: &'a mut dyn Table,
    log: &'a mut EventLog,
    /// Key that was looked up last, which is most often the one that changes next.
    last: (String, Option<Mark>),
    is_known: bool,
}

impl<'a> LoggedTable<'a> {
    /// Table with the log of its storage.
    pub fn new(table: &'a mut dyn Table, log: &'a mut EventLog) -> Self {
        Self { table, log, last: (String::new(), None), is_known: false }
    }

    /// Times of a key before it changes.
    fn before(&mut self, key: &str) -> Result<Option<Mark>> {
        let is_known = core::mem::take(&mut self.is_known) && self.last.0 == key;
        if is_known { Ok(self.last.1) } else { self.table.mark(key) }
    }

    /// Replaces the event of a key.
    fn replace(&mut self, key: &str, before: Option<Mark>, after: Option<Mark>) {
        if let Some(before) = before {
            self.log.drop_key(key, &before);
        }
        if let Some(after) = after {
            self.log.add(key, &after);
        }
    }
}

impl Table for LoggedTable<'_> {
    fn mark(&mut self, key: &str) -> Result<Option<Mark>> {
        let mark = self.table.mark(key)?;
        self.last.0.clear();
        self.last.0.push_str(key);
        (self.last.1, self.is_known) = (mark, true);
        Ok(mark)
    }

    fn put(&mut self, key: &str, put: Timestamp, stamp: Timestamp, value: &Value) -> Result<()> {
        let before = self.before(key)?;
        self.table.put(key, put, stamp, value)?;
        self.replace(key, before, Some(Mark::Live { put, stamp }));
        Ok(())
    }

    fn raise(&mut self, key: &str, put: Timestamp) -> Result<()> {
        self.is_known = false;
        self.table.raise(key, put)
    }

    fn bury(&mut self, key: &str, stamp: Timestamp) -> Result<()> {
        let before = self.before(key)?;
        self.table.bury(key, stamp)?;
        self.replace(key, before, Some(Mark::Gone(stamp)));
        Ok(())
    }

    fn remove(&mut self, key: &str) -> Result<()> {
        let before = self.before(key)?;
        self.table.remove(key)?;
        self.replace(key, before, None);
        Ok(())
    }

    fn keys(&mut self, span: &Span, after: Option<&str>) -> Result<Vec<(String, Mark)>> {
        self.table.keys(span, after)
    }

    fn graves(&mut self, after: Option<&str>) -> Result<Vec<(String, Timestamp)>> {
        self.table.graves(after)
    }

    fn keep(&mut self, wildcard: &Wildcard) -> Result<()> {
        self.table.keep(wildcard)?;
        self.log.keep(wildcard);
        Ok(())
    }

    fn forget(&mut self, wildcard: &Wildcard) -> Result<()> {
        self.table.forget(wildcard)?;
        self.log.forget(wildcard);
        Ok(())
    }
}
