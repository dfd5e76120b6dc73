//! Session of a remote client: carries out its requests, and turns what its entities receive into events.

use super::entities::{Connectivity, Entities, MatchingListener, OpenQueries, Publisher, Querier, RemoteGet};
use crate::{
    access::error_body,
    client::Client,
    error::Problem,
    listing::{ClientListing, Listed},
    node::{self, Declared, Inbox, OpenGet, REPLIES},
};
use bytes::Bytes;
use core::time::Duration;
use std::{collections::BTreeMap, sync::Arc};
use tokio::sync::Notify;
use zwire_engine::{
    Error, Full, Handler,
    connectivity::{Change, LinkInfo},
};
use zwire_proto::{
    buf::Reader,
    zenoh::{
        CongestionControl, Encoding, KeyExpr, Payload, Priority, Qos, Reliability, Timestamp, WhatAmI,
        remote_api::{
            RemoteEvent, RemoteHead, RemoteLink, RemoteQos, RemoteReply, RemoteRequest, RemoteSettings,
            RemoteTransport,
        },
        session::{
            EntityId, Get, Publication, PublisherOptions, QuerierOptions, QueryReply, QueryReplyBody,
            QueryableOptions, Reply, ReplyError, Sample, SampleKind, SubscriberOptions,
        },
        wire::{Del, PushBody, Put, QueryBody, Reply as WireReply, ResponseBody},
    },
};

/// Items that wait in each queue of a client; the oldest are dropped beyond. A client that reads is behind by as many
/// messages as fit into a connection.
const WAITING: Handler = Handler::Channel(4096, Full::DropOldest);

/// Session of a remote client. Dropping it undeclares everything.
pub(super) struct RemoteSession {
    client: Client,
    bell: Arc<Notify>,
    uuid: String,
    _listed: Listed,
    entities: Entities,
    queries: OpenQueries,
    /// Event that has to follow the last one.
    then: Option<RemoteEvent>,
    /// Kind of entities that was asked last for an event.
    turn: usize,
    /// How often the rules of the node had changed when tokens were judged by them.
    rules: u64,
}

/// Kinds of entities that have events.
const KINDS: usize = 6;

impl From<Problem> for String {
    fn from(problem: Problem) -> Self {
        problem.text
    }
}

/// Result of a request: its answer, or a problem.
type Outcome = Result<Option<RemoteEvent>, String>;

fn told(error: Error) -> String {
    error.to_string()
}

impl RemoteSession {
    pub(super) fn new(client: Client) -> Self {
        let (uuid, rules) = (uuid(), client.site.session.link_policy_changes());
        let entities = Entities::default();
        let listing = ClientListing {
            uuid: uuid.clone(),
            remote_address: client.peer,
            publishers: entities.publishers.keys(),
            subscribers: entities.subscribers.keys(),
            queryables: entities.queryables.keys(),
            queriers: entities.queriers.keys(),
            liveliness_tokens: entities.tokens.keys(),
        };
        Self {
            _listed: client.site.clients.add(listing),
            client,
            bell: Arc::default(),
            uuid,
            entities,
            queries: OpenQueries::default(),
            then: None,
            turn: 0,
            rules,
        }
    }

    pub(super) const fn client(&self) -> &Client {
        &self.client
    }

    /// Notified when there may be an event.
    pub(super) fn bell(&self) -> Arc<Notify> {
        self.bell.clone()
    }

