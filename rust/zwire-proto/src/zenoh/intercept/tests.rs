use super::*;
use crate::zenoh::{
    CongestionControl, Priority, ZenohId,
    wire::{Del, Push, Put, Query, Request},
};
use core::time::Duration;

const OPEN: LinkFacts<'_> =
    LinkFacts { zid: None, interfaces: &[], protocol: "tcp", common_name: None, username: None };

fn now(ms: u64) -> Now {
    Now { mono: Duration::from_millis(ms), ..Now::default() }
}

fn key(text: &str) -> KeyExpr {
    KeyExpr::new(text.to_owned()).unwrap()
}

fn keys(texts: &[&str]) -> Vec<KeyExpr> {
    texts.iter().map(|text| key(text)).collect()
}

fn kinds(kinds: &[MessageKind]) -> MessageKinds {
    kinds.iter().copied().collect()
}

fn put_on(key: WireExpr, payload: usize) -> NetworkMessage {
    NetworkMessage::Push(Push::new(key, PushBody::Put(Put::new(vec![0; payload]))))
}

fn put(key: &str, payload: usize) -> NetworkMessage {
    put_on(WireExpr::full(key.to_owned()), payload)
}

fn del(key: &str) -> NetworkMessage {
    NetworkMessage::Push(Push::new(WireExpr::full(key.to_owned()), PushBody::Del(Del::default())))
}

fn query(key: &str) -> NetworkMessage {
    NetworkMessage::Request(Request::new(7, WireExpr::full(key.to_owned()), Query::default()))
}

fn declare(body: Declaration) -> NetworkMessage {
    NetworkMessage::Declare(Declare::new(None, body))
}

fn comes(of: &mut Interceptor, mut message: NetworkMessage) -> bool {
    of.ingress(now(0), &mut message, Reliability::Reliable)
}

fn goes(of: &mut Interceptor, message: &NetworkMessage) -> bool {
    of.egress(now(0), message, Reliability::Reliable) != Egress::Refused
}

fn rule(allow: bool, messages: &[MessageKind], on: &[&str]) -> AccessRule {
    AccessRule {
        allow,
        flows: Flows::default(),
        messages: kinds(messages),
        keys: keys(on),
        relation: RuleMatch::Inclusion,
    }
}

fn touching(messages: &[MessageKind], on: &[&str]) -> AccessRule {
    AccessRule { relation: RuleMatch::Intersection, ..rule(false, messages, on) }
}

fn access(default_allow: bool, rules: Vec<AccessRule>) -> Policy {
    let all = AccessPolicy { rules: (0..rules.len()).collect(), subjects: vec![Links::default()] };
    let access_control = Some(AccessControl { default_allow, asks: false, rules, policies: vec![all] });
    Policy { access_control, ..Policy::default() }
}

#[test]
fn a_link_that_nothing_is_about_has_none() {
    assert!(Interceptor::new(&Policy::default(), &OPEN).is_none());
    assert!(Interceptor::new(&access(true, vec![]), &OPEN).is_none());
    let links = Links { protocols: Some(vec!["udp".into()]), ..Links::default() };
    let filter = Filter { links, messages: kinds(&MessageKind::ALL), ..Filter::default() };
    let policy = Policy {
        low_pass: vec![LowPass { filter, keys: keys(&["**"]), size_limit: 1 }],
        ..Policy::default()
    };
    assert!(Interceptor::new(&policy, &OPEN).is_none());
    assert!(Interceptor::new(&policy, &LinkFacts { protocol: "udp", ..OPEN }).is_some());
}

