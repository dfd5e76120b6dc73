//! Samples as JSON and HTML, in the form of the reference.

use data_encoding::BASE64;
use serde_json::Value;
use zwire_proto::zenoh::{
    Encoding, Timestamp,
    session::{Reply, Sample},
};

/// Key of an entry for an error reply.
const ERROR: &str = "ERROR";

/// Form of an answer to a query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    Json,
    Html,
}

impl Form {
    pub(crate) const fn content_type(self) -> &'static str {
        match self {
            Self::Json => "application/json",
            Self::Html => "text/html; charset=utf-8",
        }
    }
}

/// List of samples that is being written.
pub(crate) struct Page {
    form: Form,
    empty: bool,
    text: Vec<u8>,
}

impl Page {
    pub(crate) fn new(form: Form) -> Self {
        let text = match form {
            Form::Json => &b"["[..],
            Form::Html => b"<dl>\n",
        };
        Self { form, empty: true, text: text.to_vec() }
    }

    pub(crate) fn len(&self) -> usize {
        self.text.len()
    }

    /// Adds a reply.
    pub(crate) fn add(&mut self, reply: &Reply) {
        let (key, payload, encoding, timestamp) = match &reply.result {
            Ok(sample) => (sample.key.as_str(), &sample.payload, &sample.encoding, sample.timestamp.as_ref()),
            Err(error) => (ERROR, &error.payload, &error.encoding, None),
        };
        match self.form {
            Form::Json => {
                if !self.empty {
                    self.text.push(b',');
                }
                write_json(&mut self.text, key, payload, encoding, timestamp);
            }
            Form::Html => {
                self.text.extend_from_slice(b"<dt>");
                escape(&mut self.text, key);
                self.text.extend_from_slice(b"</dt>\n<dd>");
                escape(&mut self.text, &String::from_utf8_lossy(payload));
                self.text.extend_from_slice(b"</dd>\n");
            }
        }
        self.empty = false;
    }

    /// Takes what was written.
    pub(crate) fn take(&mut self) -> Vec<u8> {
        core::mem::take(&mut self.text)
    }

    /// Ends the list, and takes the rest of it.
    pub(crate) fn finish(mut self) -> Vec<u8> {
        self.text.extend_from_slice(match self.form {
            Form::Json => &b"]"[..],
            Form::Html => b"</dl>\n",
        });
        self.text
    }
}

/// A sample as a JSON object.
pub(crate) fn json_of(sample: &Sample) -> Vec<u8> {
    let mut text = Vec::new();
    write_json(&mut text, sample.key.as_str(), &sample.payload, &sample.encoding, sample.timestamp.as_ref());
    text
}

fn write_json(
    out: &mut Vec<u8>,
    key: &str,
    payload: &[u8],
    encoding: &Encoding,
    timestamp: Option<&Timestamp>,
) {
    out.extend_from_slice(b"{\"key\":");
    write(out, key);
    out.extend_from_slice(b",\"value\":");
    write_value(out, payload, encoding);
    out.extend_from_slice(b",\"encoding\":");
    write(out, &encoding.to_string());
    out.extend_from_slice(b",\"timestamp\":");
    match timestamp {
        Some(timestamp) => write(out, &timestamp.exact().to_string()),
        None => out.extend_from_slice(b"null"),
    }
    out.push(b'}');
}

/// Encodings decide exactly, with their schema: one that is not listed is base64.
fn write_value(out: &mut Vec<u8>, payload: &[u8], encoding: &Encoding) {
    const JSON: [Encoding; 3] = [Encoding::APPLICATION_JSON, Encoding::TEXT_JSON, Encoding::TEXT_JSON5];
    const TEXT: [Encoding; 2] = [Encoding::TEXT_PLAIN, Encoding::ZENOH_STRING];
    if payload.is_empty() {
        out.extend_from_slice(b"null");
    } else if JSON.contains(encoding)
        && let Ok(value) = serde_json::from_slice::<Value>(payload)
    {
        // Writing to memory does not fail.
        let _ = serde_json::to_writer(out, &value);
    } else if TEXT.contains(encoding)
        && let Ok(text) = core::str::from_utf8(payload)
    {
        write(out, text);
    } else {
        out.push(b'"');
        out.extend_from_slice(BASE64.encode(payload).as_bytes());
        out.push(b'"');
    }
}

/// Writes a JSON string.
fn write(out: &mut Vec<u8>, text: &str) {
    // Writing to memory does not fail.
    let _ = serde_json::to_writer(out, text);
}

/// Writes text so that no part of it is markup. The reference does not escape.
fn escape(out: &mut Vec<u8>, text: &str) {
    for octet in text.bytes() {
        match octet {
            b'&' => out.extend_from_slice(b"&amp;"),
            b'<' => out.extend_from_slice(b"&lt;"),
            b'>' => out.extend_from_slice(b"&gt;"),
            b'"' => out.extend_from_slice(b"&quot;"),
            b'\'' => out.extend_from_slice(b"&#39;"),
            other => out.push(other),
        }
    }
}