    /// Carries out a request. Returns the answer, if one is wanted; for a get that failed without a number to answer, its
    /// error and its end.
    pub(super) async fn handle(&mut self, raw: &Bytes) -> Vec<Vec<u8>> {
        let mut r = Reader::new(raw);
        let head = match RemoteHead::decode(&mut r) {
            Ok(head) => head,
            Err(error) => {
                tracing::debug!(target: "zwire.http", "{}: a message was ignored: {error}", self.client.peer);
                return Vec::new();
            }
        };
        let fields = raw.slice(raw.len() - r.remaining()..);
        // Its fields may be wrong behind the id: the client waits for the end of the get nevertheless.
        let get = RemoteRequest::get_id(head.id, &mut Reader::new(&fields));
        let opening = get.filter(|get| self.entities.gets.is_free(*get).is_ok());
        let outcome = match RemoteRequest::decode(head.id, &mut r) {
            Ok(request) => self.carry_out(request).await,
            Err(error) => Err(error.to_string()),
        };
        let answer = match outcome {
            Ok(answer) => answer.unwrap_or(RemoteEvent::Done { request: head.id }),
            Err(problem) => {
                tracing::debug!(target: "zwire.http", "{}: request {} failed: {problem}", self.client.peer, head.id);
                if let (None, Some(get)) = (head.sequence, opening) {
                    let end = RemoteEvent::GetDone { get };
                    return vec![encode(&problem_reply(get, problem), None), encode(&end, None)];
                }
                RemoteEvent::Failed { problem: problem.into() }
            }
        };
        head.sequence.map(|sequence| encode(&answer, Some(sequence))).into_iter().collect()
    }

    async fn carry_out(&mut self, request: RemoteRequest) -> Outcome {
        use RemoteRequest as R;
        match request {
            R::Put { key, payload, encoding, attachment, timestamp, qos } => {
                let body = put(payload, encoding, attachment, timestamp);
                self.publish(key, body, qos).await
            }
            R::Delete { key, attachment, timestamp, qos } => {
                self.publish(key, delete(attachment, timestamp), qos).await
            }
            R::PublisherPut { publisher, payload, encoding, attachment, timestamp } => {
                let default = &self.entities.publishers.find(publisher)?.encoding;
                let encoding = encoding.unwrap_or_else(|| default.clone());
                self.publish_with(publisher, put(payload, encoding, attachment, timestamp)).await
            }
            R::PublisherDelete { publisher, attachment, timestamp } => {
                self.publish_with(publisher, delete(attachment, timestamp)).await
            }
            R::Get { id, key, parameters, payload, encoding, attachment, qos, settings, timeout_ms } => {
                let body = query_body(payload, encoding);
                let mut get = Get { parameters, body, attachment, ..Get::new(key) };
                set_options(&mut get, &querier_options(qos, settings, timeout_ms));
                self.get(id, get).await
            }
            R::QuerierGet { id, querier, parameters, payload, encoding, attachment } => {
                let querier = self.entities.queriers.find(querier)?;
                let body = query_body(payload, encoding);
                let mut get = Get { parameters, body, attachment, ..Get::new(querier.declared.key.clone()) };
                get.querier = Some(querier.declared.id);
                set_options(&mut get, &querier.options);
                self.get(id, get).await
            }
            R::ReplyOk { query, key, payload, encoding, attachment, timestamp, qos } => {
                let body = put(payload, encoding, attachment, timestamp);
                self.reply(query, QueryReplyBody::Sample { key, body }, Some(qos)).await
            }
            R::ReplyDel { query, key, attachment, timestamp, qos } => {
                let body = delete(attachment, timestamp);
                self.reply(query, QueryReplyBody::Sample { key, body }, Some(qos)).await
            }
            R::ReplyErr { query, payload, encoding } => {
                let error = ReplyError { encoding, payload, stamps: None };
                self.reply(query, QueryReplyBody::Err(error), None).await
            }
            other => self.declare(other),
        }
    }

