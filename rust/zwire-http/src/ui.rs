//! The live page: files that are served without a user, as they hold no data. What the page shows comes by a WebSocket.

use crate::{
    body::{Body, packed},
    options::{Options, UiAccess},
};
use hyper::{
    HeaderMap, Response,
    header::{
        CACHE_CONTROL, CONTENT_SECURITY_POLICY, HeaderName, HeaderValue, REFERRER_POLICY,
        X_CONTENT_TYPE_OPTIONS,
    },
};

const HTML: &str = "text/html; charset=utf-8";
const CSS: &str = "text/css; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";

/// Files by their paths, with their media types.
const FILES: [(&str, &str, &str); 10] = [
    ("/", HTML, include_str!("../ui/index.html")),
    ("/ui/page.css", CSS, include_str!("../ui/page.css")),
    ("/ui/icon.svg", "image/svg+xml", include_str!("../ui/icon.svg")),
    ("/ui/main.js", SCRIPT, include_str!("../ui/main.js")),
    ("/ui/format.js", SCRIPT, include_str!("../ui/format.js")),
    ("/ui/keys.js", SCRIPT, include_str!("../ui/keys.js")),
    ("/ui/tree.js", SCRIPT, include_str!("../ui/tree.js")),
    ("/ui/value.js", SCRIPT, include_str!("../ui/value.js")),
    ("/ui/network.js", SCRIPT, include_str!("../ui/network.js")),
    ("/ui/graph.js", SCRIPT, include_str!("../ui/graph.js")),
];

/// Part of the page that tells its scripts what they may do.
const READS: &str = "data-access=\"read\"";
const WRITES: &str = "data-access=\"write\"";

/// Policy by which a browser loads nothing from elsewhere, sends nothing elsewhere, and runs no script of a value.
/// Images of values are `blob:`.
const POLICY: &str = "default-src 'self'; connect-src 'self'; img-src 'self' blob:; object-src 'none'; \
                      base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// Answers with a file of the page. `None`: there is none at this path, or no page.
pub(crate) fn file(options: &Options, path: &str, gzip: bool) -> Option<Response<Body>> {
    let access = options.ui?;
    let (_, media, content) = FILES.iter().find(|(known, ..)| *known == path)?;
    let content = if *media == HTML && access == UiAccess::Write {
        content.replace(READS, WRITES).into_bytes()
    } else {
        content.as_bytes().to_vec()
    };
    let mut response = packed(gzip, media, content);
    guard(response.headers_mut());
    Some(response)
}

fn guard(out: &mut HeaderMap) {
    for (name, value) in [
        (CONTENT_SECURITY_POLICY, POLICY),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (REFERRER_POLICY, "no-referrer"),
        (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
        // Scripts of another release would not fit.
        (CACHE_CONTROL, "no-cache"),
    ] {
        out.insert(name, HeaderValue::from_static(value));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_names_all_its_files_and_what_it_may_do() {
        let (_, _, html) = FILES[0];
        assert_eq!(html.matches(READS).count(), 1);
        let all: String = FILES.iter().map(|(_, _, content)| *content).collect();
        for (path, ..) in &FILES[1..] {
            let name = path.strip_prefix("/ui/").unwrap();
            let imported = all.contains(&format!("\"./{name}\"")) || html.contains(&format!("\"{path}\""));
            assert!(imported, "{path}");
        }
    }

    #[test]
    fn the_page_makes_no_markup_of_data() {
        for (path, media, content) in FILES {
            for part in [
                "innerHTML",
                "outerHTML",
                "insertAdjacentHTML",
                "document.write",
                "eval(",
                "http://",
                "https://",
            ] {
                let part_of_svg = media == "image/svg+xml" && part == "http://";
                assert!(part_of_svg || !content.contains(part), "{path}: {part}");
            }
            assert!(
                media != HTML || !content.contains("style="),
                "{path}: the policy refuses style attributes"
            );
        }
    }
}