#[test]
fn links_have_one_of_each() {
    let zid = ZenohId::new(0xabc);
    let eth = ["eth0".to_owned(), "eth1".to_owned()];
    let link = LinkFacts { zid, interfaces: &eth, username: Some("ann"), common_name: Some("host"), ..OPEN };
    let some = |texts: &[&str]| Some(texts.iter().map(|&text| text.to_owned()).collect());
    for (links, is) in [
        (Links::default(), true),
        (Links { interfaces: some(&["lo", "eth1"]), ..Links::default() }, true),
        (Links { interfaces: some(&["lo"]), ..Links::default() }, false),
        (Links { usernames: some(&["bob", "ann"]), ..Links::default() }, true),
        (Links { usernames: some(&["bob"]), ..Links::default() }, false),
        (Links { common_names: some(&["host"]), usernames: some(&["bob"]), ..Links::default() }, false),
        (Links { zids: zid.map(|zid| vec![zid]), ..Links::default() }, true),
        (Links { zids: Some(vec![]), ..Links::default() }, false),
    ] {
        assert_eq!(links.contain(&link), is, "{links:?}");
    }
    let anonymous = Links { usernames: some(&["ann"]), ..Links::default() };
    assert!(!anonymous.contain(&OPEN));
}

#[test]
fn a_denial_comes_before_all_and_keys_are_included() {
    use MessageKind::{Delete, Put};
    let policy =
        access(false, vec![rule(true, &[Put], &["a/**"]), rule(false, &[Put, Delete], &["a/secret/*"])]);
    let mut of = Interceptor::new(&policy, &OPEN).unwrap();
    // Twice, the second time from the cache.
    for _ in 0..2 {
        assert!(comes(&mut of, put("a/b", 1)));
        assert!(goes(&mut of, &put("a", 1)));
        assert!(!comes(&mut of, put("a/secret/x", 1)));
        assert!(!comes(&mut of, del("a/b")), "no rule, and the default denies");
        assert!(!comes(&mut of, put("b", 1)));
        // The key intersects the secret one, but no denying rule includes it.
        assert!(comes(&mut of, put("a/*/x", 1)));
        assert!(!comes(&mut of, put("**", 1)), "inclusion, not intersection");
    }
    let policy = access(true, vec![rule(false, &[Put], &["a/**"])]);
    let mut of = Interceptor::new(&policy, &OPEN).unwrap();
    assert!(!comes(&mut of, put("a/b", 1)) && comes(&mut of, del("a/b")) && comes(&mut of, put("b", 1)));
}

#[test]
fn a_denial_by_intersection_applies_to_each_key_that_touches() {
    let policy = access(true, vec![touching(&MessageKind::ALL, &["secret/**"])]);
    let mut of = Interceptor::new(&policy, &OPEN).unwrap();
    let sub = |key: &'static str| {
        let info = Declaration::Subscriber { id: 1, key: WireExpr::full(key) };
        declare(info)
    };
    for _ in 0..2 {
        for key in ["secret/x", "secret", "**", "*/x", "$*et/x", "**/x", "*/**", "s$*/**/y"] {
            assert!(!comes(&mut of, put(key, 1)) && !comes(&mut of, del(key)), "{key}");
            assert!(!comes(&mut of, query(key)) && !comes(&mut of, sub(key)), "{key}");
            assert!(!goes(&mut of, &put(key, 1)), "{key}");
        }
        for key in ["open/x", "*", "open/**", "@/secret/x"] {
            assert_eq!(comes(&mut of, put(key, 1)), key != "*", "{key} (`*` touches `secret`)");
        }
    }
}

#[test]
fn an_interest_in_tokens_without_a_key_is_in_those_that_a_rule_denies() {
    let ask = || {
        let interest = Interest::new(5, InterestMode::CurrentFuture, InterestOptions::TOKENS, None);
        NetworkMessage::Interest(interest)
    };
    let kind = MessageKind::DeclareLivelinessSubscriber;
    for (default_allow, rules, passes) in [
        (true, vec![rule(false, &[kind], &["secret/**"])], false),
        (true, vec![touching(&[kind], &["secret/**"])], false),
        (true, vec![rule(false, &[MessageKind::LivelinessQuery], &["secret/**"])], true),
        (false, vec![rule(true, &[kind], &["open/**"])], false),
        (false, vec![rule(true, &[kind], &["**"])], true),
        (false, vec![rule(true, &[kind], &["**"]), rule(false, &[kind], &["secret/**"])], false),
    ] {
        let policy = access(default_allow, rules.clone());
        assert_eq!(comes(&mut Interceptor::new(&policy, &OPEN).unwrap(), ask()), passes, "{rules:?}");
    }
}