    /// Carries out what needs no waiting.
    fn declare(&mut self, request: RemoteRequest) -> Outcome {
        use RemoteRequest as R;
        let Self { client, entities, bell, .. } = self;
        let (session, gate) = (&client.site.session, &client.gate);
        let declared = |id: EntityId, key: KeyExpr| Declared::new(session, id, key);
        match request {
            R::DeclarePublisher { id, key, encoding, qos } => {
                entities.room()?;
                entities.publishers.is_free(id)?;
                gate.publisher(&key)?;
                let options = PublisherOptions {
                    qos: qos.qos,
                    reliability: qos.reliability,
                    destination: qos.locality,
                };
                let entity = session.declare_publisher(key.clone(), options).map_err(told)?;
                let publisher = Publisher { declared: declared(entity, key.clone()), encoding, qos: qos.qos };
                entities.publishers.list(id, key, publisher);
            }
            R::DeclareSubscriber { id, key, origin } => {
                entities.room()?;
                entities.subscribers.is_free(id)?;
                gate.subscribe(&key)?;
                let options = SubscriberOptions { origin };
                let (entity, queue) =
                    session.declare_subscriber(key.clone(), options, WAITING).map_err(told)?;
                let one = (declared(entity, key.clone()), Inbox::with(queue, bell.clone()));
                entities.subscribers.list(id, key, one);
            }
            R::DeclareQueryable { id, key, complete, origin } => {
                entities.room()?;
                entities.queryables.is_free(id)?;
                gate.queryable(&key)?;
                let options = QueryableOptions { complete, origin };
                let (entity, queue) =
                    session.declare_queryable(key.clone(), options, WAITING).map_err(told)?;
                let one = (declared(entity, key.clone()), Inbox::with(queue, bell.clone()));
                entities.queryables.list(id, key, one);
            }
            R::DeclareQuerier { id, key, qos, settings, timeout_ms } => {
                entities.room()?;
                entities.queriers.is_free(id)?;
                gate.querier(&key)?;
                let options = querier_options(qos, settings, timeout_ms);
                let entity = session.declare_querier(key.clone(), options).map_err(told)?;
                let querier = Querier { declared: declared(entity, key.clone()), options };
                entities.queriers.list(id, key, querier);
            }
            R::DeclareToken { id, key } => {
                entities.room()?;
                entities.tokens.is_free(id)?;
                gate.token(&key)?;
                let entity = session.declare_token(key.clone()).map_err(told)?;
                entities.tokens.list(id, key.clone(), declared(entity, key));
            }
            R::DeclareLivelinessSubscriber { id, key, history } => {
                entities.room()?;
                entities.liveliness.is_free(id)?;
                gate.liveliness(&key, true)?;
                let (entity, queue) =
                    session.declare_liveliness_subscriber(key.clone(), history, WAITING).map_err(told)?;
                entities.liveliness.0.insert(id, (declared(entity, key), Inbox::with(queue, bell.clone())));
            }
            R::LivelinessGet { id, key, timeout_ms } => {
                entities.room()?;
                entities.gets.is_free(id)?;
                gate.liveliness(&key, false)?;
                let timeout = Duration::from_millis(timeout_ms.into());
                let (get, replies) =
                    session.liveliness_get(key.clone(), Some(timeout), REPLIES).map_err(told)?;
                let open = OpenGet::new(session, (get, key), replies, bell.clone());
                entities.gets.0.insert(id, RemoteGet { open, tokens: true });
            }
            R::UndeclarePublisher { id } => entities.publishers.remove(id)?,
            R::UndeclareSubscriber { id } => entities.subscribers.remove(id)?,
            R::UndeclareQueryable { id } => entities.queryables.remove(id)?,
            R::UndeclareQuerier { id } => entities.queriers.remove(id)?,
            R::UndeclareToken { id } => entities.tokens.remove(id)?,
            R::UndeclareLivelinessSubscriber { id } => entities.liveliness.remove(id)?,
            R::FinishQuery { query } => self.queries.finish(query)?,
            other => return self.inform(other),
        }
        Ok(None)
    }

