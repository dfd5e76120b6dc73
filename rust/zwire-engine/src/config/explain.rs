//! Explanation of access control: which rule decides about a message.

use super::{Config, ConfigError, error::Result, intercept, reader::TreeReader, values};
use serde_json::{Value, json};
use zwire_proto::zenoh::{
    KeyExpr,
    intercept::{Flow, LinkFacts, MessageKind},
};

/// Message of a link that access control decides about.
#[derive(Clone, Debug)]
pub struct AccessQuestion<'a> {
    /// The link.
    pub link: LinkFacts<'a>,
    /// Direction of the message.
    pub flow: Flow,
    /// Kind of message.
    pub message: MessageKind,
    /// Its key.
    pub key: KeyExpr,
}

/// Decision about a message, with the rule that made it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccessVerdict {
    /// Whether the message passes.
    pub allowed: bool,
    /// Id of the rule that decides; `None`: the default permission, or access control is off.
    pub rule: Option<String>,
    /// Number of the policy that gives the rule to the link.
    pub policy: Option<usize>,
    /// Id of the subject of that policy that the link is.
    pub subject: Option<String>,
    /// Description of the decision.
    pub reason: String,
    /// Ids of rules that concern the key and the message, but not this link or not this direction.
    pub others: Vec<String>,
}

impl AccessVerdict {
    /// The verdict as JSON.
    #[must_use]
    pub fn to_json(&self) -> Value {
        json!({
            "allowed": self.allowed, "rule": self.rule, "policy": self.policy, "subject": self.subject,
            "reason": self.reason, "others": self.others,
        })
    }
}

/// Decides about a message as a link with the rules of a configuration does.
///
/// # Errors
/// The rules are not valid.
pub fn explain(config: &Config, question: &AccessQuestion<'_>) -> Result<AccessVerdict> {
    let tree = TreeReader { config, mode: config.mode() };
    let mut verdict = AccessVerdict {
        allowed: true,
        rule: None,
        policy: None,
        subject: None,
        reason: "access_control/enabled is false: every message passes".to_owned(),
        others: Vec::new(),
    };
    if !tree.get::<bool>("access_control/enabled")? {
        return Ok(verdict);
    }
    let default_allow = tree.value("access_control/default_permission") == "allow";
    let access = intercept::access_control(default_allow, |path| tree.value(path))?;
    let id = |list: &'static str, number: usize| {
        let name = tree
            .value(list)
            .get(number)
            .and_then(|entry| entry.get("id"))
            .and_then(Value::as_str)
            .map(str::to_owned);
        name.unwrap_or_default()
    };
    let concerns = |number: &usize| {
        let rule = &access.rules[*number];
        rule.applies(question.message, Some(&question.key))
    };
    let mut decisive: Option<(bool, usize, usize, usize)> = None;
    for (policy_number, policy) in access.policies.iter().enumerate() {
        let Some(subject) = policy.subjects.iter().position(|subject| subject.contain(&question.link)) else {
            continue;
        };
        for number in policy.rules.iter().filter(|number| concerns(number)) {
            let rule = &access.rules[*number];
            if !rule.flows.contains(question.flow) {
                continue;
            }
            // A denial decides before all; of several rules the first is named.
            if decisive.is_none_or(|(allow, ..)| allow && !rule.allow) {
                decisive = Some((rule.allow, *number, policy_number, subject));
            }
        }
    }
    let decided = decisive.map(|(_, number, ..)| number);
    let others = (0..access.rules.len()).filter(|number| Some(*number) != decided && concerns(number));
    verdict.others = others.map(|number| id("access_control/rules", number)).collect();
    match decisive {
        Some((allow, number, policy, subject)) => {
            let rule = id("access_control/rules", number);
            let word = if allow { "allows" } else { "denies" };
            verdict.allowed = allow;
            verdict.reason = format!("rule {rule} {word} {} of {}", question.message.name(), question.key);
            verdict.rule = Some(rule);
            verdict.policy = Some(policy);
            verdict.subject = subject_name(&tree, policy, subject);
        }
        None => {
            verdict.allowed = default_allow;
            let word = if default_allow { "allow" } else { "deny" };
            verdict.reason =
                format!("no rule for this link applies, and access_control/default_permission is {word}");
        }
    }
    Ok(verdict)
}

fn subject_name(tree: &TreeReader<'_>, policy: usize, subject: usize) -> Option<String> {
    let policies = tree.value("access_control/policies");
    Some(policies.get(policy)?.get("subjects")?.get(subject)?.as_str()?.to_owned())
}

