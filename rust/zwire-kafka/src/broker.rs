//! The broker: answers to requests, over the topics and groups that it has.

use crate::{
    group::Groups,
    limits::{GROUP_LOOK, MAX_ANSWER, MAX_WAIT, PAUSES},
    topic::Topic,
    wire::{
        Api, Code, RequestHead, answers, api_versions,
        fetch::{self, FetchRequest},
        find_coordinator, heartbeat,
        join_group::{self, JoinGroup},
        leave_group,
        list_offsets::{self, ListedOffset},
        metadata::{self, Metadata},
        nullable_text,
        offset_commit::{self, OffsetCommit},
        offset_fetch::{self, Committed},
        produce, put_list, put_text,
        sync_group::{self, SyncGroup},
    },
};
use bytes::{BufMut as _, Bytes};
use core::time::Duration;
use parking_lot::Mutex;
use std::{
    collections::{BTreeMap, BTreeSet},
    net::SocketAddr,
    sync::Arc,
};
use thiserror::Error as ThisError;
use tokio::{sync::Notify, time::timeout};
use zwire_engine::clock;
use zwire_proto::{DecodeError, buf::Reader};

/// Reason why a connection is closed without an answer.
#[derive(Clone, PartialEq, Eq, Debug, ThisError)]
pub(crate) enum Refusal {
    #[error("a request that is not one of Kafka: {0}")]
    Decode(#[from] DecodeError),
    #[error(
        "message {key} of version {version}, which a spool does not support: see the table of the guide to Kafka clients"
    )]
    Unsupported { key: i16, version: i16 },
    #[error("a request to write without an answer: topics of spools are read, and cannot be written")]
    Unanswered,
    #[error("the server closes")]
    Closed,
}

/// Topics and groups of a server.
pub(crate) struct Broker {
    topics: BTreeMap<String, Topic>,
    groups: Mutex<Groups>,
    /// Signalled when a group has changed.
    changed: Notify,
    commits: bool,
    /// Address under which clients reach the server; by default the one that they have used.
    advertised: Option<(String, u16)>,
}

/// Answer to a fetch, before it is known whether it is complete.
struct Fetched {
    answer: Vec<u8>,
    octets: usize,
    failed: bool,
    /// Ends of the partitions at the time.
    ends: Vec<Result<u64, Code>>,
}

impl Broker {
    pub(crate) fn new(topics: Vec<Topic>, commits: bool, advertised: Option<(String, u16)>) -> Self {
        Self {
            topics: topics.into_iter().map(|topic| (topic.name().to_owned(), topic)).collect(),
            groups: Mutex::default(),
            changed: Notify::new(),
            commits,
            advertised,
        }
    }

    /// Closes the files of earlier requests.
    pub(crate) fn rest(&self) {
        self.topics.values().for_each(Topic::rest);
    }