    /// Carries out questions about the session, and declarations of listeners to its changes.
    fn inform(&mut self, request: RemoteRequest) -> Outcome {
        use RemoteRequest as R;
        let Self { client, entities, bell, .. } = self;
        let session = client.site.session.clone();
        match request {
            R::Ping {} => return Ok(Some(RemoteEvent::PingAck { uuid: self.uuid.clone().into() })),
            R::GetTimestamp {} => {
                let timestamp = session.new_timestamp().map_err(told)?;
                return Ok(Some(RemoteEvent::Timestamp { timestamp }));
            }
            R::GetSessionInfo {} => return Ok(Some(self.session_info())),
            R::GetMatchingStatus { publisher } => {
                let entity = entities.publishers.find(publisher)?.declared.id;
                let matching = session.matching(entity).map_err(told)?;
                return Ok(Some(RemoteEvent::MatchingStatus { matching }));
            }
            R::GetQuerierMatchingStatus { querier } => {
                let entity = entities.queriers.find(querier)?.declared.id;
                let matching = session.matching(entity).map_err(told)?;
                return Ok(Some(RemoteEvent::MatchingStatus { matching }));
            }
            R::GetTransports {} => {
                may_see_links(client)?;
                let mut nodes = BTreeMap::new();
                for link in session.link_infos() {
                    nodes.entry(link.zid).or_insert_with(|| transport(&link));
                }
                return Ok(Some(RemoteEvent::Transports { transports: nodes.into_values().collect() }));
            }
            R::GetLinks {} => {
                may_see_links(client)?;
                let links = session.link_infos().iter().map(|link| remote_link(link)).collect();
                return Ok(Some(RemoteEvent::Links { links }));
            }
            R::DeclareMatchingListener { id, publisher } => {
                let entity = entities.publishers.find(publisher)?.declared.id;
                self.listen_matching(id, entity)?;
            }
            R::DeclareQuerierMatchingListener { id, querier } => {
                let entity = entities.queriers.find(querier)?.declared.id;
                self.listen_matching(id, entity)?;
            }
            R::DeclareTransportListener { id, history } => {
                may_see_links(client)?;
                entities.room()?;
                entities.transports.is_free(id)?;
                let (number, queue) = session.listen_transports(history, WAITING).map_err(told)?;
                let listener = Connectivity { session, id: number, inbox: Inbox::with(queue, bell.clone()) };
                entities.transports.0.insert(id, listener);
            }
            R::DeclareLinkListener { id, history } => {
                may_see_links(client)?;
                entities.room()?;
                entities.links.is_free(id)?;
                let (number, queue) = session.listen_links(history, WAITING).map_err(told)?;
                let listener = Connectivity { session, id: number, inbox: Inbox::with(queue, bell.clone()) };
                entities.links.0.insert(id, listener);
            }
            R::UndeclareMatchingListener { id } => entities.matching.remove(id)?,
            R::UndeclareTransportListener { id } => entities.transports.remove(id)?,
            R::UndeclareLinkListener { id } => entities.links.remove(id)?,
            _ => return Err("the request is not known here".to_owned()),
        }
        Ok(None)
    }

    fn listen_matching(&mut self, id: u32, entity: EntityId) -> Result<(), String> {
        self.entities.room()?;
        self.entities.matching.is_free(id)?;
        let session = self.client.site.session.clone();
        let queue = session.matching_listener(entity, WAITING).map_err(told)?;
        let inbox = Inbox::with(queue, self.bell.clone());
        self.entities.matching.0.insert(id, MatchingListener { session, entity, inbox });
        Ok(())
    }

    fn session_info(&self) -> RemoteEvent {
        let session = &self.client.site.session;
        // Without leave to see the links the client learns of this node alone.
        let links = may_see_links(&self.client).map(|()| session.link_infos()).unwrap_or_default();
        let of = |role| {
            let mut zids: Vec<_> =
                links.iter().filter(|link| link.whatami == role).map(|link| link.zid).collect();
            zids.sort();
            zids.dedup();
            zids
        };
        let (mut routers, mut peers) = (of(WhatAmI::Router), of(WhatAmI::Peer));
        // The session of a client is that of its router.
        match session.config().mode {
            WhatAmI::Router => routers.push(session.zid()),
            WhatAmI::Peer => peers.push(session.zid()),
            WhatAmI::Client => {}
        }
        RemoteEvent::SessionInfo { zid: session.zid(), routers, peers }
    }

