//! Selection of rows by key and receive time, and of the segments that may have such rows.

use crate::{
    keys::{KeyChoice, Keys},
    sealed::{Page, Sealed},
};
use arrow_array::{Array as _, BooleanArray, StringArray, TimestampMicrosecondArray};
use hashbrown::HashMap;

/// Rows that a reader wants: those that meet all conditions.
#[derive(Clone, Debug, Default)]
pub struct Selection {
    /// Keys; rows without a key are not wanted.
    pub keys: Option<KeyChoice>,
    /// Least receive time, in microseconds since 1970.
    pub since: Option<i64>,
    /// Receive time before which rows were received.
    pub until: Option<i64>,
}

/// Keys with a known answer while a batch is filtered; forgotten beyond it.
const MAX_ANSWERS: usize = 65_536;

impl Selection {
    /// Whether rows received at these times, the least and the greatest, may be wanted.
    pub(crate) fn may_be_at(&self, times: (i64, i64)) -> bool {
        self.since.is_none_or(|since| times.1 >= since) && self.until.is_none_or(|until| times.0 < until)
    }

    fn may_be_in_keys(&self, keys: Option<&Keys>) -> bool {
        self.keys.as_ref().zip(keys).is_none_or(|(choice, keys)| choice.may_be_in(keys))
    }

    /// Whether a segment may have wanted rows; false only if it has none. Of a damaged one nothing is known.
    pub(crate) fn may_be_in(&self, sealed: &Sealed) -> bool {
        sealed.problem.is_some() || self.may_be_at(sealed.times) && self.may_be_in_keys(sealed.keys.as_ref())
    }

    /// Whether a segment of a page may have wanted rows; false only if none has.
    pub(crate) fn may_be_in_page(&self, page: &Page) -> bool {
        self.may_be_at(page.times) && self.may_be_in_keys(page.keys.as_ref())
    }

    /// Whether each of the rows is wanted, by columns with their keys and times.
    pub(crate) fn mask(
        &self,
        keys: Option<&StringArray>,
        times: &TimestampMicrosecondArray,
        answers: &mut HashMap<Box<str>, bool>,
    ) -> BooleanArray {
        let mut wants = |key: &str, choice: &KeyChoice| {
            if let Some(known) = answers.get(key) {
                return *known;
            }
            if answers.len() >= MAX_ANSWERS {
                answers.clear();
            }
            let wanted = choice.wants(key);
            answers.insert(key.into(), wanted);
            wanted
        };
        (0..times.len())
            .map(|row| {
                let time = times.value(row);
                let key = match (&self.keys, keys) {
                    (None, _) => true,
                    (Some(_), None) => false,
                    (Some(choice), Some(keys)) => keys.is_valid(row) && wants(keys.value(row), choice),
                };
                Some(key && self.may_be_at((time, time)))
            })
            .collect()
    }
}
