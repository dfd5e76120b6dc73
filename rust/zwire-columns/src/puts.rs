//! Rows of a batch as publications.

use crate::{
    reader::{Binaries, Error, text},
    stamps::Stamps,
};
use arrow_array::{Array, BooleanArray, Int8Array, RecordBatch, UInt8Array};
use arrow_schema::DataType;
use core::any::Any;
use zwire_proto::{
    Text,
    zenoh::{
        CongestionControl, Encoding, KeyExpr, Priority, Qos, ZenohId,
        wire::{Del, PushBody, Put},
    },
};
use zwire_spool::columns::PUT;

/// Rows of a batch, read as publications one by one.
#[derive(Debug)]
pub struct Puts {
    batch: RecordBatch,
    key: usize,
    payload: Option<Binaries>,
    attachment: Option<Binaries>,
    stamps: Option<Stamps>,
    encoding: Option<usize>,
    kind: Option<usize>,
    priority: Option<usize>,
    congestion: Option<usize>,
    express: Option<usize>,
    /// Key expression of all rows without a key of their own.
    fixed_key: Option<KeyExpr>,
    defaults: Qos,
    last_encoding: (String, Encoding),
}

/// Row that cannot be published.
#[derive(Debug, PartialEq, Eq)]
pub struct BadRow {
    /// Its index.
    pub row: usize,
    /// Its key, valid or not.
    pub key: Option<String>,
    /// Reason of the refusal.
    pub problem: String,
}