    async fn publish(&self, key: KeyExpr, body: PushBody, qos: RemoteQos) -> Outcome {
        self.client.gate.publish(&key, &body)?;
        let mut publication = Publication::new(key, body);
        publication.qos = qos.qos;
        publication.reliability = qos.reliability;
        publication.destination = qos.locality;
        node::put(&self.client.site.session, publication).await.map_err(told)?;
        Ok(None)
    }

    async fn publish_with(&self, publisher: u32, body: PushBody) -> Outcome {
        let publisher = self.entities.publishers.find(publisher)?;
        self.client.gate.publish(&publisher.declared.key, &body)?;
        let session = &self.client.site.session;
        node::publish(session, publisher.declared.id, publisher.qos, body).await.map_err(told)?;
        Ok(None)
    }

    async fn get(&mut self, id: u32, get: Get) -> Outcome {
        self.entities.room()?;
        self.entities.gets.is_free(id)?;
        self.client.gate.query(&get)?;
        let open = node::get(&self.client.site.session, get, self.bell.clone()).await.map_err(told)?;
        self.entities.gets.0.insert(id, RemoteGet { open, tokens: false });
        Ok(None)
    }

    async fn reply(&self, query: u32, body: QueryReplyBody, qos: Option<RemoteQos>) -> Outcome {
        let query = self.queries.find(query)?;
        match &body {
            QueryReplyBody::Sample { key, body } => {
                self.client.gate.answer(key, &ResponseBody::Reply(WireReply::new(body.clone())))?;
            }
            QueryReplyBody::Err(error) => {
                self.client.gate.answer(&query.key, &error_body(error.payload.clone()))?;
            }
        }
        let express = qos.map(|qos| qos.qos.express());
        node::reply(&query, QueryReply { body, express, stamps: None }).await.map_err(told)?;
        Ok(None)
    }

    /// The next event for the client. Kinds of entities, and the entities of each, take turns.
    pub(super) fn next_event(&mut self) -> Option<Vec<u8>> {
        self.next().map(|event| encode(&event, None))
    }

    fn next(&mut self) -> Option<RemoteEvent> {
        self.forget_refused_tokens();
        if let Some(event) = self.then.take() {
            return Some(event);
        }
        // Each kind has its turn, so that a busy one does not hold up the others.
        for _ in 0..KINDS {
            self.turn = (self.turn + 1) % KINDS;
            let event = match self.turn {
                0 => self.next_sample(),
                1 => self.next_token(),
                2 => self.next_query(),
                3 => self.next_reply(),
                4 => self.entities.next_matching(),
                _ => self.next_change(),
            };
            if event.is_some() {
                return event;
            }
        }
        None
    }

    /// Undeclares the tokens that the rules refuse since they have changed.
    fn forget_refused_tokens(&mut self) {
        let Self { client, entities, rules, .. } = self;
        let now = client.site.session.link_policy_changes();
        if *rules != now {
            *rules = now;
            entities.tokens.retain(|token| client.gate.token(&token.key).is_ok());
        }
    }

    fn next_sample(&mut self) -> Option<RemoteEvent> {
        let gate = &self.client.gate;
        self.entities.subscribers.in_turn(|id, (declared, inbox)| {
            while let Ok(Some(sample)) = inbox.queue.try_recv() {
                // The rules may have changed since the declaration, here and below.
                if gate.subscribe(&declared.key).is_ok() && gate.leave(&sample) {
                    return Some(sample_event(id, sample));
                }
            }
            None
        })
    }

    fn next_token(&mut self) -> Option<RemoteEvent> {
        let gate = &self.client.gate;
        self.entities.liveliness.in_turn(|id, (declared, inbox)| {
            while let Ok(Some(sample)) = inbox.queue.try_recv() {
                if gate.liveliness(&declared.key, true).is_ok() && gate.show_token(&sample.key) {
                    return Some(sample_event(id, sample));
                }
            }
            None
        })
    }

