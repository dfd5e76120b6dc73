//! Encodings of payloads (`zenoh-wire` 1.6).

use core::{convert::Infallible, fmt, str::FromStr};

use bytes::Bytes;

use crate::Text;

/// A predefined id and an optional schema. The default is `zenoh/bytes`.
///
/// As text `name` or `name;schema`. A name that is not predefined has the id [`Self::CUSTOM`], with the
/// whole name as schema. Any id and any schema of a peer can be stored and shown.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Encoding {
    /// The number of the predefined encoding; 65535 means that the schema is the whole name.
    pub id: u16,
    /// The schema; any bytes, at most 255. Most encodings have none, so it takes no more than a pointer.
    pub schema: Option<Box<Bytes>>,
}

impl Encoding {
    /// The default, id 0 without schema, which PUT and ERR elide.
    pub const DEFAULT: Self = Self { id: 0, schema: None };

    /// The id of encodings that are not predefined.
    pub const CUSTOM: u16 = 0xffff;

    /// Longest schema: its length travels as `z8`.
    pub const MAX_SCHEMA_LEN: usize = u8::MAX as usize;

    /// Whether this is the default, which PUT and ERR elide.
    #[must_use]
    pub fn is_default(&self) -> bool {
        self.id == 0 && self.schema.is_none()
    }

    /// Parses `name` or `name;schema`, without copying. The name is the part before the first `;`,
    /// exactly as in the table; the schema is kept verbatim. The empty text is the default.
    #[must_use]
    pub fn from_text(text: impl Into<Text>) -> Self {
        let text = text.into();
        if text.is_empty() {
            return Self::DEFAULT;
        }
        let (name, schema) = text.split_once(SEPARATOR).unwrap_or((&text, ""));
        match id_of(name) {
            Some(id) if schema.is_empty() => Self { id, schema: None },
            Some(id) => Self { id, schema: Some(Box::new(text.slice_ref(schema).into_bytes())) },
            None => Self { id: Self::CUSTOM, schema: Some(Box::new(text.into_bytes())) },
        }
    }

    /// The same encoding with another schema. In a custom encoding the part behind the first `;` is
    /// replaced.
    #[must_use]
    pub fn with_schema(self, schema: impl Into<Text>) -> Self {
        let schema = schema.into();
        if self.id != Self::CUSTOM {
            return Self { id: self.id, schema: Some(Box::new(schema.into_bytes())) };
        }
        let old = self.schema.map_or_else(Bytes::new, |schema| *schema);
        let separator = old.iter().position(|&byte| byte == SEPARATOR as u8);
        let name = old.slice(..separator.unwrap_or(old.len()));
        let schema = match (name.is_empty(), schema.is_empty()) {
            (true, _) => schema.into_bytes(),
            (false, true) => name,
            (false, false) => [&name, &b";"[..], schema.as_bytes()].concat().into(),
        };
        Self { id: Self::CUSTOM, schema: Some(Box::new(schema)) }
    }

    /// The predefined name of the id, if it has one.
    #[must_use]
    pub fn name(&self) -> Option<&'static str> {
        NAMES.get(usize::from(self.id)).copied()
    }
}

/// Separator between name and schema.
const SEPARATOR: char = ';';

/// Makes the constants, [`NAMES`] and [`id_of`] from one table. The ids count up from 0.
macro_rules! predefined {
    ($($constant:ident = $id:literal, $name:literal;)*) => {
        impl Encoding {
            $(
                #[doc = concat!("`", $name, "`, id ", $id, ".")]
                pub const $constant: Self = Self { id: $id, schema: None };
            )*

            /// All predefined encodings, by id.
            pub const PREDEFINED: &'static [Self] = &[$(Self::$constant),*];
        }

        const NAMES: &[&str] = &[$($name),*];

        fn id_of(name: &str) -> Option<u16> {
            match name {
                $($name => Some($id),)*
                _ => None,
            }
        }
    };
}