#[test]
fn names_may_have_patterns() {
    let passes = |pattern: &str, name: Option<&str>| {
        let named = |usernames, common_names| Links { usernames, common_names, ..Links::default() };
        let pattern = || Some(vec!["other".to_owned(), pattern.to_owned()]);
        let link = LinkFacts { username: name, common_name: name, ..OPEN };
        let both = [named(pattern(), None).contain(&link), named(None, pattern()).contain(&link)];
        assert_eq!(both[0], both[1]);
        both[0]
    };
    for (pattern, name, expected) in [
        ("robot-7", "robot-7", true),
        ("robot-7", "robot-77", false),
        ("robot-*", "robot-7", true),
        ("robot-*", "robot-", true),
        ("robot-*", "my-robot-7", false),
        ("*.fleet.example", "7.fleet.example", true),
        ("*.fleet.example", "fleet.example", false),
        ("*.fleet.example", "7.fleet.example.org", false),
        ("*", "", true),
        ("a*a", "a", false),
        ("a*b*c", "a-b-b-c", true),
        ("a*b*c", "a-c-b", false),
        ("a**c", "abc", true),
        ("*b*", "abc", true),
    ] {
        assert_eq!(passes(pattern, Some(name)), expected, "{pattern} {name}");
    }
    assert!(!passes("*", None), "a peer without a name has none");
}

/// A policy with which an authority decides where no rule does.
fn asking(rules: Vec<AccessRule>) -> Policy {
    let mut policy = access(true, rules);
    policy.access_control.as_mut().unwrap().asks = true;
    policy
}

fn answer(allowed: bool) -> Option<Answer> {
    Some(Answer { allowed, ttl: Duration::from_secs(10) })
}

fn asks(of: &mut Interceptor, at: u64, mut message: NetworkMessage, answer: Option<Answer>) -> Ingress {
    of.ingress_asking(now(at), &mut message, Reliability::Reliable, answer)
}

#[test]
fn an_authority_decides_where_no_rule_does() {
    let rules =
        vec![rule(true, &[MessageKind::Put], &["open/**"]), rule(false, &[MessageKind::Put], &["shut/**"])];
    let mut of = Interceptor::new(&asking(rules), &OPEN).unwrap();
    assert_eq!(asks(&mut of, 0, put("open/a", 1), None), Ingress::Pass);
    assert_eq!(asks(&mut of, 0, put("shut/a", 1), None), Ingress::Refused);
    let inquiry = Inquiry { flow: Flow::Ingress, kind: MessageKind::Put, key: Some(key("a")) };
    assert_eq!(asks(&mut of, 0, put("a", 1), None), Ingress::Ask(inquiry.clone()));
    // Without a question nothing passes, whatever the default is.
    assert!(!comes(&mut of, put("a", 1)) && !goes(&mut of, &put("a", 1)));
    assert!(!of.permits(Flow::Ingress, MessageKind::Put, Some(&key("a"))));
    assert_eq!(of.decides(Flow::Ingress, MessageKind::Put, Some(&key("a"))), None);
    // An answer counts until it expires, for its kind, key and direction.
    assert_eq!(asks(&mut of, 0, put("a", 1), answer(true)), Ingress::Pass);
    assert_eq!(asks(&mut of, 9_999, put("a", 1), None), Ingress::Pass);
    assert_eq!(of.take_used_answers(), 1);
    assert_eq!(asks(&mut of, 10_000, put("a", 1), None), Ingress::Ask(inquiry.clone()));
    assert!(matches!(asks(&mut of, 1, del("a"), None), Ingress::Ask(_)));
    let egress = of.egress_asking(now(1), &put("a", 1), Reliability::Reliable, None);
    assert_eq!(egress, Egress::Ask(Inquiry { flow: Flow::Egress, ..inquiry.clone() }));
    assert_eq!(of.egress_asking(now(1), &put("a", 1), Reliability::Reliable, answer(false)), Egress::Refused);
    assert_eq!(of.egress_asking(now(1), &put("a", 1), Reliability::Reliable, None), Egress::Refused);
    // A later answer takes the place of an earlier one, also one that came too late.
    of.keep_answer(now(1), inquiry, answer(false).unwrap());
    assert_eq!(asks(&mut of, 2, put("a", 1), None), Ingress::Refused);
    assert!(!Interceptor::new(&asking(vec![]), &OPEN).unwrap().agrees(&of));
}