    fn next_query(&mut self) -> Option<RemoteEvent> {
        let gate = &self.client.gate;
        let (queryable, query) = self.entities.queryables.in_turn(|id, (declared, inbox)| {
            while let Ok(Some(query)) = inbox.queue.try_recv() {
                if gate.queryable(&declared.key).is_ok() && gate.ask_client(&query) {
                    return Some((id, query));
                }
            }
            None
        })?;
        let (key, parameters, attachment) =
            (query.key.clone(), query.parameters.clone(), query.attachment.clone());
        let (payload, encoding) =
            query.body.as_ref().map(|body| (body.payload.clone(), body.encoding.clone())).unzip();
        let any_key = u8::from(!query.accept_any_key);
        let query = self.queries.add(query);
        Some(RemoteEvent::Query { queryable, query, key, parameters, payload, encoding, attachment, any_key })
    }

    fn next_reply(&mut self) -> Option<RemoteEvent> {
        let gate = &self.client.gate;
        let (get, reply) = self.entities.gets.in_turn(|id, RemoteGet { open, tokens }| {
            loop {
                match open.queue.try_recv() {
                    Ok(Some(reply)) => {
                        let leaves = match &reply.result {
                            Ok(sample) if *tokens => gate.show_token(&sample.key),
                            _ => gate.reply(&open.key, &reply),
                        };
                        if leaves {
                            return Some((id, Ok(reply)));
                        }
                    }
                    Ok(None) => return None,
                    Err(_) => return Some((id, Err(open.lost()))),
                }
            }
        })?;
        let lost = match reply {
            Ok(reply) => return Some(RemoteEvent::Reply { get, reply: reply_of(reply) }),
            Err(lost) => lost,
        };
        self.entities.gets.0.remove(&get);
        let done = RemoteEvent::GetDone { get };
        let Some(problem) = lost else { return Some(done) };
        self.then = Some(done);
        Some(problem_reply(get, problem))
    }

    /// The next change of a transport or a link.
    fn next_change(&mut self) -> Option<RemoteEvent> {
        let Self { client, entities, .. } = self;
        let is_told = || may_see_links(client).is_ok();
        let transports = entities.transports.in_turn(|listener, one| {
            while let Ok(Some(event)) = one.inbox.queue.try_recv() {
                if is_told() {
                    let (kind, transport) = (kind_of(&event.change), transport(&event.link));
                    return Some(RemoteEvent::TransportChanged { listener, kind, transport });
                }
            }
            None
        });
        transports.or_else(|| {
            entities.links.in_turn(|listener, one| {
                while let Ok(Some(event)) = one.inbox.queue.try_recv() {
                    if is_told() {
                        let (kind, link) = (kind_of(&event.change), remote_link(&event.link));
                        return Some(RemoteEvent::LinkChanged { listener, kind, link });
                    }
                }
                None
            })
        })
    }
}

impl Entities {
    /// The next change of a matching state.
    fn next_matching(&mut self) -> Option<RemoteEvent> {
        self.matching.in_turn(|listener, one| {
            let matching = one.inbox.queue.try_recv().ok()??;
            Some(RemoteEvent::MatchingChanged { listener, matching })
        })
    }
}

/// Whether a client may know the links of the node: as it may read them in the admin space.
fn may_see_links(client: &Client) -> Result<(), Problem> {
    client.gate.admin("session/**")
}

/// Reply that tells why others are missing.
fn problem_reply(get: u32, problem: String) -> RemoteEvent {
    let (payload, encoding) = (Payload::from(problem.into_bytes()), Encoding::from_text("text/plain"));
    RemoteEvent::Reply { get, reply: RemoteReply::Error { payload, encoding } }
}

fn encode(event: &RemoteEvent, sequence: Option<u32>) -> Vec<u8> {
    let mut raw = Vec::new();
    event.encode(sequence, &mut raw);
    raw
}

/// Random id of a connection (RFC 9562, version 4).
fn uuid() -> String {
    let mut octets = [0; 16];
    // Without random numbers the id is the same for all connections, and one is listed.
    let _ = getrandom::fill(&mut octets);
    octets[6] = octets[6] & 0x0f | 0x40;
    octets[8] = octets[8] & 0x3f | 0x80;
    let hex = data_encoding::HEXLOWER.encode(&octets);
    [&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]].join("-")
}