    /// Runs what reads files, on a thread that may wait for them.
    async fn blocking<T: Send + 'static>(
        self: &Arc<Self>,
        run: impl FnOnce(&Self) -> T + Send + 'static,
    ) -> Result<T, Refusal> {
        let broker = self.clone();
        tokio::task::spawn_blocking(move || run(&broker)).await.map_err(|_| Refusal::Closed)
    }

    /// Answers a request that has come to an address; `None` if the client wants no answer.
    pub(crate) async fn answer(
        self: &Arc<Self>,
        request: &Bytes,
        here: SocketAddr,
    ) -> Result<Vec<u8>, Refusal> {
        let mut reader = Reader::new(request);
        let head = RequestHead::decode(&mut reader)?;
        let mut out = begin(head.correlation);
        let (r, version) = (&mut reader, head.version);
        let Some(api) = head.api() else {
            // A client that begins with a later version learns the known ones.
            if Api::TABLE.iter().any(|(api, key, ..)| *api == Api::ApiVersions && *key == head.key) {
                api_versions::encode(&mut out, version);
                return Ok(ended(out));
            }
            return Err(Refusal::Unsupported { key: head.key, version });
        };
        nullable_text(r, "request: name of the client")?;
        match api {
            Api::ApiVersions => api_versions::encode(&mut out, version),
            Api::Metadata => self.metadata(metadata::decode(r)?.as_deref(), here, &mut out, version),
            Api::FindCoordinator => {
                let group = find_coordinator::decode(r, version)?;
                let (host, port) = self.place(here);
                find_coordinator::encode(group, (&host, port), &mut out, version);
            }
            Api::Produce => {
                let topics = produce::decode(r)?.ok_or(Refusal::Unanswered)?;
                produce::encode(&topics, &mut out, version);
            }
            Api::ListOffsets => {
                let topics = list_offsets::decode(r, version)?;
                let found = self.blocking(move |broker| {
                    answers(&topics, |name, (number, time)| match broker.topics.get(name) {
                        Some(topic) => topic.list_offset(*number, *time),
                        None => {
                            let code = Code::UnknownTopicOrPartition;
                            ListedOffset { number: *number, code, time: -1, offset: -1 }
                        }
                    })
                });
                list_offsets::encode(&found.await?, &mut out, version);
            }
            Api::Fetch => return self.fetch(FetchRequest::decode(r, version)?, head).await,
            Api::OffsetCommit => {
                let request = OffsetCommit::decode(r, version)?;
                let done = self.blocking(move |broker| broker.commit(&request)).await?;
                offset_commit::encode(&done, &mut out, version);
            }
            Api::OffsetFetch => {
                let (group, topics) = offset_fetch::decode(r)?;
                let found = self.blocking(move |broker| broker.committed(&group, topics)).await?;
                offset_fetch::encode(&found, &mut out, version);
            }
            Api::JoinGroup => {
                let joined = self.join(JoinGroup::decode(r, version)?).await;
                join_group::encode(&joined, &mut out, version);
            }
            Api::SyncGroup => {
                let assigned = self.sync(&SyncGroup::decode(r, version)?).await;
                sync_group::encode(&assigned, &mut out, version);
            }
            Api::Heartbeat => {
                let (group, generation, member) = heartbeat::decode(r, version)?;
                let said = (&group, generation, &*member);
                let code = self.groups.lock().handle_heartbeat(said, clock::mono());
                heartbeat::encode(code, &mut out, version);
            }
            Api::LeaveGroup => {
                let (group, member) = leave_group::decode(r)?;
                let code = self.groups.lock().handle_leave(&group, &member, clock::mono());
                self.changed.notify_waiters();
                heartbeat::encode(code, &mut out, version);
            }
        }
        Ok(ended(out))
    }

    /// Address that clients are told.
    fn place(&self, here: SocketAddr) -> (String, u16) {
        self.advertised.clone().unwrap_or_else(|| (here.ip().to_canonical().to_string(), here.port()))
    }

    fn metadata(
        &self,
        wanted: Option<&[zwire_proto::Text]>,
        here: SocketAddr,
        out: &mut Vec<u8>,
        version: i16,
    ) {
        let partitions = |name: &str| self.topics.get(name).map(Topic::partitions);
        let topics = match wanted {
            None => self.topics.iter().map(|(name, topic)| (&**name, Some(topic.partitions()))).collect(),
            // Each name once: an answer with a thousand partitions for each repetition would be long.
            Some(names) => {
                let names: BTreeSet<&str> = names.iter().map(|name| &**name).collect();
                names.into_iter().map(|name| (name, partitions(name))).collect()
            }
        };
        let (host, port) = self.place(here);
        Metadata { host: &host, port, cluster: "zwire", topics }.encode(out, version);
    }

    /// Answers a fetch once it has the least octets that the client wants, fails, or has waited.
    async fn fetch(self: &Arc<Self>, request: FetchRequest, head: RequestHead) -> Result<Vec<u8>, Refusal> {
        let wait = Duration::from_millis(u64::try_from(request.max_wait).unwrap_or(0));
        let until = clock::mono() + wait.min(MAX_WAIT);
        let enough = usize::try_from(request.min_bytes).unwrap_or(0);
        let request = Arc::new(request);
        let mut pause = PAUSES.0;
        loop {
            let wanted = request.clone();
            let fetched = self.blocking(move |broker| broker.fetch_now(&wanted, head)).await?;
            if fetched.octets >= enough || fetched.failed {
                return Ok(ended(fetched.answer));
            }
            let mut ends = fetched.ends;
            loop {
                let left = until.saturating_sub(clock::mono());
                if left.is_zero() {
                    return Ok(ended(fetched.answer));
                }
                tokio::time::sleep(pause.min(left)).await;
                pause = (pause * 2).min(PAUSES.1);
                let (wanted, before) = (request.clone(), ends);
                let (same, before) = self
                    .blocking(move |broker| (broker.ends(&wanted).eq(before.iter().copied()), before))
                    .await?;
                ends = before;
                if !same {
                    break;
                }
            }
        }
    }

    /// Ends of the partitions of a request.
    fn ends<'a>(&'a self, request: &'a FetchRequest) -> impl Iterator<Item = Result<u64, Code>> + 'a {
        request.topics.iter().flat_map(move |(name, parts)| {
            let topic = self.topics.get(&**name);
            parts.iter().map(move |wanted| {
                let topic = topic.ok_or(Code::UnknownTopicOrPartition)?;
                topic.bounds(wanted.number).map(|(_, end)| end)
            })
        })
    }

    /// Answers a fetch with the rows there are.
    fn fetch_now(&self, request: &FetchRequest, head: RequestHead) -> Fetched {
        let mut answer = begin(head.correlation);
        fetch::put_head(&mut answer, head.version);
        let (mut octets, mut failed, mut ends) = (0, false, Vec::new());
        let most = usize::try_from(request.max_bytes).unwrap_or(0).min(MAX_ANSWER);
        put_list(&mut answer, request.topics.iter(), |answer, (name, parts)| {
            put_text(answer, name);
            let topic = self.topics.get(&**name);
            put_list(answer, parts.iter(), |answer, wanted| {
                fetch::put_partition(answer, head.version, wanted.number, |answer| {
                    let bounds = topic
                        .ok_or(Code::UnknownTopicOrPartition)
                        .and_then(|topic| Ok((topic, topic.bounds(wanted.number)?)));
                    ends.push(bounds.as_ref().map(|(_, (_, end))| *end).map_err(|code| *code));
                    let (topic, (start, end)) = match bounds {
                        Ok(found) => found,
                        Err(code) => {
                            failed = true;
                            return (code, -1, -1);
                        }
                    };
                    let before = answer.len();
                    let room = most.saturating_sub(octets);
                    let code = topic.fetch(wanted, room, octets == 0, answer).err();
                    octets += answer.len() - before;
                    failed |= code.is_some();
                    (code.unwrap_or(Code::None), start.cast_signed(), end.cast_signed())
                });
            });
        });
        Fetched { answer, octets, failed, ends }
    }

    fn commit(&self, request: &OffsetCommit) -> crate::wire::Topics<(i32, Code)> {
        let said = (&request.group, request.generation, &*request.member);
        let refused = match self.groups.lock().check_commit(said, clock::mono()) {
            Code::None if !self.commits => Some(Code::GroupAuthorizationFailed),
            Code::None => None,
            code => Some(code),
        };
        let done = |(name, parts): &(zwire_proto::Text, Vec<(i32, i64)>)| {
            let known = |topic: &&Topic| parts.iter().all(|(number, _)| topic.has(*number));
            let code = refused.unwrap_or_else(|| match self.topics.get(&**name).filter(known) {
                Some(topic) => topic.commit(&request.group, parts),
                None => Code::UnknownTopicOrPartition,
            });
            (name.clone(), parts.iter().map(|(number, _)| (*number, code)).collect())
        };
        request.topics.iter().map(done).collect()
    }

    fn committed(
        &self,
        group: &str,
        wanted: Option<crate::wire::Topics<i32>>,
    ) -> crate::wire::Topics<Committed> {
        let all = wanted.is_none();
        let every = |(name, topic): (&String, &Topic)| {
            (name.as_str().into(), (0..topic.partitions().cast_signed()).collect())
        };
        let wanted = wanted.unwrap_or_else(|| self.topics.iter().map(every).collect());
        let mut found: crate::wire::Topics<Committed> = Vec::new();
        for (name, numbers) in &wanted {
            let topic = self.topics.get(&**name).ok_or(Code::UnknownTopicOrPartition);
            let offsets = topic.and_then(|topic| topic.committed(group));
            let each = |number: &i32| match &offsets {
                Err(code) => Committed { number: *number, offset: -1, code: *code },
                Ok(offsets) => {
                    let offset = u32::try_from(*number).ok().and_then(|number| offsets.get(&number));
                    let offset = offset.map_or(-1, |offset| offset.cast_signed());
                    Committed { number: *number, offset, code: Code::None }
                }
            };
            let parts: Vec<_> = numbers.iter().map(each).filter(|part| !all || part.offset >= 0).collect();
            if !all || !parts.is_empty() {
                found.push((name.clone(), parts));
            }
        }
        found
    }

    async fn join(&self, request: JoinGroup) -> Result<join_group::Joined, Code> {
        let mut random = [0; 16];
        getrandom::fill(&mut random).map_err(|_| Code::Unknown)?;
        let fresh = format!("zwire-{:032x}", u128::from_be_bytes(random));
        let name = request.group.clone();
        let (member, before) = self.groups.lock().handle_join(request, fresh, clock::mono())?;
        self.changed.notify_waiters();
        let joined = self.waited(|groups, now| groups.poll_joined(&name, &member, before, now)).await;
        self.changed.notify_waiters();
        joined
    }

    async fn sync(&self, request: &SyncGroup) -> Result<Bytes, Code> {
        self.groups.lock().handle_sync(request, clock::mono())?;
        self.changed.notify_waiters();
        self.waited(|groups, now| groups.poll_synced(request, now)).await
    }

    /// Asks the groups until they have an answer. Each wait of a member ends with its round.
    async fn waited<T>(&self, mut poll: impl FnMut(&mut Groups, Duration) -> Option<T>) -> T {
        loop {
            let changed = self.changed.notified();
            if let Some(answer) = poll(&mut self.groups.lock(), clock::mono()) {
                return answer;
            }
            // Time passes for members as well: the result of the wait says nothing.
            let _ = timeout(GROUP_LOOK, changed).await;
        }
    }
}

/// An answer with room for its length.
fn begin(correlation: i32) -> Vec<u8> {
    let mut out = Vec::with_capacity(256);
    out.put_i32(0);
    out.put_i32(correlation);
    out
}

/// A complete answer, with its length.
#[allow(clippy::cast_possible_truncation, reason = "bounded by the limits of an answer and of a row")]
fn ended(mut out: Vec<u8>) -> Vec<u8> {
    let len = (out.len() - 4) as u32;
    out[..4].copy_from_slice(&len.to_be_bytes());
    out
}