#[test]
fn no_authority_is_asked_about_the_end_of_a_declaration() {
    let mut of = Interceptor::new(&asking(vec![]), &OPEN).unwrap();
    let ends = [
        Declaration::UndeclareSubscriber { id: 1, key: Some(WireExpr::full("a")) },
        Declaration::UndeclareQueryable { id: 1, key: Some(WireExpr::full("a")) },
        Declaration::UndeclareToken { id: 1, key: Some(WireExpr::full("a")) },
        Declaration::KeyExpr { id: 1, key: WireExpr::full("a") },
        Declaration::Final,
    ];
    for body in ends {
        assert_eq!(asks(&mut of, 0, declare(body.clone()), None), Ingress::Pass, "{body:?}");
    }
    let interest = Interest::new(5, InterestMode::Current, InterestOptions::TOKENS, None);
    let inquiry = Inquiry { flow: Flow::Ingress, kind: MessageKind::LivelinessQuery, key: None };
    assert_eq!(asks(&mut of, 0, NetworkMessage::Interest(interest), None), Ingress::Ask(inquiry));
}

#[test]
fn a_message_that_waits_for_an_answer_counts_once() {
    let filter = Filter { messages: kinds(&[MessageKind::Put]), ..Filter::default() };
    let rates = vec![Rate { key: key("a"), period: Some(Duration::from_millis(100)) }];
    let policy = Policy { downsampling: vec![Downsampling { filter, rates }], ..asking(vec![]) };
    let mut of = Interceptor::new(&policy, &OPEN).unwrap();
    assert!(matches!(asks(&mut of, 1000, put("a", 1), None), Ingress::Ask(_)));
    assert_eq!(asks(&mut of, 1000, put("a", 1), answer(true)), Ingress::Pass);
    assert_eq!(asks(&mut of, 1050, put("a", 1), None), Ingress::Refused);
}

#[test]
fn answers_are_kept_within_bounds() {
    let mut of = Interceptor::new(&asking(vec![]), &OPEN).unwrap();
    for number in 0..5000 {
        assert_eq!(asks(&mut of, 0, put(&format!("a/{number}"), 0), answer(true)), Ingress::Pass);
    }
    assert_eq!(of.answers.len(), 4096);
    assert!(matches!(asks(&mut of, 0, put("a/0", 0), None), Ingress::Ask(_)), "the oldest goes first");
    assert_eq!(asks(&mut of, 0, put("a/4999", 0), None), Ingress::Pass);
    let long = "x".repeat(300);
    assert_eq!(asks(&mut of, 0, put(&long, 0), answer(true)), Ingress::Pass);
    assert!(matches!(asks(&mut of, 0, put(&long, 0), None), Ingress::Ask(_)));
}

#[test]
fn what_an_authority_has_refused_comes_in_by_a_rule() {
    let subscriber = |id| declare(Declaration::Subscriber { id, key: WireExpr::full(format!("a/{id}")) });
    let mut of = Interceptor::new(&asking(vec![]), &OPEN).unwrap();
    assert_eq!(asks(&mut of, 0, subscriber(1), answer(false)), Ingress::Refused);
    let kinds = [MessageKind::DeclareSubscriber];
    let (of, free) = renewed(Some(of), &asking(vec![rule(true, &[MessageKind::Put], &["a/**"])]));
    assert_eq!(free, [], "there was no question");
    let (_, free) = renewed(of, &asking(vec![rule(true, &kinds, &["a/**"])]));
    assert_eq!(free, [subscriber(1)]);
}