predefined! {
    ZENOH_BYTES = 0, "zenoh/bytes";
    ZENOH_STRING = 1, "zenoh/string";
    ZENOH_SERIALIZED = 2, "zenoh/serialized";
    APPLICATION_OCTET_STREAM = 3, "application/octet-stream";
    TEXT_PLAIN = 4, "text/plain";
    APPLICATION_JSON = 5, "application/json";
    TEXT_JSON = 6, "text/json";
    APPLICATION_CDR = 7, "application/cdr";
    APPLICATION_CBOR = 8, "application/cbor";
    APPLICATION_YAML = 9, "application/yaml";
    TEXT_YAML = 10, "text/yaml";
    TEXT_JSON5 = 11, "text/json5";
    APPLICATION_PYTHON_SERIALIZED_OBJECT = 12, "application/python-serialized-object";
    APPLICATION_PROTOBUF = 13, "application/protobuf";
    APPLICATION_JAVA_SERIALIZED_OBJECT = 14, "application/java-serialized-object";
    APPLICATION_OPENMETRICS_TEXT = 15, "application/openmetrics-text";
    IMAGE_PNG = 16, "image/png";
    IMAGE_JPEG = 17, "image/jpeg";
    IMAGE_GIF = 18, "image/gif";
    IMAGE_BMP = 19, "image/bmp";
    IMAGE_WEBP = 20, "image/webp";
    APPLICATION_XML = 21, "application/xml";
    APPLICATION_X_WWW_FORM_URLENCODED = 22, "application/x-www-form-urlencoded";
    TEXT_HTML = 23, "text/html";
    TEXT_XML = 24, "text/xml";
    TEXT_CSS = 25, "text/css";
    TEXT_JAVASCRIPT = 26, "text/javascript";
    TEXT_MARKDOWN = 27, "text/markdown";
    TEXT_CSV = 28, "text/csv";
    APPLICATION_SQL = 29, "application/sql";
    APPLICATION_COAP_PAYLOAD = 30, "application/coap-payload";
    APPLICATION_JSON_PATCH_JSON = 31, "application/json-patch+json";
    APPLICATION_JSON_SEQ = 32, "application/json-seq";
    APPLICATION_JSONPATH = 33, "application/jsonpath";
    APPLICATION_JWT = 34, "application/jwt";
    APPLICATION_MP4 = 35, "application/mp4";
    APPLICATION_SOAP_XML = 36, "application/soap+xml";
    APPLICATION_YANG = 37, "application/yang";
    AUDIO_AAC = 38, "audio/aac";
    AUDIO_FLAC = 39, "audio/flac";
    AUDIO_MP4 = 40, "audio/mp4";
    AUDIO_OGG = 41, "audio/ogg";
    AUDIO_VORBIS = 42, "audio/vorbis";
    VIDEO_H261 = 43, "video/h261";
    VIDEO_H263 = 44, "video/h263";
    VIDEO_H264 = 45, "video/h264";
    VIDEO_H265 = 46, "video/h265";
    VIDEO_H266 = 47, "video/h266";
    VIDEO_MP4 = 48, "video/mp4";
    VIDEO_OGG = 49, "video/ogg";
    VIDEO_RAW = 50, "video/raw";
    VIDEO_VP8 = 51, "video/vp8";
    VIDEO_VP9 = 52, "video/vp9";
}

