//! [`Authority`]: a function of the program that decides about messages which no rule of access control is about
//! (`zenoh-behaviour` 7.4).
//!
//! The function may be slow, so it runs on a thread of its own, and no lock is held meanwhile. A link that waits for
//! an answer keeps the order of its messages: it reads no further, and its messages for the peer wait in the
//! [`Guard`](super::intercept::Guard). Other links go on. After the deadline the answer is the fall-back.

use crate::{error::Error, rt::clock, zenoh::intercept::Guard};
use core::{
    sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering},
    time::Duration,
};
use parking_lot::{Condvar, Mutex};
use std::{
    collections::VecDeque,
    sync::{Arc, Weak},
    thread,
};
use tokio::sync::Notify;
use zwire_proto::zenoh::{
    ZenohId,
    intercept::{Answer, Inquiry, LinkFacts},
};

/// Most questions that wait for the function: as many as answers are kept of one link. Beyond them the fall-back
/// answers.
const MAX_WAITING: usize = 4096;

/// How long the fall-back counts for further messages of a key: a function that hangs does not hold up each of them.
const FALLBACK_TTL: Duration = Duration::from_secs(1);

/// Times of an authority.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AuthorityOptions {
    /// How long a message waits for its answer.
    pub deadline: Duration,
    /// How long an answer counts for further messages of a link.
    pub ttl: Duration,
    /// Whether a message passes that got no answer in time.
    pub fallback: bool,
}

impl Default for AuthorityOptions {
    fn default() -> Self {
        Self { deadline: Duration::from_millis(100), ttl: Duration::from_secs(10), fallback: false }
    }
}

/// Answer of the function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The message passes.
    Allowed,
    /// The message is refused.
    Denied,
    /// The function has failed: the message is refused.
    Failed,
}

/// Other end of a link, as rules of access control see it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AccessSubject {
    /// The node; `None`: a multicast group as a whole, or a client of HTTP.
    pub zid: Option<ZenohId>,
    /// Names of the interfaces of this node with the address of the link.
    pub interfaces: Vec<String>,
    /// `tcp`, `tls`, ….
    pub protocol: String,
    /// Common name of its certificate, if it had to present one.
    pub common_name: Option<String>,
    /// User name that it has authenticated with.
    pub username: Option<String>,
}

impl AccessSubject {
    pub(crate) fn of(facts: &LinkFacts<'_>) -> Self {
        Self {
            zid: facts.zid,
            interfaces: facts.interfaces.to_vec(),
            protocol: facts.protocol.to_owned(),
            common_name: facts.common_name.map(str::to_owned),
            username: facts.username.map(str::to_owned),
        }
    }
}

/// Message that the function decides about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccessRequest {
    /// Kind, direction and key of the message.
    pub inquiry: Inquiry,
    /// The other end of its link.
    pub subject: Arc<AccessSubject>,
}

/// Function that decides. It is called from one thread, and not in parallel.
pub type Authorise = Box<dyn Fn(&AccessRequest) -> Verdict + Send>;

/// Counters of all authorities that a session has had.
#[derive(Debug, Default)]
pub(crate) struct AuthorityCounters {
    /// Questions to the function.
    asked: AtomicU64,
    denied: AtomicU64,
    timed_out: AtomicU64,
    failed: AtomicU64,
    /// Messages that an earlier answer has decided about.
    cached: AtomicU64,
}

impl AuthorityCounters {
    pub(crate) fn named(&self) -> [(&'static str, u64); 5] {
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        [
            ("asked", get(&self.asked)),
            ("denied", get(&self.denied)),
            ("timed_out", get(&self.timed_out)),
            ("raised", get(&self.failed)),
            ("cached", get(&self.cached)),
        ]
    }

    pub(crate) fn count_cached(&self, messages: u64) {
        if messages > 0 {
            self.cached.fetch_add(messages, Ordering::Relaxed);
        }
    }
}

/// The function of a session, with its thread.
pub(crate) struct Authority {
    pub(crate) options: AuthorityOptions,
    pub(crate) counters: Arc<AuthorityCounters>,
    questions: Mutex<VecDeque<Arc<Question>>>,
    some: Condvar,
    ended: AtomicBool,
    /// Microseconds at which the present call has begun; 0: none runs.
    busy_since: AtomicU64,
}

impl core::fmt::Debug for Authority {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Authority").field("options", &self.options).finish_non_exhaustive()
    }
}