fn put(
    payload: Payload,
    encoding: Encoding,
    attachment: Option<Bytes>,
    timestamp: Option<Timestamp>,
) -> PushBody {
    PushBody::Put(Put { encoding, attachment, timestamp, payload, ..Put::default() })
}

fn delete(attachment: Option<Bytes>, timestamp: Option<Timestamp>) -> PushBody {
    PushBody::Del(Del { attachment, timestamp, ..Del::default() })
}

fn query_body(payload: Option<Payload>, encoding: Option<Encoding>) -> Option<QueryBody> {
    let has_body = payload.is_some() || encoding.is_some();
    has_body.then(|| QueryBody {
        encoding: encoding.unwrap_or_default(),
        shm: false,
        payload: payload.unwrap_or_default(),
    })
}

fn querier_options(qos: RemoteQos, settings: RemoteSettings, timeout_ms: u32) -> QuerierOptions {
    QuerierOptions {
        target: settings.target,
        consolidation: settings.consolidation,
        timeout: Some(Duration::from_millis(timeout_ms.into())),
        budget: None,
        qos: qos.qos,
        accept_any_key: settings.accept_any_key,
        destination: qos.locality,
    }
}

fn set_options(get: &mut Get, options: &QuerierOptions) {
    get.target = options.target;
    get.consolidation = options.consolidation;
    get.timeout = options.timeout;
    get.qos = options.qos;
    get.accept_any_key = options.accept_any_key;
    get.destination = options.destination;
}

/// QoS as a client is told. The first of several messages to wait is told as one that is dropped.
fn told_qos(qos: Qos, reliability: Reliability) -> RemoteQos {
    let congestion = match qos.congestion() {
        CongestionControl::Block => CongestionControl::Block,
        CongestionControl::Drop | CongestionControl::BlockFirst => CongestionControl::Drop,
    };
    // The published client knows no priority above real time.
    let priority = qos.priority().max(Priority::RealTime);
    RemoteQos::received(Qos::new(priority, congestion, qos.express()), reliability)
}

fn sample_event(subscriber: u32, sample: Sample) -> RemoteEvent {
    let Sample { key, kind, payload, encoding, timestamp, qos, reliability, attachment, .. } = sample;
    let qos = told_qos(qos, reliability);
    RemoteEvent::Sample { subscriber, key, payload, kind, encoding, attachment, timestamp, qos }
}

fn reply_of(reply: Reply) -> RemoteReply {
    match reply.result {
        Ok(Sample { key, kind, payload, encoding, timestamp, qos, reliability, attachment, .. }) => {
            let qos = told_qos(qos, reliability);
            RemoteReply::Sample { key, payload, kind, encoding, attachment, timestamp, qos }
        }
        Err(ReplyError { encoding, payload, .. }) => RemoteReply::Error { payload, encoding },
    }
}

const fn kind_of(change: &Change) -> SampleKind {
    match change {
        Change::Connected | Change::Reconnected => SampleKind::Put,
        Change::Disconnected(_) => SampleKind::Delete,
    }
}

fn transport(link: &LinkInfo) -> RemoteTransport {
    RemoteTransport {
        zid: link.zid,
        whatami: link.whatami.to_mask(),
        qos: link.qos,
        multicast: link.group.is_some(),
    }
}

fn remote_link(link: &LinkInfo) -> RemoteLink {
    RemoteLink {
        zid: link.zid,
        src: link.src.clone().into(),
        dst: link.dst.clone().into(),
        group: link.group.clone().map(Into::into),
        mtu: link.mtu,
        streamed: link.streamed,
        interfaces: link.interfaces.iter().cloned().map(Into::into).collect(),
        auth_identifier: link.user.clone().map(Into::into),
        priorities: link.priorities.map(|(first, last)| (first as u8, last as u8)),
        reliability: Some(u8::from(link.reliability == Reliability::Reliable)),
    }
}