#[test]
fn directions_are_apart() {
    let one = |flows| {
        let mut rule = rule(false, &MessageKind::ALL, &["**"]);
        rule.flows = flows;
        Interceptor::new(&access(true, vec![rule]), &OPEN).unwrap()
    };
    let mut of = one(Flows { ingress: true, egress: false });
    assert!(!comes(&mut of, put("a", 1)) && goes(&mut of, &put("a", 1)));
    let mut of = one(Flows { ingress: false, egress: true });
    assert!(comes(&mut of, put("a", 1)) && !goes(&mut of, &put("a", 1)));
}

#[test]
fn numbers_of_keys_are_followed_both_ways() {
    let mut of =
        Interceptor::new(&access(true, vec![rule(false, &[MessageKind::Put], &["a/**"])]), &OPEN).unwrap();
    let on = |scope, mapping, suffix: &str| put_on(WireExpr { scope, mapping, suffix: suffix.into() }, 1);
    assert!(comes(&mut of, declare(Declaration::KeyExpr { id: 3, key: WireExpr::full("a") })));
    assert!(goes(&mut of, &declare(Declaration::KeyExpr { id: 3, key: WireExpr::full("b") })));
    assert!(!comes(&mut of, on(3, Mapping::Sender, "/x")), "their 3 is a");
    assert!(comes(&mut of, on(3, Mapping::Receiver, "/x")), "ours is b");
    assert!(goes(&mut of, &on(3, Mapping::Sender, "/x")));
    assert!(!goes(&mut of, &on(3, Mapping::Receiver, "/x")));
    // A number in use keeps its key; an undeclared one may get another.
    assert!(comes(&mut of, declare(Declaration::KeyExpr { id: 3, key: WireExpr::full("c") })));
    assert!(!comes(&mut of, on(3, Mapping::Sender, "/x")));
    assert!(comes(&mut of, declare(Declaration::UndeclareKeyExpr { id: 3 })));
    assert!(comes(&mut of, declare(Declaration::KeyExpr { id: 3, key: WireExpr::full("c") })));
    assert!(comes(&mut of, on(3, Mapping::Sender, "/x")));
}

#[test]
fn what_means_nothing_is_as_the_default() {
    let unknown = || put_on(WireExpr { scope: 9, mapping: Mapping::Sender, suffix: "".into() }, 1);
    for default_allow in [true, false] {
        let policy = access(default_allow, vec![rule(!default_allow, &MessageKind::ALL, &["**"])]);
        assert_eq!(comes(&mut Interceptor::new(&policy, &OPEN).unwrap(), unknown()), default_allow);
    }
}

#[test]
fn who_is_refused_need_not_wait() {
    let mut of = Interceptor::new(&access(false, vec![]), &OPEN).unwrap();
    assert!(!comes(&mut of, query("a")));
    let Some(NetworkMessage::ResponseFinal(end)) = refusal(&query("a")) else { panic!("a final") };
    assert_eq!(end.id, 7);
    let ask = |mode| {
        let interest = Interest::new(5, mode, InterestOptions::TOKENS, Some(WireExpr::full("a")));
        NetworkMessage::Interest(interest)
    };
    for (mode, answered) in
        [(InterestMode::Current, true), (InterestMode::CurrentFuture, true), (InterestMode::Future, false)]
    {
        assert!(!comes(&mut of, ask(mode)));
        let answer = refusal(&ask(mode));
        assert_eq!(answer.is_some(), answered);
        if let Some(answer) = answer {
            assert_eq!(answer, NetworkMessage::Declare(Declare::new(Some(5), Declaration::Final)));
        }
    }
    assert!(comes(&mut of, ask(InterestMode::Final)));
    assert!(refusal(&put("a", 1)).is_none());
}