impl Authority {
    /// Starts the thread of a function.
    pub(crate) fn start(
        function: Authorise,
        options: AuthorityOptions,
        counters: Arc<AuthorityCounters>,
    ) -> Result<Arc<Self>, Error> {
        let authority = Arc::new(Self {
            options,
            counters,
            questions: Mutex::default(),
            some: Condvar::new(),
            ended: AtomicBool::new(false),
            busy_since: AtomicU64::new(0),
        });
        let own = authority.clone();
        thread::Builder::new()
            .name("zwire-authority".to_owned())
            .spawn(move || own.run(&function))
            .map_err(|source| Error::Runtime { source: Arc::new(source) })?;
        Ok(authority)
    }

    fn run(&self, function: &Authorise) {
        while let Some(question) = self.next() {
            // The link has gone on with the fall-back. It asks again with its next message.
            if clock::mono() >= question.until {
                continue;
            }
            self.busy_since.store(clock::micros(clock::mono()).max(1), Ordering::Release);
            let verdict = function(&question.request);
            self.busy_since.store(0, Ordering::Release);
            match verdict {
                Verdict::Allowed => {}
                Verdict::Denied => drop(self.counters.denied.fetch_add(1, Ordering::Relaxed)),
                Verdict::Failed => drop(self.counters.failed.fetch_add(1, Ordering::Relaxed)),
            }
            question.answered(verdict == Verdict::Allowed, self.options.ttl);
        }
    }

    fn next(&self) -> Option<Arc<Question>> {
        let mut questions = self.questions.lock();
        loop {
            if self.ended.load(Ordering::Acquire) {
                return None;
            }
            match questions.pop_front() {
                Some(question) => return Some(question),
                None => self.some.wait(&mut questions),
            }
        }
    }

    /// Ends the thread after its present call. The fall-back answers the questions that wait.
    pub(crate) fn end(&self) {
        self.ended.store(true, Ordering::Release);
        // The thread looks at the flag with this lock, so that it cannot miss the signal. Each question refers to the
        // authority: both would stay in memory.
        let waiting = core::mem::take(&mut *self.questions.lock());
        self.some.notify_all();
        waiting.iter().for_each(|question| question.lapse());
    }

    /// Asks about a message. Never waits.
    pub(crate) fn ask(
        self: &Arc<Self>,
        request: AccessRequest,
        asker: Weak<Guard>,
        rules: u64,
    ) -> Arc<Question> {
        let now = clock::mono();
        let since = self.busy_since.load(Ordering::Acquire);
        // While a call hangs, the answers of all others would come too late as well.
        let hangs =
            since > 0 && clock::micros(now).saturating_sub(since) > clock::micros(self.options.deadline);
        let mut questions = self.questions.lock();
        let asks = !hangs && questions.len() < MAX_WAITING && !self.ended.load(Ordering::Acquire);
        let question = Arc::new(Question {
            request,
            authority: self.clone(),
            until: if asks { now.saturating_add(self.options.deadline) } else { now },
            answer: AtomicU8::new(OPEN),
            told: Notify::new(),
            asker,
            rules,
        });
        if asks {
            self.counters.asked.fetch_add(1, Ordering::Relaxed);
            questions.push_back(question.clone());
            drop(questions);
            self.some.notify_one();
        }
        question
    }
}

/// States of a question.
const OPEN: u8 = 0;
const REFUSED: u8 = 1;
const GRANTED: u8 = 2;
/// The function is asked no more.
const LAPSED: u8 = 3;

/// Question to the function.
#[derive(Debug)]
pub(crate) struct Question {
    request: AccessRequest,
    authority: Arc<Authority>,
    /// Time at which the fall-back answers.
    until: Duration,
    answer: AtomicU8,
    told: Notify,
    /// Keeper of the answer if it comes too late.
    asker: Weak<Guard>,
    /// Which rules have asked.
    rules: u64,
}

impl Question {
    fn answered(&self, allowed: bool, ttl: Duration) {
        self.answer.store(if allowed { GRANTED } else { REFUSED }, Ordering::Release);
        self.told.notify_one();
        if clock::mono() >= self.until
            && let Some(asker) = self.asker.upgrade()
        {
            asker.keep_answer(self.rules, &self.request.inquiry, Answer { allowed, ttl });
        }
    }

    fn lapse(&self) {
        self.answer.store(LAPSED, Ordering::Release);
        self.told.notify_one();
    }

    /// Which rules have asked: others have to ask again.
    pub(crate) const fn rules(&self) -> u64 {
        self.rules
    }