impl<'a> AccessQuestion<'a> {
    /// A question about a message of a kind, in a direction, with a key.
    ///
    /// # Errors
    /// One of the words is unknown, or the key is none.
    pub fn new(link: LinkFacts<'a>, message: &str, flow: &str, key: &str) -> Result<Self> {
        let names = MessageKind::ALL.map(MessageKind::name);
        let kind = MessageKind::ALL.into_iter().find(|kind| kind.name() == message);
        let wrong = |what: &str, words: &[&str], got: &str| {
            ConfigError::value(what, format!("one of \"{}\"", words.join("\", \"")), got)
        };
        let flow_of = match flow {
            "ingress" => Flow::Ingress,
            "egress" => Flow::Egress,
            _ => return Err(wrong("flow", &["ingress", "egress"], flow)),
        };
        Ok(Self {
            link,
            flow: flow_of,
            message: kind.ok_or_else(|| wrong("message", &names, message))?,
            key: values::key_expr("key", &Value::from(key), false)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OPEN: LinkFacts<'_> =
        LinkFacts { zid: None, interfaces: &[], protocol: "tcp", common_name: None, username: None };

    fn config() -> Config {
        let text = r#"{access_control: {enabled: true, default_permission: "deny", rules: [
            {id: "fleet", permission: "allow", messages: ["put"], key_exprs: ["fleet/**"]},
            {id: "secret", permission: "deny", messages: ["put"], flows: ["ingress"], key_exprs: ["fleet/secret/**"]},
            {id: "other", permission: "allow", messages: ["put"], key_exprs: ["**"]}],
            subjects: [{id: "robots", usernames: ["ann", "bob"]}, {id: "desks", usernames: ["eve"]}],
            policies: [{rules: ["fleet", "secret"], subjects: ["robots"]}, {rules: ["other"], subjects: ["desks"]}]}}"#;
        Config::from_json5(text).unwrap()
    }

    fn asked(user: &'static str, flow: &str, key: &str) -> AccessVerdict {
        let link = LinkFacts { username: Some(user), ..OPEN };
        explain(&config(), &AccessQuestion::new(link, "put", flow, key).unwrap()).unwrap()
    }

    #[test]
    fn the_rule_that_decides_is_named() {
        let verdict = asked("ann", "ingress", "fleet/7");
        assert_eq!(
            (verdict.allowed, verdict.rule.as_deref(), verdict.policy),
            (true, Some("fleet"), Some(0))
        );
        assert_eq!((verdict.subject.as_deref(), verdict.others), (Some("robots"), vec!["other".to_owned()]));
        let verdict = asked("bob", "ingress", "fleet/secret/x");
        assert_eq!((verdict.allowed, verdict.rule.as_deref()), (false, Some("secret")));
        assert!(asked("bob", "egress", "fleet/secret/x").allowed);
        assert_eq!(asked("eve", "ingress", "any").rule.as_deref(), Some("other"));
        let verdict = asked("mallory", "ingress", "fleet/7");
        assert_eq!((verdict.allowed, verdict.rule), (false, None));
        assert!(verdict.reason.contains("default_permission is deny"), "{}", verdict.reason);
    }

    #[test]
    fn the_verdict_is_that_of_the_interceptor() {
        use zwire_proto::zenoh::intercept::Interceptor;
        let policy = config().resolve().unwrap().intercept;
        for user in ["ann", "eve", "mallory"] {
            let link = LinkFacts { username: Some(user), ..OPEN };
            let rules = Interceptor::new(&policy, &link).unwrap();
            for (flow, name) in [(Flow::Ingress, "ingress"), (Flow::Egress, "egress")] {
                for key in ["fleet/7", "fleet/**", "fleet/secret/x", "**", "other"] {
                    let verdict = asked(user, name, key).allowed;
                    let key = KeyExpr::new(key.to_owned()).unwrap();
                    assert_eq!(
                        verdict,
                        rules.permits(flow, MessageKind::Put, Some(&key)),
                        "{user} {name} {key}"
                    );
                }
            }
        }
    }

    #[test]
    fn a_word_that_is_unknown_is_refused() {
        let wrong =
            |message, flow, key| AccessQuestion::new(OPEN, message, flow, key).unwrap_err().to_string();
        assert!(wrong("puts", "ingress", "a").contains("\"put\""));
        assert!(wrong("put", "both", "a").contains("egress"));
        assert!(wrong("put", "ingress", "a//b").contains("key"));
        let off =
            explain(&Config::default(), &AccessQuestion::new(OPEN, "put", "egress", "a").unwrap()).unwrap();
        assert!(off.allowed && off.rule.is_none());
    }
}