#[test]
fn only_tokens_are_left_out_of_an_interest() {
    let mut of = Interceptor::new(&access(false, vec![]), &OPEN).unwrap();
    let all = InterestOptions::KEYEXPRS | InterestOptions::SUBSCRIBERS | InterestOptions::TOKENS;
    let interest = Interest::new(1, InterestMode::CurrentFuture, all, None);
    let mut message = NetworkMessage::Interest(interest);
    assert!(of.ingress(now(0), &mut message, Reliability::Reliable));
    let NetworkMessage::Interest(rest) = &message else { panic!("an interest") };
    assert!(rest.options.contains(InterestOptions::SUBSCRIBERS));
    assert!(!rest.options.contains(InterestOptions::TOKENS));
}

#[test]
fn declarations_have_rules_of_their_own() {
    use MessageKind::{DeclareQueryable, DeclareSubscriber, LivelinessToken};
    let key = || WireExpr::full("a");
    let subscriber = || declare(Declaration::Subscriber { id: 1, key: key() });
    let queryable = || declare(Declaration::Queryable { id: 1, key: key(), info: Default::default() });
    let token = || declare(Declaration::Token { id: 1, key: key() });
    for (kind, expected) in [
        (DeclareSubscriber, [true, false, false]),
        (DeclareQueryable, [false, true, false]),
        (LivelinessToken, [false, false, true]),
    ] {
        let mut of = Interceptor::new(&access(false, vec![rule(true, &[kind], &["a"])]), &OPEN).unwrap();
        let passed = [comes(&mut of, subscriber()), comes(&mut of, queryable()), comes(&mut of, token())];
        assert_eq!(passed, expected, "{kind:?}");
        // These always pass.
        assert!(comes(&mut of, declare(Declaration::Final)));
        assert!(comes(&mut of, declare(Declaration::UndeclareSubscriber { id: 1, key: None })));
    }
}

#[test]
fn one_message_a_period() {
    let rates = vec![
        Rate { key: key("fast/**"), period: Some(Duration::from_millis(100)) },
        Rate { key: key("never/**"), period: None },
        Rate { key: key("fast/x"), period: None },
    ];
    let filter = Filter { messages: kinds(&[MessageKind::Put]), ..Filter::default() };
    let policy = Policy { downsampling: vec![Downsampling { filter, rates }], ..Policy::default() };
    let mut of = Interceptor::new(&policy, &OPEN).unwrap();
    let mut at = |ms, key: &str| of.ingress(now(ms), &mut put(key, 1), Reliability::Reliable);
    assert!(at(1000, "fast/a"));
    assert!(!at(1050, "fast/a"));
    // The rule has one clock for all keys, and the first rule counts.
    assert!(!at(1099, "fast/x"));
    assert!(at(1100, "fast/x"));
    assert!(!at(1200, "never/a"));
    assert!(at(1200, "other"));
    // Each direction has its own.
    assert!(goes(&mut of, &put("fast/a", 1)));
    assert!(comes(&mut of, del("fast/a")));
}

#[test]
fn a_limit_counts_payload_and_attachment() {
    let filter = Filter { messages: kinds(&[MessageKind::Put, MessageKind::Delete]), ..Filter::default() };
    let low_pass = vec![LowPass { filter, keys: keys(&["a/**"]), size_limit: 10 }];
    let mut of = Interceptor::new(&Policy { low_pass, ..Policy::default() }, &OPEN).unwrap();
    assert!(comes(&mut of, put("a/b", 10)));
    assert!(!comes(&mut of, put("a/b", 11)));
    assert!(comes(&mut of, put("b", 11)));
    assert!(comes(&mut of, query("a/b")));
    let attached = |bytes: usize| {
        let mut put = Put::new(vec![0; 5]);
        put.attachment = Some(vec![0; bytes].into());
        NetworkMessage::Push(Push::new(WireExpr::full("a"), PushBody::Put(put)))
    };
    assert!(comes(&mut of, attached(5)));
    assert!(!comes(&mut of, attached(6)));
}

