//! Commands of a session for tasks, which must not block their thread, and receiving from its queues.

use core::ops::Deref;
use std::sync::Arc;
use tokio::{
    sync::{Notify, oneshot},
    task::spawn_blocking,
};
use zwire_engine::{
    Caller, Deferred, Error, Full, Handler, Patience, Query, Queue, Replies, Session, queue::Weigh,
};
use zwire_proto::zenoh::{
    KeyExpr, Qos,
    session::{EntityId, Get, GetId, Publication, QueryReply, Reply},
    wire::PushBody,
};

/// Caller of a command: a task, or a thread that may block.
enum Waiting {
    Task(Deferred),
    Thread,
}

impl Caller for Waiting {
    fn aside<R: Send>(&mut self, work: impl FnOnce(&mut Patience<'_>) -> R + Send) -> R {
        match self {
            Self::Task(room) => work(&mut Patience::Defer(room)),
            Self::Thread => work(&mut Patience::Block(&mut || false)),
        }
    }
}

/// Waits for the room that a command needed.
async fn wait(room: Deferred) {
    if room.is_empty() {
        return;
    }
    let (sender, done) = oneshot::channel();
    room.wait(move || {
        // The task that waits may have ended.
        let _ = sender.send(());
    });
    // The sender is dropped with the runtime.
    let _ = done.await;
}

/// Runs a command; in a thread that may block if it has to wait before it begins.
async fn command<A, R>(
    args: A,
    act: impl Fn(A, &mut Waiting) -> Result<R, Error> + Send + 'static,
) -> Result<R, Error>
where
    A: Clone + Send + 'static,
    R: Send + 'static,
{
    let mut caller = Waiting::Task(Deferred::default());
    match act(args.clone(), &mut caller) {
        Err(Error::WouldBlock) => {
            let blocking = spawn_blocking(move || act(args, &mut Waiting::Thread));
            blocking.await.unwrap_or(Err(Error::Closed))
        }
        done => {
            if let Waiting::Task(room) = caller {
                wait(room).await;
            }
            done
        }
    }
}

/// Publishes or deletes.
pub(crate) async fn put(session: &Session, publication: Publication) -> Result<(), Error> {
    let args = (session.clone(), publication);
    command(args, |(session, publication), caller| session.put(publication, caller).map(drop)).await
}

/// Sends a reply of a queryable.
pub(crate) async fn reply(query: &Arc<Query>, reply: QueryReply) -> Result<(), Error> {
    command((query.clone(), reply), |(query, reply), caller| query.reply(reply, caller)).await
}

/// Publishes or deletes with a publisher.
pub(crate) async fn publish(
    session: &Session,
    publisher: EntityId,
    qos: Qos,
    body: PushBody,
) -> Result<(), Error> {
    let args = (session.clone(), body);
    let publish = move |(session, body): (Session, PushBody), caller: &mut Waiting| {
        session.publish(publisher, qos, body, None, caller).map(drop)
    };
    command(args, publish).await
}

/// Replies of a get that wait for its client. The newest are dropped beyond, and the client is told: a client that does
/// not read holds up no other receiver of the session.
pub(crate) const REPLIES: Handler = Handler::Channel(65_536, Full::DropNewest);

/// Queries, and returns the open get. `ready` is notified of its replies.
pub(crate) async fn get(session: &Session, get: Get, ready: Arc<Notify>) -> Result<OpenGet, Error> {
    let key = get.key.clone();
    let args = (session.clone(), get);
    let asked = command(args, |(session, get), caller| session.get(get, REPLIES, caller)).await;
    asked.map(|(id, replies)| OpenGet::new(session, (id, key), replies, ready))
}

/// Replies of a get. It is cancelled when this is dropped.
pub(crate) struct OpenGet {
    session: Session,
    id: GetId,
    pub(crate) key: KeyExpr,
    replies: Replies,
    inbox: Inbox<Reply>,
}

impl OpenGet {
    pub(crate) fn new(
        session: &Session,
        (id, key): (GetId, KeyExpr),
        replies: Replies,
        ready: Arc<Notify>,
    ) -> Self {
        let inbox = Inbox::with(replies.queue.clone(), ready);
        Self { session: session.clone(), id, key, replies, inbox }
    }

    /// Reason why the replies are incomplete: some were dropped because they were not taken in time.
    pub(crate) fn lost(&self) -> Option<String> {
        let dropped = self.replies.queue.dropped();
        (dropped > 0).then(|| {
            format!("{dropped} replies were dropped, because the client did not take them in time: ask for fewer keys")
        })
    }
}

impl Deref for OpenGet {
    type Target = Inbox<Reply>;
    fn deref(&self) -> &Self::Target {
        &self.inbox
    }
}

impl Drop for OpenGet {
    fn drop(&mut self) {
        if self.replies.done.get().is_none() {
            // It fails if the session is closed, which ended the get.
            let _ = self.session.cancel(self.id);
        }
    }
}

/// Declared entity. It is undeclared when this is dropped.
pub(crate) struct Declared {
    session: Session,
    pub(crate) id: EntityId,
    pub(crate) key: KeyExpr,
}

impl Declared {
    pub(crate) fn new(session: &Session, id: EntityId, key: KeyExpr) -> Self {
        Self { session: session.clone(), id, key }
    }
}

impl Drop for Declared {
    fn drop(&mut self) {
        // It fails if the session is closed, which undeclared everything.
        let _ = self.session.undeclare(self.id);
    }
}

/// Queue of the session, as a task receives from it.
pub(crate) struct Inbox<T> {
    pub(crate) queue: Arc<Queue<T>>,
    ready: Arc<Notify>,
}

impl<T: Weigh> Inbox<T> {
    pub(crate) fn new(queue: Arc<Queue<T>>) -> Self {
        Self::with(queue, Arc::default())
    }

    /// Notifies `ready` of items, and of the end.
    pub(crate) fn with(queue: Arc<Queue<T>>, ready: Arc<Notify>) -> Self {
        let waker = ready.clone();
        queue.set_waker(Some(Arc::new(move || waker.notify_one())));
        Self { queue, ready }
    }

    /// The next item; `None` once the queue is closed and empty.
    pub(crate) async fn next(&self) -> Option<T> {
        loop {
            match self.queue.try_recv() {
                Ok(Some(item)) => return Some(item),
                Ok(None) => self.ready.notified().await,
                Err(_) => return None,
            }
        }
    }
}
