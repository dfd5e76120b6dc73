//! Fuzz body of the policy of a link.

use crate::{
    Now,
    buf::Reader,
    zenoh::{
        KeyExpr, Reliability, ZenohId,
        intercept::{
            AccessControl, AccessPolicy, AccessRule, Downsampling, Egress, Filter, Flows, Interceptor,
            LinkFacts, Links, LowPass, MessageKind, Policy, Rate, RuleMatch, refusal,
        },
        wire::{NetworkMessage, Push, PushBody, Put, WireExpr},
    },
};
use bytes::Bytes;
use core::time::Duration;

fn control(default_allow: bool, rules: Vec<(bool, &'static str)>) -> AccessControl {
    let rules: Vec<_> = rules
        .into_iter()
        .map(|(allow, key)| AccessRule {
            allow,
            flows: Flows::default(),
            messages: MessageKind::ALL.into_iter().collect(),
            keys: vec![KeyExpr::new(key).expect("canonical")],
            relation: RuleMatch::default(),
        })
        .collect();
    let all = AccessPolicy { rules: (0..rules.len()).collect(), subjects: vec![Links::default()] };
    AccessControl { default_allow, asks: false, rules, policies: vec![all] }
}

/// Keys of up to three chunks of a small alphabet: all that [`allows`] compares.
fn all_keys() -> Vec<String> {
    const CHUNKS: [&str; 5] = ["a", "b", "ab", "secret", "@x"];
    let mut all: Vec<String> = CHUNKS.iter().map(|chunk| (*chunk).to_owned()).collect();
    for _ in 0..2 {
        let longer: Vec<String> =
            all.iter().flat_map(|key| CHUNKS.iter().map(move |chunk| format!("{key}/{chunk}"))).collect();
        all.extend(longer);
        all.sort_unstable();
        all.dedup();
    }
    all
}

/// Compares the decision about a message with a model that looks at each key that it reaches: with rules that
/// deny by intersection, none that is allowed reaches a key that a rule denies.
fn allows(of: &mut Interceptor, key: &KeyExpr, denied: &[KeyExpr]) {
    let message = NetworkMessage::Push(Push::new(
        WireExpr::full(key.as_str().to_owned()),
        PushBody::Put(Put::new(Vec::new())),
    ));
    let allowed = of.ingress(Now::default(), &mut message.clone(), Reliability::Reliable);
    let reached = all_keys().into_iter().filter_map(|text| KeyExpr::new(text).ok());
    let touched =
        reached.into_iter().find(|one| key.intersects(one) && denied.iter().any(|rule| rule.intersects(one)));
    assert!(!(allowed && touched.is_some()), "{key} reaches {touched:?}, which a rule denies");
}

/// Runs the bytes as two rules that deny and a key, each a key expression.
pub fn access(script: &[u8]) {
    let mut parts = script.splitn(3, |byte| *byte == 0).filter_map(|part| {
        let text = core::str::from_utf8(part).ok().filter(|text| text.len() <= 24)?;
        KeyExpr::new(text.to_owned()).ok()
    });
    let (Some(first), Some(second), Some(key)) = (parts.next(), parts.next(), parts.next()) else { return };
    let denied = vec![first, second];
    let rule = AccessRule {
        allow: false,
        flows: Flows::default(),
        messages: MessageKind::ALL.into_iter().collect(),
        keys: denied.clone(),
        relation: RuleMatch::Intersection,
    };
    let all = AccessPolicy { rules: vec![0], subjects: vec![Links::default()] };
    let control = AccessControl { default_allow: true, asks: false, rules: vec![rule], policies: vec![all] };
    let policy = Policy { access_control: Some(control), ..Policy::default() };
    allows(&mut interceptor(&policy), &key, &denied);
}

fn interceptor(policy: &Policy) -> Interceptor {
    let link = LinkFacts {
        zid: ZenohId::new(1),
        interfaces: &[],
        protocol: "tcp",
        common_name: None,
        username: None,
    };
    Interceptor::new(policy, &link).expect("the policy is about every link")
}

/// Runs the bytes as a script: each piece begins with an operation and the length of a network message.
pub fn intercept(script: &[u8]) {
    let script = Bytes::copy_from_slice(script);
    let closed = Policy { access_control: Some(control(false, vec![])), ..Policy::default() };
    let some = control(false, vec![(true, "**"), (false, "a/**"), (true, "@adv/**"), (false, "**/b/$*c")]);
    let some = Policy { access_control: Some(some), ..Policy::default() };
    let filter = Filter { messages: MessageKind::ALL.into_iter().collect(), ..Filter::default() };
    let key = |text| KeyExpr::new(text).expect("canonical");
    let limits = Policy {
        downsampling: vec![Downsampling {
            filter: filter.clone(),
            rates: vec![Rate { key: key("**"), period: Some(Duration::from_millis(700)) }],
        }],
        low_pass: vec![LowPass { filter, keys: vec![key("**")], size_limit: 8 }],
        ..Policy::default()
    };
    let (mut closed, mut some, mut limits) = (interceptor(&closed), interceptor(&some), interceptor(&limits));
    let (mut at, mut now) = (0, Duration::ZERO);
    while let [what, len, rest @ ..] = &script[at..] {
        let len = rest.len().min(usize::from(*len));
        let bytes = script.slice(at + 2..at + 2 + len);
        at += 2 + len;
        now += Duration::from_millis(u64::from(what >> 1));
        let Ok(message) = NetworkMessage::decode(&mut Reader::new(&bytes)) else { continue };
        let goes = what & 1 != 0;
        let passes = |of: &mut Interceptor| {
            if goes {
                of.egress(Now::at(now), &message, Reliability::Reliable) != Egress::Refused
            } else {
                let mut message = message.clone();
                of.ingress(Now::at(now), &mut message, Reliability::Reliable)
            }
        };
        let data = matches!(
            message,
            NetworkMessage::Push(_) | NetworkMessage::Request(_) | NetworkMessage::Response(_)
        );
        assert!(!(data && passes(&mut closed)), "nothing is allowed");
        // A cached verdict must equal a freshly computed one.
        let first = passes(&mut some);
        assert_eq!(first, passes(&mut some));
        passes(&mut limits);
        // A refusal is answered, and that answer is itself never refused.
        if let Some(answer) = refusal(&message) {
            for of in [&mut closed, &mut some, &mut limits] {
                assert_eq!(of.egress(Now::at(now), &answer, Reliability::Reliable), Egress::Pass);
            }
        }
    }
}