#[test]
fn another_qos_for_some() {
    let filter = Filter { messages: kinds(&[MessageKind::Put]), ..Filter::default() };
    let entry = |payload_size, only, overwrite| QosNetwork {
        filter: filter.clone(),
        keys: Some(keys(&["a/**"])),
        payload_size,
        only,
        reliability: None,
        overwrite,
    };
    let priority = |priority| Overwrite { priority: Some(priority), ..Overwrite::default() };
    let qos = vec![
        entry(100..=usize::MAX, Overwrite::default(), priority(Priority::Background)),
        // Applies to the result of the previous one.
        entry(
            0..=usize::MAX,
            priority(Priority::Background),
            Overwrite { congestion: Some(CongestionControl::Block), ..Overwrite::default() },
        ),
    ];
    let mut of = Interceptor::new(&Policy { qos, ..Policy::default() }, &OPEN).unwrap();
    let mut large = put("a/b", 100);
    assert!(of.ingress(now(0), &mut large, Reliability::Reliable));
    assert_eq!(large.qos(), Qos::new(Priority::Background, CongestionControl::Block, false));
    let Egress::Changed(changed) = of.egress(now(0), &put("a/b", 100), Reliability::Reliable) else {
        panic!("changed")
    };
    assert_eq!(*changed, large);
    assert_eq!(of.egress(now(0), &put("a/b", 99), Reliability::Reliable), Egress::Pass);
    assert_eq!(of.egress(now(0), &put("b", 100), Reliability::Reliable), Egress::Pass);
}

#[test]
fn memory_of_decisions_is_bounded() {
    let mut of =
        Interceptor::new(&access(false, vec![rule(true, &[MessageKind::Put], &["a/**"])]), &OPEN).unwrap();
    for number in 0..20_000 {
        assert!(comes(&mut of, put(&format!("a/{number}"), 0)));
        assert!(!comes(&mut of, put(&format!("b/{number}/{}", "x".repeat(300)), 0)));
    }
    assert!(of.ingress.remembered() <= 4096);
}

fn renewed(before: Option<Interceptor>, policy: &Policy) -> (Option<Interceptor>, Vec<NetworkMessage>) {
    Interceptor::renewed(before, policy, &OPEN, [(7, key("late/numbered"))])
}

#[test]
fn declarations_that_were_refused_come_in_when_the_rules_allow_them() {
    use MessageKind::{DeclareLivelinessSubscriber, DeclareQueryable, DeclareSubscriber};
    let all = [DeclareSubscriber, DeclareQueryable, DeclareLivelinessSubscriber];
    let denied = access(true, vec![rule(false, &all, &["a/**"])]);
    let mut of = Interceptor::new(&denied, &OPEN).unwrap();
    let full = |text: &str| WireExpr::full(text.to_owned());
    comes(&mut of, declare(Declaration::KeyExpr { id: 3, key: full("a") }));
    let numbered = WireExpr { scope: 3, mapping: Mapping::Sender, suffix: "/x".into() };
    assert!(!comes(&mut of, declare(Declaration::Subscriber { id: 1, key: numbered })));
    assert!(!comes(&mut of, declare(Declaration::Subscriber { id: 2, key: full("a/y") })));
    assert!(!comes(
        &mut of,
        declare(Declaration::Queryable { id: 1, key: full("a/q"), info: Default::default() })
    ));
    assert!(comes(&mut of, declare(Declaration::Subscriber { id: 5, key: full("b") })));
    // Undeclared while it is refused: it does not come back.
    comes(&mut of, declare(Declaration::UndeclareSubscriber { id: 2, key: None }));
    let wants = |options| {
        NetworkMessage::Interest(Interest::new(9, InterestMode::Future, options, Some(full("a/t"))))
    };
    assert!(comes(&mut of, wants(InterestOptions::TOKENS | InterestOptions::SUBSCRIBERS)), "the rest of it");

    let queries_only = access(true, vec![rule(false, &[DeclareQueryable], &["a/**"])]);
    let (of, free) = renewed(Some(of), &queries_only);
    let subscriber = declare(Declaration::Subscriber { id: 1, key: full("a/x") });
    let interest = NetworkMessage::Interest(Interest::new(
        9,
        InterestMode::Future,
        InterestOptions::TOKENS | InterestOptions::SUBSCRIBERS,
        Some(full("a/t")),
    ));
    assert_eq!(free, [subscriber, interest]);
    // The queryable is still refused, and comes in with the next change. Key numbers keep their meaning.
    let mut of = of.unwrap();
    let numbered = WireExpr { scope: 3, mapping: Mapping::Sender, suffix: "/z".into() };
    assert!(!comes(
        &mut of,
        declare(Declaration::Queryable { id: 4, key: numbered, info: Default::default() })
    ));
    let (of, free) = renewed(Some(of), &Policy::default());
    assert!(of.is_none());
    assert_eq!(free.len(), 2, "{free:?}");
}