/// Media type of an encoding, and its content encoding, for an answer with one value: a parameter
/// `content-encoding` belongs into the header of that name. `None`: the encoding is no media type.
pub(crate) fn media_type(encoding: &Encoding) -> Option<(String, Option<String>)> {
    let text = encoding.to_string();
    let mut parts = text.split(';');
    let kind = parts.next()?.trim();
    let is_token = |text: &str| !text.is_empty() && text.bytes().all(is_token_octet);
    if !kind.split_once('/').is_some_and(|(kind, subtype)| is_token(kind) && is_token(subtype)) {
        return None;
    }
    let (mut media, mut packed) = (kind.to_owned(), None);
    for part in parts {
        let (name, value) = part.trim().split_once('=')?;
        let value = value.trim();
        if !is_token(name.trim_end())
            || value.is_empty()
            || !value.bytes().all(|octet| (b' '..=b'~').contains(&octet))
        {
            return None;
        }
        if name.trim_end().eq_ignore_ascii_case("content-encoding") {
            packed = Some(value.to_owned());
        } else {
            media.push_str("; ");
            media.push_str(part.trim());
        }
    }
    Some(if packed.is_some() { (media, packed) } else { (text, None) })
}

const fn is_token_octet(octet: u8) -> bool {
    octet.is_ascii_alphanumeric()
        || matches!(
            octet,
            b'!' | b'#'
                | b'$'
                | b'&'
                | b'-'
                | b'^'
                | b'_'
                | b'.'
                | b'+'
                | b'*'
                | b'\''
                | b'%'
                | b'`'
                | b'|'
                | b'~'
        )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(payload: &[u8], encoding: &str) -> String {
        let mut out = Vec::new();
        write_value(&mut out, payload, &Encoding::from_text(encoding.to_owned()));
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn values_are_those_of_the_reference() {
        for (payload, encoding, expected) in [
            (&b""[..], "application/json", "null"),
            (b"{\"b\": 1, \"a\": [1.0, null]}", "application/json", "{\"b\":1,\"a\":[1.0,null]}"),
            (b"[1]", "text/json", "[1]"),
            (b"[1]", "text/json5", "[1]"),
            (b"{a: 1}", "text/json5", "\"e2E6IDF9\""),
            (b"{", "application/json", "\"ew==\""),
            (b"[1]", "application/json;charset=utf-8", "\"WzFd\""),
            (b"h\"i\n", "text/plain", "\"h\\\"i\\n\""),
            (b"hi", "zenoh/string", "\"hi\""),
            (b"hi", "text/plain;charset=UTF-8", "\"aGk=\""),
            (b"\xff", "text/plain", "\"/w==\""),
            (b"hi", "zenoh/bytes", "\"aGk=\""),
            (b"hi", "", "\"aGk=\""),
            (b"a=1", "application/x-www-form-urlencoded", "\"YT0x\""),
        ] {
            assert_eq!(value(payload, encoding), expected, "{encoding}");
        }
    }

    #[test]
    fn depth_of_json_is_bounded() {
        let deep = [vec![b'['; 100_000], vec![b']'; 100_000]].concat();
        assert!(value(&deep, "application/json").starts_with("\"W1tb"));
    }

    #[test]
    fn objects_have_the_order_of_the_reference() {
        let mut out = Vec::new();
        let timestamp = "7386664595088445305/33".parse::<Timestamp>().unwrap();
        write_json(&mut out, "a/b", b"1", &Encoding::TEXT_PLAIN, Some(&timestamp));
        let expected =
            r#"{"key":"a/b","value":"1","encoding":"text/plain","timestamp":"7386664595088445305/33"}"#;
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }

    #[test]
    fn content_encodings_leave_the_media_type() {
        for (encoding, expected) in [
            ("text/plain", Some(("text/plain", None))),
            ("text/plain;charset=utf-8", Some(("text/plain;charset=utf-8", None))),
            ("zenoh/bytes", Some(("zenoh/bytes", None))),
            ("a/b;content-encoding=gzip", Some(("a/b", Some("gzip")))),
            ("a/b;x=1;content-encoding=gzip", Some(("a/b; x=1", Some("gzip")))),
            (
                "application/openmetrics-text; version=1.0.0; charset=utf-8;content-encoding=gzip",
                Some(("application/openmetrics-text; version=1.0.0; charset=utf-8", Some("gzip"))),
            ),
            ("foo", None),
            ("a/b;schema", None),
            ("a/b;x=1\r\nSet-Cookie: y", None),
            ("a /b", None),
        ] {
            let found = media_type(&Encoding::from_text(encoding.to_owned()));
            let expected = expected.map(|(media, packed)| (media.to_owned(), packed.map(str::to_owned)));
            assert_eq!(found, expected, "{encoding}");
        }
    }

    #[test]
    fn html_has_no_markup_of_a_payload() {
        let mut page = Page::new(Form::Html);
        let error = zwire_proto::zenoh::session::ReplyError {
            payload: (&b"<script>alert('&')</script>\xff"[..]).into(),
            ..Default::default()
        };
        page.add(&Reply { result: Err(error), replier: None });
        assert_eq!(
            String::from_utf8(page.finish()).unwrap(),
            "<dl>\n<dt>ERROR</dt>\n<dd>&lt;script&gt;alert(&#39;&amp;&#39;)&lt;/script&gt;\u{fffd}</dd>\n</dl>\n"
        );
    }
}
