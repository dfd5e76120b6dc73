//! [`Filter`]: the log level of each layer, in the syntax of `RUST_LOG`.
//!
//! A list of directives `target=level`, `target`, or `level`: `zenoh::net=debug,info`. The directive with
//! the longest target that matches a name of the layer wins, then the later one; a bare level applies to
//! layers that no other directive names. Directives for spans match nothing, because there are none.

use super::Layer;
use core::fmt;
use tracing::level_filters::LevelFilter;

/// Levels by layer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter(Vec<(String, LevelFilter)>);

/// Text that is not a valid directive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FilterError(String);

impl fmt::Display for FilterError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` is no directive such as `info` or `zwire::zenoh=debug`", self.0)
    }
}

impl core::error::Error for FilterError {}

impl Filter {
    /// Parses directives; invalid ones are skipped and returned as errors.
    #[must_use]
    pub fn parse(text: &str) -> (Self, Vec<FilterError>) {
        let mut filter = Self::default();
        let mut wrong = Vec::new();
        for word in text.split(',').map(str::trim).filter(|word| !word.is_empty()) {
            match directive(word) {
                Some(Some(directive)) => filter.0.push(directive),
                Some(None) => {}
                None => wrong.push(FilterError(word.to_owned())),
            }
        }
        (filter, wrong)
    }

    /// Sets a level for all layers if the filter has no directive.
    #[must_use]
    pub fn or_all(mut self, level: LevelFilter) -> Self {
        if self.0.is_empty() {
            self.0.push((String::new(), level));
        }
        self
    }

    /// The level of a layer.
    #[must_use]
    pub fn level(&self, layer: Layer) -> LevelFilter {
        let matches = |target: &str| {
            // `zwire::zenoh` selects all layers of Zenoh, and `zwire`, the Python package, all layers.
            layer.names().iter().any(|name| name.starts_with(target) || target.starts_with(name))
        };
        let found = self.0.iter().filter(|(target, _)| matches(target));
        // The last of the directives with the longest target.
        found.max_by_key(|(target, _)| target.len()).map_or(LevelFilter::OFF, |(_, level)| *level)
    }

    /// The levels of all layers.
    #[must_use]
    pub fn levels(&self) -> [LevelFilter; Layer::COUNT] {
        Layer::ALL.map(|layer| self.level(layer))
    }
}

/// Parses one directive, also with dots, as in Python; the inner `None` stands for a span directive.
#[allow(clippy::option_option, reason = "no directive, one that never matches, one")]
fn directive(word: &str) -> Option<Option<(String, LevelFilter)>> {
    if word.contains(['[', ']', '{', '}']) {
        let whole = word.matches('[').count() == 1 && word.matches(']').count() == 1;
        return whole.then_some(None);
    }
    if let Some(level) = level(word) {
        return Some(Some((String::new(), level)));
    }
    let (target, level) = match word.split_once('=') {
        Some((target, level)) => (target.trim(), self::level(level.trim())?),
        None => (word, LevelFilter::TRACE),
    };
    let legal = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | ':' | '-' | '.');
    if target.is_empty() || !target.chars().all(legal) {
        return None;
    }
    Some(Some((target.replace('.', "::"), level)))
}

/// A level by its name, in any case, or its number.
fn level(word: &str) -> Option<LevelFilter> {
    if word.is_empty() { None } else { word.parse().ok() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn levels(text: &str) -> [LevelFilter; Layer::COUNT] {
        let (filter, wrong) = Filter::parse(text);
        assert_eq!(wrong, [], "{text}");
        filter.levels()
    }

    #[test]
    fn a_level_is_for_all() {
        for (text, level) in [
            ("info", LevelFilter::INFO),
            ("WARN", LevelFilter::WARN),
            ("off", LevelFilter::OFF),
            ("5", LevelFilter::TRACE),
            (" debug , ", LevelFilter::DEBUG),
            ("info,debug", LevelFilter::DEBUG),
            ("", LevelFilter::OFF),
        ] {
            assert_eq!(levels(text), [level; Layer::COUNT], "{text}");
        }
    }

    #[test]
    fn a_target_is_for_what_begins_with_it() {
        let at = |text: &str, layer: Layer| levels(text)[layer as usize];
        assert_eq!(at("zwire::zenoh=debug,info", Layer::Link), LevelFilter::DEBUG);
        assert_eq!(at("zwire::zenoh=debug,info", Layer::Zre), LevelFilter::INFO);
        assert_eq!(at("info,zwire.zenoh=debug", Layer::Link), LevelFilter::DEBUG);
        assert_eq!(at("zwire", Layer::Zmtp), LevelFilter::TRACE);
        assert_eq!(at("zwire=warn,zwire::zre=off", Layer::Zre), LevelFilter::OFF);
        assert_eq!(at("zwire=warn,zwire::zre=off", Layer::Link), LevelFilter::WARN);
        assert_eq!(at("zwire::zenoh::link=debug,zwire::zenoh::link=error", Layer::Link), LevelFilter::ERROR);
        assert_eq!(at("hyper=debug", Layer::Link), LevelFilter::OFF);
        assert_eq!(at("info,hyper=debug", Layer::Link), LevelFilter::INFO);
    }

    #[test]
    fn targets_of_the_reference_mean_the_same_things() {
        let at = |text: &str, layer: Layer| levels(text)[layer as usize];
        for layer in [Layer::Link, Layer::Session, Layer::Routing, Layer::Scouting, Layer::Queue] {
            assert_eq!(at("zenoh=debug", layer), LevelFilter::DEBUG, "{layer:?}");
        }
        assert_eq!(at("zenoh=debug", Layer::Zre), LevelFilter::OFF);
        assert_eq!(at("zenoh::net=debug,info", Layer::Routing), LevelFilter::DEBUG);
        assert_eq!(at("zenoh::net=debug,info", Layer::Session), LevelFilter::INFO);
        assert_eq!(at("zenoh::net::routing::hat::client=debug,info", Layer::Routing), LevelFilter::DEBUG);
        assert_eq!(at("zenoh_transport=trace,zenoh_link_tcp=debug", Layer::Link), LevelFilter::TRACE);
        assert_eq!(at("zenoh_transport=trace", Layer::Session), LevelFilter::OFF);
    }

    #[test]
    fn what_is_no_directive_is_said_and_left_out() {
        for text in ["zenoh=loud", "=info", "a b=info", "zenoh=", "zenoh=debug=info", "a[b=info"] {
            let (filter, wrong) = Filter::parse(&format!("{text},warn"));
            assert_eq!(wrong, [FilterError(text.to_owned())]);
            assert_eq!(filter.level(Layer::Link), LevelFilter::WARN);
        }
        assert_eq!(levels("zenoh[connect{peer=x}]=debug,warn"), [LevelFilter::WARN; Layer::COUNT]);
        let (nothing, _) = Filter::parse("zenoh=loud");
        assert_eq!(nothing.or_all(LevelFilter::ERROR).level(Layer::Zre), LevelFilter::ERROR);
    }
}