#[test]
fn nothing_is_kept_of_declarations_between_routers() {
    let denied = access(true, vec![rule(false, &[MessageKind::DeclareSubscriber], &["a/**"])]);
    let mut of = Interceptor::new(&denied, &OPEN).unwrap().between_routers();
    // Of two routers behind this one: the same id, and another origin.
    for (key, origin) in [("a/x", 1), ("a/y", 2)] {
        let body = Declaration::Subscriber { id: 0, key: WireExpr::full(key.to_owned()) };
        let told = Declare { node_id: origin, ..Declare::new(None, body) };
        assert!(!comes(&mut of, NetworkMessage::Declare(told)));
    }
    let (of, free) = renewed(Some(of), &access(true, vec![rule(false, &[MessageKind::Put], &["a/**"])]));
    assert_eq!(free, []);
    let withdrawn = declare(Declaration::Subscriber { id: 0, key: WireExpr::full("a/z") });
    let mut of = of.unwrap();
    of.hold(&withdrawn);
    assert_eq!(renewed(Some(of), &Policy::default()).1, []);
}

#[test]
fn a_link_without_rules_gets_them_with_the_key_numbers_in_use() {
    let policy = access(true, vec![rule(false, &[MessageKind::Put], &["late/**"])]);
    let (of, free) = renewed(None, &policy);
    assert!(free.is_empty());
    let mut of = of.unwrap();
    let numbered = WireExpr { scope: 7, mapping: Mapping::Sender, suffix: "".into() };
    assert!(!comes(&mut of, put_on(numbered.clone(), 1)));
    assert!(!goes(&mut of, &put_on(WireExpr { mapping: Mapping::Receiver, ..numbered }, 1)));
}

#[test]
fn refused_declarations_are_kept_within_bounds() {
    let policy = access(false, vec![]);
    let mut of = Interceptor::new(&policy, &OPEN).unwrap();
    for id in 0..3000 {
        comes(&mut of, declare(Declaration::Subscriber { id, key: WireExpr::full(format!("k/{id}")) }));
    }
    assert_eq!(of.lost(), 3000 - 1024);
    let (_, free) = renewed(Some(of), &Policy::default());
    assert_eq!(free.len(), 1024);
    let mut of = Interceptor::new(&policy, &OPEN).unwrap();
    for id in 0..10 {
        let key = WireExpr::full(format!("{}/{id}", "x".repeat(16_000)));
        comes(&mut of, declare(Declaration::Subscriber { id, key }));
    }
    assert_eq!(of.lost(), 6);
}

#[test]
fn rules_that_are_the_same_agree() {
    let policy = access(true, vec![rule(false, &[MessageKind::Put], &["a"])]);
    let of = |policy: &Policy| Interceptor::new(policy, &OPEN).unwrap();
    assert!(of(&policy).agrees(&of(&policy)) && of(&policy).rules().agrees(&of(&policy)));
    let other = access(true, vec![rule(false, &[MessageKind::Put], &["b"])]);
    assert!(!of(&policy).agrees(&of(&other)));
}