    /// The answer, by the deadline.
    pub(crate) async fn answer(&self) -> Answer {
        let options = &self.authority.options;
        let told = async {
            loop {
                match self.answer.load(Ordering::Acquire) {
                    OPEN => self.told.notified().await,
                    LAPSED => return None,
                    answer => return Some(answer == GRANTED),
                }
            }
        };
        match tokio::time::timeout_at(clock::instant(self.until), told).await {
            Ok(Some(allowed)) => Answer { allowed, ttl: options.ttl },
            Ok(None) | Err(_) => self.late(),
        }
    }

    /// Whether the fall-back refuses.
    pub(crate) fn refuses_late(&self) -> bool {
        !self.authority.options.fallback
    }

    /// The fall-back, which counts for a short time.
    pub(crate) fn late(&self) -> Answer {
        let options = &self.authority.options;
        self.authority.counters.timed_out.fetch_add(1, Ordering::Relaxed);
        Answer { allowed: options.fallback, ttl: options.ttl.min(FALLBACK_TTL) }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use std::sync::mpsc;
    use zwire_proto::zenoh::{
        KeyExpr,
        intercept::{Flow, MessageKind},
    };

    fn request(key: &str) -> AccessRequest {
        let key = Some(KeyExpr::new(key.to_owned()).unwrap());
        let inquiry = Inquiry { flow: Flow::Ingress, kind: MessageKind::Put, key };
        AccessRequest { inquiry, subject: Arc::default() }
    }

    fn wait(question: &Question) -> Answer {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(question.answer())
    }

    /// Authority with a function that allows everything, once the sender is dropped.
    pub(crate) fn hanging(deadline: Duration) -> (mpsc::Sender<()>, Arc<Authority>) {
        let (go, gate) = mpsc::channel::<()>();
        let options = AuthorityOptions { deadline, ..AuthorityOptions::default() };
        let function: Authorise = Box::new(move |_| {
            let _ = gate.recv();
            Verdict::Allowed
        });
        (go, Authority::start(function, options, Arc::default()).unwrap())
    }

    #[test]
    fn the_function_answers_and_is_counted() {
        let options = AuthorityOptions { deadline: Duration::from_secs(20), ..AuthorityOptions::default() };
        let function: Authorise =
            Box::new(|request| match request.inquiry.key.as_ref().map(KeyExpr::as_str) {
                Some("open") => Verdict::Allowed,
                Some("shut") => Verdict::Denied,
                _ => Verdict::Failed,
            });
        let authority = Authority::start(function, options, Arc::default()).unwrap();
        for (key, allowed) in [("open", true), ("shut", false), ("broken", false)] {
            let question = authority.ask(request(key), Weak::new(), 0);
            assert_eq!(wait(&question), Answer { allowed, ttl: options.ttl }, "{key}");
        }
        let named = authority.counters.named();
        assert_eq!(named.map(|(_, count)| count), [3, 1, 0, 1, 0]);
        authority.end();
    }

    #[test]
    fn a_function_that_hangs_costs_one_deadline() {
        let (go, authority) = hanging(Duration::from_millis(20));
        let first = authority.ask(request("a"), Weak::new(), 0);
        assert_eq!(wait(&first), Answer { allowed: false, ttl: FALLBACK_TTL });
        let begun = authority.busy_since.load(Ordering::Acquire);
        while clock::micros(clock::mono()) <= begun + clock::micros(authority.options.deadline) {
            thread::yield_now();
        }
        // It is not even asked while the call hangs, and the answer is there at once.
        let second = authority.ask(request("b"), Weak::new(), 0);
        assert!(second.until <= clock::mono());
        assert!(!wait(&second).allowed);
        assert_eq!(authority.counters.named()[0].1, 1);
        drop(go);
        while authority.busy_since.load(Ordering::Acquire) > 0 {
            thread::yield_now();
        }
        assert!(wait(&authority.ask(request("c"), Weak::new(), 0)).allowed);
        authority.end();
    }

    #[test]
    fn questions_that_wait_at_the_end_lapse_and_are_forgotten() {
        let (go, authority) = hanging(Duration::from_secs(600));
        let (first, second) =
            (authority.ask(request("a"), Weak::new(), 0), authority.ask(request("b"), Weak::new(), 0));
        while authority.busy_since.load(Ordering::Acquire) == 0 {
            thread::yield_now();
        }
        authority.end();
        assert_eq!(wait(&second), Answer { allowed: false, ttl: FALLBACK_TTL });
        assert_eq!(authority.counters.named()[2].1, 1);
        drop(go);
        assert!(wait(&first).allowed, "the call in progress still counts");
        let left = Arc::downgrade(&authority);
        drop((authority, first, second));
        while left.strong_count() > 0 {
            thread::yield_now();
        }
    }
}
