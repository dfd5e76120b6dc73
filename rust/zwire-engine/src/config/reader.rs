//! [`TreeReader`]: typed values out of the tree of keys.

use core::time::Duration;
use std::{collections::BTreeMap, net::SocketAddr, path::PathBuf};

use serde_json::Value;
use zwire_proto::{
    zenoh::{KeyExpr, Priority, WhatAmI, ZenohId, discovery::Binding},
    zre::node::Interface,
};

use super::{
    AutoConnect, Config, ConfigError, KEYS, Key, PublicationQos, Roles,
    error::Result,
    intercept,
    values::{self, PRIORITIES},
};

/// Reader of checked values for one mode.
pub(super) struct TreeReader<'a> {
    pub(super) config: &'a Config,
    pub(super) mode: WhatAmI,
}

/// Value of a key, or section with the values of several.
pub(super) trait Setting: Sized {
    fn at(tree: &TreeReader<'_>, path: &str) -> Result<Self>;

    /// As [`Self::at`] for a key with the default `null`.
    fn optional(tree: &TreeReader<'_>, path: &str) -> Result<Option<Self>> {
        if tree.value(path).is_null() { Ok(None) } else { Self::at(tree, path).map(Some) }
    }
}

impl TreeReader<'_> {
    pub(super) fn get<T: Setting>(&self, path: &str) -> Result<T> {
        T::at(self, path)
    }

    pub(super) fn value(&self, path: &str) -> Value {
        self.config.effective(key(path), self.mode)
    }

    pub(super) fn read<T>(&self, path: &str, read: impl Fn(&str, &Value) -> Result<T>) -> Result<T> {
        read(path, &self.value(path))
    }
}

/// # Panics
/// For a path that is not in the table, which any test would reveal.
pub(super) fn key(path: &str) -> &'static Key {
    KEYS.iter().find(|key| key.path == path).expect("a key of the table")
}

/// Path of a key below a section, or the rest of `name` behind a slash.
pub(super) fn below(section: &str, name: &str) -> String {
    match name.strip_prefix('/') {
        Some(path) => path.to_owned(),
        None if section.is_empty() => name.to_owned(),
        None => format!("{section}/{name}"),
    }
}

/// Reads an integer as the type that its range in the table fits.
fn integer<T: TryFrom<i64>>(path: &str, value: &Value) -> Result<T> {
    let number = values::integer(key(path).kind, path, value)?;
    let expected = || format!("a number of {} bits", 8 * size_of::<T>());
    T::try_from(number).map_err(|_| ConfigError::value(path, expected(), number.to_string()))
}

/// Reads a time in the unit of its key.
fn time(path: &str, value: &Value) -> Result<Duration> {
    let unit = if key(path).unit == "us" { Duration::from_micros } else { Duration::from_millis };
    integer(path, value).map(unit)
}

fn text(path: &str, value: &Value) -> Result<String> {
    values::text(key(path).kind, path, value).map(str::to_owned)
}

/// Implements [`Setting`] for values of one key.
macro_rules! values {
    ($($kind:ty: $read:expr;)*) => {$(
        impl Setting for $kind {
            fn at(tree: &TreeReader<'_>, path: &str) -> Result<Self> {
                tree.read(path, $read)
            }
        }
    )*};
}

values! {
    bool: values::boolean;
    u8: integer;
    u16: integer;
    u32: integer;
    usize: integer;
    i64: integer;
    f64: |path, value| values::float(key(path).kind, path, value);
    Duration: time;
    String: text;
    PathBuf: |path, value| text(path, value).map(Into::into);
    Value: |_, value| Ok(value.clone());
    ZenohId: values::zid;
    SocketAddr: values::group;
    Roles: values::roles;
    AutoConnect: values::auto_connect;
    KeyExpr: |path, value| values::key_expr(path, value, true);
    Vec<KeyExpr>: values::key_exprs;
    Vec<Interface>: values::networks;
    Vec<u32>: values::users;
    Vec<Binding>: intercept::bindings;
    Vec<PublicationQos>: intercept::publication_qos;
    BTreeMap<ZenohId, u16>: values::weights;
    Vec<String>: |path, value| values::words(key(path).kind, path, value);
}

impl<T: Setting> Setting for Option<T> {
    fn at(tree: &TreeReader<'_>, path: &str) -> Result<Self> {
        T::optional(tree, path)
    }
}

impl Setting for WhatAmI {
    fn at(tree: &TreeReader<'_>, _: &str) -> Result<Self> {
        Ok(tree.mode)
    }
}

/// One number for each priority.
impl Setting for [usize; Priority::COUNT] {
    fn at(tree: &TreeReader<'_>, path: &str) -> Result<Self> {
        let mut all = [0; Priority::COUNT];
        for (own, name) in all.iter_mut().zip(PRIORITIES) {
            *own = tree.get(&below(path, name))?;
        }
        Ok(all)
    }
}

/// Declares sections of the configuration. A field is read from the key of its name below the section, or from
/// another one that `=` names; one with `= None` has no key.
macro_rules! sections {
    ($($(#[$attribute:meta])* pub struct $section:ident {
        $($(#[$about:meta])* pub $field:ident: $kind:ty $(= $key:tt)?,)*
    })*) => {$(
        $(#[$attribute])*
        pub struct $section {
            $($(#[$about])* pub $field: $kind,)*
        }

        impl $crate::config::reader::Setting for $section {
            fn at(
                tree: &$crate::config::reader::TreeReader<'_>,
                path: &str,
            ) -> core::result::Result<Self, $crate::config::ConfigError> {
                Ok(Self { $($field: $crate::config::reader::field!(tree, path, $field $(, $key)?),)* })
            }
        }
    )*};
}

/// Value of a field for [`sections`].
macro_rules! field {
    ($tree:ident, $section:ident, $field:ident) => {
        $crate::config::reader::field!($tree, $section, $field, (stringify!($field)))
    };
    ($tree:ident, $section:ident, $field:ident, None) => {
        None
    };
    ($tree:ident, $section:ident, $field:ident, $key:tt) => {
        $tree.get(&$crate::config::reader::below($section, $key))?
    };
}

pub(super) use {field, sections};