impl From<&str> for Encoding {
    fn from(text: &str) -> Self {
        Self::from_text(text)
    }
}
impl From<String> for Encoding {
    fn from(text: String) -> Self {
        Self::from_text(text)
    }
}
impl FromStr for Encoding {
    type Err = Infallible;
    fn from_str(text: &str) -> Result<Self, Infallible> {
        Ok(Self::from_text(text))
    }
}
impl fmt::Display for Encoding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let schema = self.schema.as_deref().map(|schema| &schema[..]);
        let schema = schema.map(|schema| core::str::from_utf8(schema).unwrap_or("unknown(non-utf8)"));
        match (self.name(), schema) {
            (None, Some(schema)) if self.id == Self::CUSTOM => return f.write_str(schema),
            (Some(name), _) => f.write_str(name)?,
            (None, _) => write!(f, "unknown({})", self.id)?,
        }
        match schema {
            Some(schema) => write!(f, "{SEPARATOR}{schema}"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(id: u16, schema: &str) -> Encoding {
        Encoding { id, schema: Some(Box::new(Bytes::copy_from_slice(schema.as_bytes()))) }
    }

    #[test]
    fn the_table_is_dense_and_its_names_are_found() {
        assert_eq!(NAMES.len(), 53);
        for (id, (name, predefined)) in NAMES.iter().zip(Encoding::PREDEFINED).enumerate() {
            assert_eq!(usize::from(predefined.id), id);
            assert_eq!(&Encoding::from_text(*name), predefined);
            assert_eq!(predefined.to_string(), *name);
            assert_eq!(predefined.name(), Some(*name));
        }
        // Both ends and the middle, against the document.
        assert_eq!(Encoding::ZENOH_BYTES, Encoding::DEFAULT);
        assert_eq!(Encoding::TEXT_PLAIN.id, 4);
        assert_eq!(Encoding::TEXT_CSV.id, 28);
        assert_eq!(Encoding::APPLICATION_JSON_PATCH_JSON.to_string(), "application/json-patch+json");
        assert_eq!(Encoding::VIDEO_VP9.id, 52);
    }

    #[test]
    fn texts_of_the_reference() {
        // Text, encoding, text again, text with schema `q`, text with an empty schema.
        for (text, encoding, shown, with_schema, with_empty) in [
            ("", Encoding::DEFAULT, "zenoh/bytes", "zenoh/bytes;q", "zenoh/bytes;"),
            ("text/plain", Encoding::TEXT_PLAIN, "text/plain", "text/plain;q", "text/plain;"),
            ("text/plain;", Encoding::TEXT_PLAIN, "text/plain", "text/plain;q", "text/plain;"),
            ("text/plain;utf8", of(4, "utf8"), "text/plain;utf8", "text/plain;q", "text/plain;"),
            ("text/plain;;x", of(4, ";x"), "text/plain;;x", "text/plain;q", "text/plain;"),
            ("text/plain; x", of(4, " x"), "text/plain; x", "text/plain;q", "text/plain;"),
            ("zenoh/bytes;x", of(0, "x"), "zenoh/bytes;x", "zenoh/bytes;q", "zenoh/bytes;"),
            ("TEXT/plain", of(0xffff, "TEXT/plain"), "TEXT/plain", "TEXT/plain;q", "TEXT/plain"),
            ("foo;bar", of(0xffff, "foo;bar"), "foo;bar", "foo;q", "foo"),
            ("foo", of(0xffff, "foo"), "foo", "foo;q", "foo"),
            (";x", of(0xffff, ";x"), ";x", "q", ""),
        ] {
            assert_eq!(Encoding::from_text(text), encoding, "{text}");
            assert_eq!(encoding.to_string(), shown);
            assert_eq!(encoding.clone().with_schema("q").to_string(), with_schema);
            assert_eq!(encoding.with_schema("").to_string(), with_empty);
        }
    }

    #[test]
    fn what_peers_may_send_can_be_shown() {
        let unreadable = Some(Box::new(Bytes::from_static(b"\xff")));
        for (encoding, shown) in [
            (Encoding { id: 4464, schema: None }, "unknown(4464)"),
            (of(4464, "x"), "unknown(4464);x"),
            (Encoding { id: 65535, schema: None }, "unknown(65535)"),
            (Encoding { id: 4, schema: unreadable.clone() }, "text/plain;unknown(non-utf8)"),
            (Encoding { id: 65535, schema: unreadable }, "unknown(non-utf8)"),
        ] {
            assert_eq!(encoding.to_string(), shown);
        }
    }

    #[test]
    fn a_schema_shares_the_memory_of_the_text() {
        let text = Text::from("text/plain;a-schema-that-is-too-long-for-a-place");
        let schema = Encoding::from_text(text.clone()).schema.unwrap();
        assert_eq!(schema.as_ptr(), text[11..].as_ptr());
    }
}