impl Puts {
    /// Finds the columns of a batch. Rows without a time stamp's id get that of the session, `own`. Fails
    /// with [`Error`] for a column that is unknown or missing, or has the wrong type.
    pub fn new(
        batch: RecordBatch,
        fixed_key: Option<KeyExpr>,
        defaults: Qos,
        own: ZenohId,
    ) -> Result<Self, Error> {
        let schema = batch.schema();
        for field in schema.fields() {
            if PUT.column(field.name()).is_none() && PUT.present(field.name()).is_none() {
                let all: Vec<_> = PUT.columns.iter().map(|column| column.name).collect();
                let problem = format!("column {:?} is not one of {}", field.name(), all.join(", "));
                return Err(Error::Value(problem));
            }
        }
        let find = |name: &str| schema.index_of(name).ok();
        let bytes = |name: &str| -> Result<Option<Binaries>, Error> {
            let Some(column) = batch.column_by_name(name) else { return Ok(None) };
            let wrong = || Error::column(name, column.data_type(), "binary");
            Binaries::new(column).map(Some).ok_or_else(wrong)
        };
        let (payload, attachment) = (bytes("payload")?, bytes("attachment")?);
        let stamps = Stamps::new(&batch, own)?;
        let key = find("key").filter(|_| fixed_key.is_none());
        if fixed_key.is_none() && key.is_none() {
            return Err(Error::Value(
                "the batch has no column \"key\", and no key_expr was given".to_owned(),
            ));
        }
        let (encoding, kind, congestion) = (find("encoding"), find("kind"), find("congestion"));
        for (name, column) in
            [("key", key), ("encoding", encoding), ("kind", kind), ("congestion", congestion)]
        {
            let got = column.map(|column| batch.column(column).data_type());
            if let Some(got) = got.filter(|got| !matches!(got, DataType::Utf8 | DataType::LargeUtf8)) {
                return Err(Error::column(name, got, "string"));
            }
        }
        Ok(Self {
            key: key.unwrap_or(usize::MAX),
            payload,
            attachment,
            stamps,
            encoding,
            kind,
            priority: find("priority"),
            congestion,
            express: find("express"),
            fixed_key,
            defaults,
            last_encoding: (String::new(), Encoding::DEFAULT),
            batch,
        })
    }

    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.batch.num_rows()
    }

    fn text(&self, column: Option<usize>, row: usize) -> Option<&str> {
        text(self.batch.column(column?), row)
    }

    /// Stores the key of a row in `key`, which holds that of the previous one.
    fn key(&self, row: usize, key: &mut Option<KeyExpr>) -> Result<(), BadRow> {
        if let Some(fixed) = &self.fixed_key {
            if key.is_none() {
                *key = Some(fixed.clone());
            }
            return Ok(());
        }
        let Some(text) = self.text(Some(self.key), row) else {
            return Err(self.bad(row, "the key is null".to_owned()));
        };
        // Keys repeat; an equal key is not parsed and copied again.
        if key.as_ref().is_none_or(|last| last.as_str() != text) {
            *key = Some(KeyExpr::new(Text::from(text)).map_err(|error| self.bad(row, error.to_string()))?);
        }
        Ok(())
    }

    fn bad(&self, row: usize, problem: String) -> BadRow {
        let key = match &self.fixed_key {
            Some(key) => Some(key.to_string()),
            None => self.text(Some(self.key), row).map(str::to_owned),
        };
        BadRow { row, key, problem }
    }

    fn encoding(&mut self, row: usize) -> Encoding {
        let Some(text) = self.text(self.encoding, row) else { return Encoding::DEFAULT };
        if self.last_encoding.0 == text {
            return self.last_encoding.1.clone();
        }
        let text = text.to_owned();
        let encoding = Encoding::from_text(text.as_str());
        self.last_encoding = (text, encoding.clone());
        encoding
    }

    /// A column that is not null in a row.
    fn given(&self, column: Option<usize>, row: usize) -> Option<&dyn Any> {
        let column = self.batch.column(column?);
        (!column.is_null(row)).then(|| column.as_any())
    }

    fn qos(&self, row: usize) -> Result<Qos, BadRow> {
        let priority = self.given(self.priority, row).and_then(|column| {
            let signed = column.downcast_ref::<Int8Array>().map(|a| i16::from(a.value(row)));
            signed.or_else(|| Some(column.downcast_ref::<UInt8Array>()?.value(row).into()))
        });
        let priority = match priority {
            None => self.defaults.priority(),
            Some(number @ 1..=7) => Priority::ALL[number.unsigned_abs() as usize],
            Some(number) => return Err(self.bad(row, format!("priority {number} is not 1..7"))),
        };
        let congestion = match self.text(self.congestion, row) {
            None => self.defaults.congestion(),
            Some(name) => CongestionControl::of_name(name).ok_or_else(|| {
                self.bad(row, format!("congestion {name:?} is not drop, block or block_first"))
            })?,
        };
        let express = self.given(self.express, row).and_then(|column| column.downcast_ref::<BooleanArray>());
        let express = express.map_or(self.defaults.express(), |a| a.value(row));
        Ok(Qos::new(priority, congestion, express))
    }

    /// Makes a publication of a row, overwriting the previous one. Fails with [`BadRow`] if the row has
    /// no valid key, or a value that is not allowed.
    pub fn fill(
        &mut self,
        row: usize,
        key: &mut Option<KeyExpr>,
        qos: &mut Qos,
        body: &mut PushBody,
    ) -> Result<(), BadRow> {
        self.key(row, key)?;
        *qos = self.qos(row)?;
        let attachment = self.attachment.as_ref().and_then(|a| a.get(row));
        let timestamp = match &self.stamps {
            Some(stamps) => stamps.get(row).map_err(|problem| self.bad(row, problem))?,
            None => None,
        };
        match self.text(self.kind, row) {
            None | Some("put") => {
                let payload = self.payload.as_ref().and_then(|p| p.get(row)).unwrap_or_default();
                let encoding = self.encoding(row);
                match body {
                    PushBody::Put(put) => {
                        put.payload = payload.into();
                        put.encoding = encoding;
                        put.attachment = attachment;
                        // Set even if there is none: a router may have stamped the previous row.
                        put.timestamp = timestamp;
                    }
                    PushBody::Del(_) => {
                        let put = Put { encoding, attachment, timestamp, ..Put::new(payload) };
                        *body = PushBody::Put(put);
                    }
                }
            }
            Some("del" | "delete") => {
                *body = PushBody::Del(Del { attachment, timestamp, ..Del::default() });
            }
            Some(other) => {
                return Err(self.bad(row, format!("kind {other:?} is not put or del")));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_array::{ArrayRef, BinaryArray, Int8Array, StringArray};
    use std::sync::Arc;

    fn puts(columns: Vec<(&str, ArrayRef)>, key: Option<&str>) -> Result<Puts, Error> {
        let key = key.map(|key| KeyExpr::new(Text::from(key)).unwrap());
        let own = ZenohId::from_wire(&[1]).unwrap();
        Puts::new(RecordBatch::try_from_iter(columns).unwrap(), key, Qos::default(), own)
    }

    /// Fills with all rows up to the first invalid one, and returns their keys and kinds.
    fn filled(mut puts: Puts) -> (Vec<(String, bool)>, Option<BadRow>) {
        let (mut key, mut qos) = (None, Qos::default());
        let mut body = PushBody::Put(Put::new(bytes::Bytes::new()));
        let mut done = Vec::new();
        for row in 0..puts.rows() {
            if let Err(bad) = puts.fill(row, &mut key, &mut qos, &mut body) {
                return (done, Some(bad));
            }
            done.push((key.as_ref().unwrap().to_string(), matches!(body, PushBody::Put(_))));
        }
        (done, None)
    }

    fn text(values: [Option<&str>; 3]) -> ArrayRef {
        Arc::new(StringArray::from(values.to_vec()))
    }

    #[test]
    fn rows_become_publications_until_one_is_invalid() {
        let keys = text([Some("a"), Some("a"), Some("b")]);
        let kinds = text([None, Some("del"), Some("put")]);
        let wanted = vec![("a".to_owned(), true), ("a".to_owned(), false), ("b".to_owned(), true)];
        assert_eq!(filled(puts(vec![("key", keys.clone()), ("kind", kinds)], None).unwrap()), (wanted, None));

        let priority: ArrayRef = Arc::new(Int8Array::from(vec![Some(1), None, Some(8)]));
        let (done, bad) = filled(puts(vec![("key", keys), ("priority", priority)], None).unwrap());
        let problem = "priority 8 is not 1..7".to_owned();
        assert_eq!((done.len(), bad), (2, Some(BadRow { row: 2, key: Some("b".to_owned()), problem })));
    }

    #[test]
    fn a_fixed_key_replaces_the_column() {
        let payload: ArrayRef = Arc::new(BinaryArray::from(vec![b"x".as_slice()]));
        let (done, bad) = filled(puts(vec![("payload", payload.clone())], Some("k")).unwrap());
        assert_eq!((done, bad), (vec![("k".to_owned(), true)], None));
        let missing = puts(vec![("payload", payload)], None).unwrap_err();
        assert!(matches!(missing, Error::Value(problem) if problem.contains("no column \"key\"")));
    }

    #[test]
    fn unknown_columns_and_wrong_types_are_refused() {
        let number: ArrayRef = Arc::new(Int8Array::from(vec![1]));
        let wrong = puts(vec![("key", number.clone())], None).unwrap_err();
        assert_eq!(wrong.to_string(), "column \"key\" must be string, not Int8");
        assert!(matches!(puts(vec![("colour", number)], Some("k")), Err(Error::Value(_))));
    }
}
