"""A node in a process of its own: commands from stdin, answers to stdout, one JSON object per line.

``python peer.py MODULE`` runs with ``zenoh`` and with ``zwire.zenoh``: the two have the same interface, so
the same script plays every role of either. With a descriptor as its second argument it forks such processes.
What it needs is in the 1.0 release of eclipse-zenoh as well, unless the command itself came later.
"""

import base64
import datetime as dt
import hashlib
import importlib
import itertools
import json
import os
import pickle
import random
import socket
import sys
import threading
import time
import traceback
from pathlib import Path

import starter

# Payloads up to this size are reported whole, larger ones as length and digest.
WHOLE = 1024


def data(spec):
    """Make bytes of a text, or random ones of a seed."""
    if spec is None:
        return None
    if isinstance(spec, str):
        return spec.encode()
    if isinstance(spec, list):
        return bytes(spec)
    made = random.Random(spec["seed"]).randbytes(spec["size"])
    return divided(made, spec["lengths"]) if "lengths" in spec else made


def divided(made, lengths):
    """Cut into buffers of several types; the last one has the rest."""
    cuts = [0, *itertools.accumulate(lengths), len(made)]
    pieces = (made[start:end] for start, end in itertools.pairwise(cuts))
    kinds = itertools.cycle((bytes, bytearray, memoryview))
    return [kind(piece) for kind, piece in zip(kinds, pieces, strict=False)]


def show(payload):
    """The value of :func:`data`, in a form that JSON holds."""
    if payload is None:
        return None
    raw = payload.to_bytes()
    if len(raw) > WHOLE:
        return {"size": len(raw), "sha256": hashlib.sha256(raw).hexdigest()}
    return base64.b64encode(raw).decode()


def optional(value):
    return None if value is None else str(value)


class Counter:
    """A callback for many messages: counts, and checks the number that each payload starts with."""

    def __init__(self):
        self.count = 0
        self.misplaced = 0
        self.first = self.last = 0.0

    def __call__(self, sample):
        number = int.from_bytes(sample.payload.to_bytes()[:8], "little")
        if number != self.count:
            self.misplaced += 1
        self.count += 1
        self.last = time.monotonic()

    def __len__(self):
        return self.count


class Latencies:
    """A callback for messages of :meth:`Node.pace`: when each was put and when it came (ns)."""

    def __init__(self):
        self.times = []

    def __call__(self, sample):
        sent = int.from_bytes(sample.payload.to_bytes()[:8], "little")
        self.times.append((sent, time.monotonic_ns()))

    def __len__(self):
        return len(self.times)


class Collector:
    """A callback that keeps what it gets."""

    def __init__(self, describe):
        self.describe = describe
        self.items = []

    def __call__(self, item):
        self.items.append(dict(self.describe(item), at=time.monotonic()))

    def __len__(self):
        return len(self.items)


class Node:
    def __init__(self, module):
        self.z = module
        self.session = None
        self.things = {}
        self.sinks = {}
        self.held = []

    # ---- describing -----------------------------------------------------------------------------

    def name(self, cls, value):
        """The name of a member, also for enumerations that are no Python enums."""
        for name in dir(cls):
            if name.isupper() and name not in ("DEFAULT", "MAX", "MIN") and getattr(cls, name) == value:
                return name
        raise ValueError(f"{value!r} is no {cls.__name__}")

    def sample(self, s):
        z = self.z
        return {
            "key": str(s.key_expr),
            "kind": self.name(z.SampleKind, s.kind),
            "payload": show(s.payload),
            "encoding": str(s.encoding),
            "attachment": show(s.attachment),
            "timestamp": optional(s.timestamp),
            "priority": self.name(z.Priority, s.priority),
            "congestion": self.name(z.CongestionControl, s.congestion_control),
            "express": s.express,
        }

    def reply(self, r):
        if r.ok is not None:
            return dict(self.sample(r.ok), ok=True)
        return {"ok": False, "payload": show(r.err.payload), "encoding": str(r.err.encoding)}

    def query(self, q):
        return {
            "key": str(q.key_expr),
            "parameters": str(q.parameters),
            "payload": show(q.payload),
            "encoding": optional(q.encoding),
            "attachment": show(q.attachment),
        }

    # ---- arguments ------------------------------------------------------------------------------

    def member(self, cls, name):
        return getattr(getattr(self.z, cls), name)

    def options(self, given):
        """Convert the fields of a command to keyword arguments."""
        kinds = {
            "priority": "Priority",
            "congestion_control": "CongestionControl",
            "target": "QueryTarget",
            "consolidation": "ConsolidationMode",
            "accept_replies": "ReplyKeyExpr",
            "allowed_destination": "Locality",
            "allowed_origin": "Locality",
            "reliability": "Reliability",
        }
        made = dict(given)
        for field, value in given.items():
            if field in kinds:
                made[field] = self.member(kinds[field], value)
            elif field in ("payload", "attachment"):
                made[field] = data(value)
            elif field == "timestamp":
                made[field] = self.things[value]
        return made

    def sink(self, name, what):
        self.sinks[name] = what
        return what

    def handler(self, kind, sink):
        """The handler argument: the sink itself, or a channel that a command reads later.

        ``direct`` is the sink in the thread of the network where the module has that; a plain callback has a
        thread of its own there, which may lag behind.
        """
        if kind == "callback":
            return sink
        if kind == "direct":
            return self.z.handlers.Callback(sink, indirect=False)
        if kind.startswith("fifo"):
            return self.z.handlers.FifoChannel(int(kind[5:]))
        if kind.startswith("ring"):
            return self.z.handlers.RingChannel(int(kind[5:]))
        return None

    # ---- commands -------------------------------------------------------------------------------

    def open(self, settings):
        config = self.z.Config()
        for path, value in settings.items():
            config.insert_json5(path, json.dumps(value))
        start = time.monotonic()
        self.session = self.z.open(config)
        zid = self.session.zid() if callable(getattr(self.session, "zid", None)) else self.session.info.zid()
        listening = self.session.listening() if hasattr(self.session, "listening") else []
        return {"zid": str(zid), "listening": listening, "seconds": time.monotonic() - start}

    def close(self):
        self.session.close()

    def reset(self):
        """End the session; the process can be used like a new one."""
        if self.session is not None:
            self.session.close()
        self.session = None
        self.things.clear()
        self.sinks.clear()
        self.held.clear()

    def info(self):
        return {
            "routers": [str(z) for z in self.session.info.routers_zid()],
            "peers": [str(z) for z in self.session.info.peers_zid()],
        }

    def scout(self, settings, what, seconds):
        """The nodes that answer in that time, by id."""
        config = self.z.Config()
        for path, value in settings.items():
            config.insert_json5(path, json.dumps(value))
        found = {}
        end = time.monotonic() + seconds
        with self.z.scout(what=what, config=config) as scout:
            while time.monotonic() < end:
                hello = scout.try_recv()
                if hello is None:
                    time.sleep(0.005)
                    continue
                role = self.name(self.z.WhatAmI, hello.whatami)
                found[str(hello.zid)] = {"role": role, "locators": list(hello.locators)}
        return found

    def transport_events(self, name):
        """Collect the session's events of neighbours that connect and disconnect."""
        sink = self.sink(
            name,
            Collector(
                lambda event: {
                    "kind": self.name(self.z.SampleKind, event.kind),
                    "zid": str(event.transport.zid),
                    # Only zwire has these two.
                    "change": getattr(event, "change", None),
                    "reason": getattr(event, "reason", None),
                }
            ),
        )
        self.things[name] = self.session.info.declare_transport_events_listener(sink)

    def join_mesh(self, connect):
        """Open a further session, a peer connected to those; return its listening endpoint."""
        mesh = self.things.setdefault("mesh", [])
        config = self.z.Config()
        for path, value in {
            "mode": "peer",
            "scouting/multicast/enabled": False,
            "scouting/gossip/enabled": False,
            "scouting/delay": 0,
            "listen/endpoints": ["tcp/127.0.0.1:0"],
            "connect/endpoints": connect,
        }.items():
            config.insert_json5(path, json.dumps(value))
        mesh.append(self.z.open(config))
        return mesh[-1].listening()

    def mesh_sizes(self):
        """The number of peers that each of these sessions knows."""
        return [len(list(session.info.peers_zid())) for session in self.things["mesh"]]

    def subscribe_many(self, prefix, upto):
        """Subscribe to further numbered keys; return the seconds until the neighbours know."""
        made = self.things.setdefault(prefix, [])
        start = time.monotonic()
        made += [self.session.declare_subscriber(f"{prefix}/{number}") for number in range(len(made), upto)]
        made[-1].wait_ready(30)
        return time.monotonic() - start

    def take_many(self, prefix):
        """The number of those subscriptions that had a message."""
        return sum(subscriber.try_recv() is not None for subscriber in self.things[prefix])

    def touch_many(self, prefix, count):
        """Put once on each of the numbered keys; return the time taken."""
        block = self.z.CongestionControl.BLOCK
        start = time.monotonic()
        for number in range(count):
            self.session.put(f"{prefix}/{number}", b"", congestion_control=block)
        return time.monotonic() - start

    def memory(self):
        """Resident bytes of this process."""
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")

    def stats(self):
        return self.session.stats()

    def keyexpr(self, name, key):
        self.things[name] = self.session.declare_keyexpr(key)

    def new_timestamp(self, name):
        self.things[name] = self.session.new_timestamp()
        return str(self.things[name])

    def subscribe(self, name, key, count=False, handler="callback", **options):
        sink = self.sink(name, Counter() if count else Collector(self.sample))
        key = self.things.get(key, key)
        made = self.session.declare_subscriber(key, self.handler(handler, sink), **self.options(options))
        self.things[name] = made

    def take(self, name, count):
        """Up to ``count`` items that a channel holds right now."""
        items = []
        while len(items) < count:
            item = self.things[name].try_recv()
            if item is None:
                break
            items.append(self.sample(item))
        return items

    def recv(self, name):
        return self.sample(self.things[name].recv())

    def received(self, name, count, seconds):
        """Wait until ``count`` items have come; there may be more."""
        sink = self.sinks[name]
        end = time.monotonic() + seconds
        while len(sink) < count and time.monotonic() < end:
            time.sleep(0.002)
        if isinstance(sink, Counter):
            return {"count": sink.count, "misplaced": sink.misplaced}
        return sink.items

    def forget(self, name):
        """Empty the list that :meth:`received` returns."""
        self.sinks[name].items.clear()

    def put(self, key, payload, **options):
        self.session.put(self.things.get(key, key), data(payload), **self.options(options))

    def delete(self, key, **options):
        self.session.delete(self.things.get(key, key), **self.options(options))

    def publisher(self, name, key, **options):
        self.things[name] = self.session.declare_publisher(self.things.get(key, key), **self.options(options))

    def publish(self, name, payload, **options):
        self.things[name].put(data(payload), **self.options(options))

    def publish_delete(self, name, **options):
        self.things[name].delete(**self.options(options))

    def matching(self, name):
        return bool(self.things[name].matching_status.matching)

    def matching_listener(self, name, of):
        sink = self.sink(name, Collector(lambda status: {"matching": status.matching}))
        self.things[name] = self.things[of].declare_matching_listener(sink)

    def flood(self, key, count, size, congestion_control="BLOCK"):
        """Puts numbered payloads, through a publisher if there is one of that name."""
        block = self.member("CongestionControl", congestion_control)
        rest = bytes(size - 8)
        start = time.monotonic()
        if key in self.things:
            put = self.things[key].put
            for number in range(count):
                put(number.to_bytes(8, "little") + rest)
        else:
            put = self.session.put
            for number in range(count):
                put(key, number.to_bytes(8, "little") + rest, congestion_control=block)
        return time.monotonic() - start

    def pace(self, key, seconds, size=8, rate=None, **options):
        """Put payloads with the time in them for that long, at a rate or as fast as possible."""
        options = self.options(options)
        rest = bytes(size - 8)
        start = time.monotonic()
        count = 0
        while (now := time.monotonic()) < start + seconds:
            if rate and (wait := start + count / rate - now) > 0:
                time.sleep(wait)
            self.session.put(key, time.monotonic_ns().to_bytes(8, "little") + rest, **options)
            count += 1
        return {"count": count, "seconds": time.monotonic() - start}

    def latency_subscribe(self, name, key):
        self.things[name] = self.session.declare_subscriber(key, self.sink(name, Latencies()))

    def count(self, name):
        return len(self.sinks[name])

    def times(self, name):
        """Times of put and receipt of the messages since the last call (ns of the monotonic clock)."""
        times = self.sinks[name].times
        self.sinks[name].times = []
        return times

    def latencies(self, name):
        """The ages of the messages that came since the last call (s), in order."""
        return sorted((came - sent) / 1e9 for sent, came in self.times(name))

    def trickle(self, key, period, size=8):
        """Put in the background until ``stop``; count puts refused while there is no link."""
        counts = {"sent": 0, "refused": 0}
        end = threading.Event()

        def run():
            while not end.wait(period):
                try:
                    self.session.put(key, counts["sent"].to_bytes(8, "little") + bytes(size - 8))
                    counts["sent"] += 1
                except self.z.ZError:
                    counts["refused"] += 1

        thread = threading.Thread(target=run)
        thread.start()
        self.things["trickle"] = (end, thread, counts)

    def bulk(self, key, size, **options):
        """Puts one large payload after the other in the background until ``stop_bulk``."""
        end = threading.Event()
        options = self.options({"congestion_control": "BLOCK", **options})
        payload = bytes(size)

        def run():
            while not end.is_set():
                self.session.put(key, payload, **options)

        thread = threading.Thread(target=run)
        thread.start()
        self.things["bulk"] = (end, thread)

    def stop_bulk(self):
        end, thread = self.things.pop("bulk")
        end.set()
        thread.join()

    def stop(self):
        end, thread, counts = self.things.pop("trickle")
        end.set()
        thread.join()
        return counts

    def queryable(self, name, key, script, **options):
        described = self.sink(name, Collector(self.query))
        holds = any(step["do"] == "hold" for step in script)

        def answer(query):
            described(query)
            if holds:
                # A query that is held, to be answered again, has to leave the callback.
                threading.Thread(target=run, args=(query,)).start()
            else:
                run(query)

        def run(query):
            for step in map(dict, script):
                do = step.pop("do")
                if do == "sleep":
                    time.sleep(step["seconds"])
                elif do in ("hold", "keep"):
                    self.held.append(query)
                elif do == "raise":
                    raise RuntimeError("the callback of a test fails on purpose")
                elif do == "err":
                    query.reply_err(data(step.pop("payload")), **self.options(step))
                else:
                    to = step.pop("key", None) or query.key_expr
                    if do == "reply":
                        query.reply(to, data(step.pop("payload")), **self.options(step))
                    else:
                        query.reply_del(to, **self.options(step))
            if not any(step["do"] in ("hold", "keep") for step in script) and hasattr(query, "drop"):
                query.drop()

        self.things[name] = self.session.declare_queryable(key, answer, **self.options(options))

    def serve(self, name, key):
        """Answers in a loop."""
        self.things[name] = queryable = self.session.declare_queryable(key)
        loop = lambda: [query.reply(key, b"x") for query in queryable]  # noqa: E731
        threading.Thread(target=loop, daemon=True).start()

    def advanced_publisher(self, name, key, cache=None, detect=None, detection=False, **options):
        """`detect` holds the periods of heartbeats."""
        ext = importlib.import_module(self.z.__name__ + ".ext")
        self.things[name] = ext.declare_advanced_publisher(
            self.session,
            key,
            cache=None if cache is None else ext.CacheConfig(cache),
            sample_miss_detection=None if detect is None else ext.MissDetectionConfig(**detect),
            publisher_detection=detection,
            **self.options(options),
        )
        return str(self.things[name].id.zid), str(self.things[name].id.eid)

    def publish_numbers(self, name, start, end, period=0.0):
        """Publish numbers as decimal digits."""
        for number in range(start, end):
            self.things[name].put(str(number))
            if period:
                time.sleep(period)

    def advanced_subscribe(self, name, key, history=None, recovery=None, **options):
        ext = importlib.import_module(self.z.__name__ + ".ext")
        if recovery and "periodic_queries" in recovery:
            # eclipse-zenoh takes a timedelta; its stubs say seconds.
            recovery = {"periodic_queries": dt.timedelta(seconds=recovery["periodic_queries"])}
        came = Collector(
            lambda sample: {
                "source": sample.source_info and str(sample.source_info.source_id.eid),
                "number": int(bytes(sample.payload.to_bytes()) or b"-1"),
                "kind": self.name(self.z.SampleKind, sample.kind),
            }
        )
        misses = Collector(lambda miss: {"source": str(miss.source.eid), "nb": miss.nb})
        self.things[name] = ext.declare_advanced_subscriber(
            self.session,
            key,
            self.sink(name, came),
            history=None if history is None else ext.HistoryConfig(**history),
            recovery=None if recovery is None else ext.RecoveryConfig(**recovery),
            **self.options(options),
        )
        self.things[f"{name} misses"] = self.things[name].sample_miss_listener(
            self.sink(f"{name} misses", misses)
        )

    def detect_publishers(self, name, of, history):
        sink = self.sink(name, Collector(self.sample))
        self.things[name] = self.things[of].detect_publishers(sink, history=history)

    def followed(self, name, count=0, seconds=0.0):
        """Samples received and missed, once both together reach ``count``."""
        came, misses = self.sinks[name], self.sinks[f"{name} misses"]
        end = time.monotonic() + seconds
        while len(came) + sum(miss["nb"] for miss in list(misses.items)) < count and time.monotonic() < end:
            time.sleep(0.002)
        return {"came": list(came.items), "misses": list(misses.items)}

    def release(self):
        """Drop the held queries."""
        for query in self.held:
            if hasattr(query, "drop"):
                query.drop()
        self.held.clear()

    def replies(self, ask):
        """All replies, each with its time, and how long it took until there were no more."""
        start = time.monotonic()
        replies = [dict(self.reply(r), after=time.monotonic() - start) for r in ask()]
        return {"replies": replies, "seconds": time.monotonic() - start}

    def get(self, selector, **options):
        return self.replies(lambda: self.session.get(selector, **self.options(options)))

    def get_many(self, selector, count):
        """Make ``count`` gets one after the other; return the number of replies and the time taken."""
        start = time.monotonic()
        replies = sum(len(list(self.session.get(selector))) for _ in range(count))
        return {"replies": replies, "seconds": time.monotonic() - start}

    def querier(self, name, key, **options):
        self.things[name] = self.session.declare_querier(key, **self.options(options))

    def querier_get(self, name, **options):
        return self.replies(lambda: self.things[name].get(**self.options(options)))

    def placed(self, payload):
        """The payload, and whether it came in shared memory."""
        return {"payload": show(payload), "shm": payload is not None and payload.as_shm() is not None}

    def watch(self, name, key):
        """Subscribe; of each sample tell whether its payload came in shared memory."""
        sink = self.sink(name, Collector(lambda sample: self.placed(sample.payload)))
        self.things[name] = self.session.declare_subscriber(key, sink)

    def echo(self, name, key):
        """Answer each query with its payload; of each tell whether it came in shared memory."""
        sink = self.sink(name, Collector(lambda query: self.placed(query.payload)))

        def answer(query):
            sink(query)
            if str(query.parameters) == "err":
                query.reply_err(query.payload)
            else:
                query.reply(query.key_expr, query.payload)
            query.drop()

        self.things[name] = self.session.declare_queryable(key, answer)

    def ask(self, selector, payload):
        """Replies to a query with a payload, and whether theirs came in shared memory."""
        replies = self.session.get(selector, payload=data(payload))
        return [self.placed((reply.ok or reply.err).payload) for reply in replies]

    def hold(self, name, key, count, digests=True):
        """Subscribe, and keep the payloads of the first samples; without digests no large one is read."""
        kept = self.things[f"kept {name}"] = []

        def describe(sample):
            if digests or len(sample.payload) <= WHOLE:
                return self.placed(sample.payload)
            return {"payload": None, "shm": sample.payload.as_shm() is not None}

        sink = self.sink(name, Collector(describe))

        def keep(sample):
            if len(kept) < count:
                kept.append(sample.payload)
            sink(sample)

        self.things[name] = self.session.declare_subscriber(key, keep)

    def provide(self, key, payload):
        """Put a payload in memory of a provider."""
        made, shm = data(payload), self.z.shm
        if "provider" not in self.things:
            self.things["provider"] = shm.ShmProvider.default_backend(72 << 20)
        buffer = self.things["provider"].alloc(len(made), shm.BlockOn(shm.GarbageCollect()))
        buffer[0 : len(made)] = made
        self.session.put(key, buffer, congestion_control=self.z.CongestionControl.BLOCK)

    def channel(self, name, key):
        """Subscribe without a callback."""
        self.things[name] = self.session.declare_subscriber(key)

    def rows(self, name, seconds):
        """The payloads of a batch of a subscriber of ours."""
        batch = self.things[name].recv_batch(timeout=seconds)
        column = importlib.import_module("pyarrow").record_batch(batch)["payload"]
        return [show(self.z.ZBytes(payload.as_buffer())) for payload in column]

    def seize(self, key, payload, pool):
        """Put a payload in memory of a provider of that size, which frees buffers that are in use."""
        made, shm = data(payload), self.z.shm
        if "seizer" not in self.things:
            self.things["seizer"] = shm.ShmProvider.default_backend(pool)
        policy = shm.Deallocate(1, shm.GarbageCollect(), shm.GarbageCollect(safe=False))
        buffer = self.things["seizer"].alloc(len(made), policy)
        buffer[0 : len(made)] = made
        self.session.put(key, buffer, congestion_control=self.z.CongestionControl.BLOCK)

    def kept(self, name):
        """The payloads of :meth:`hold`, as they are now."""
        return [show(payload) for payload in self.things[f"kept {name}"]]

    def views(self, name):
        """The kept payloads of a node of ours as they are in memory, and errors of reading them otherwise."""
        numpy, kept = importlib.import_module("numpy"), self.things[f"kept {name}"]
        views = self.things.setdefault(f"views {name}", [])
        views += [numpy.frombuffer(payload, "u1") for payload in kept[len(views) :]]
        ways = {
            "bytes": bytes,
            "to_bytes": lambda payload: payload.to_bytes(),
            "to_string": lambda payload: payload.to_string(),
            "shm": lambda payload: bytes(payload.as_shm()),
            "slice": lambda payload: payload[1:5],
            "step": lambda payload: payload[1:5:2],
            "index": lambda payload: payload[-1],
            "iter": lambda payload: next(iter(payload)),
            "hash": hash,
            "equal": lambda payload: payload == b"other",
            "pickle": pickle.dumps,
            "ZBytes": self.z.ZBytes,
            "put": lambda payload: self.session.put("to/nobody", payload),
            "put parts": lambda payload: self.session.put("to/nobody", [b"head", payload]),
            "typed": lambda payload: importlib.import_module("zwire.typed").decode(payload, "a", memoryview),
        }
        shown = []
        for payload, view in zip(kept, views, strict=True):
            errors = {}
            for way, read in ways.items():
                try:
                    read(payload)
                except Exception as error:  # noqa: BLE001 - the test decides what an error means
                    errors[way] = type(error).__name__
            shown.append(
                {
                    "address": view.ctypes.data,
                    "view": {"size": len(view), "sha256": hashlib.sha256(view).hexdigest()},
                    "valid": payload.is_valid() and payload.as_shm().is_valid(),
                    "errors": errors,
                }
            )
        return shown

    def drop_kept(self, name):
        """Drop the payloads of :meth:`hold`."""
        for thing in ("kept", "views"):
            self.things.get(f"{thing} {name}", []).clear()

    def token(self, name, key):
        self.things[name] = self.session.liveliness().declare_token(key)

    def liveliness_get(self, key, timeout=5.0):
        return self.replies(lambda: self.session.liveliness().get(key, timeout=timeout))

    def liveliness_subscribe(self, name, key, history=False):
        sink = self.sink(name, Collector(self.sample))
        self.things[name] = self.session.liveliness().declare_subscriber(key, sink, history=history)

    def drop_all(self):
        """Undeclare all entities."""
        for thing in self.things.values():
            if hasattr(thing, "undeclare"):
                thing.undeclare()
        self.things.clear()
        self.sinks.clear()

    def undeclare(self, name):
        thing = self.things.pop(name)
        if hasattr(thing, "undeclare"):
            thing.undeclare()
        else:
            self.session.undeclare(thing)


def main():
    module = importlib.import_module(sys.argv[1])
    if len(sys.argv) > 2:
        starter.serve(socket.socket(fileno=int(sys.argv[2])))
    node = Node(module)
    for line in sys.stdin:
        command = json.loads(line)
        op = command.pop("op")
        if op == "quit":
            # With callbacks eclipse-zenoh hangs at exit unless it is closed; ours must not need that.
            if sys.argv[1] == "zenoh" and node.session is not None:
                node.session.close()
            break
        try:
            answer = {"value": getattr(node, op)(**command)}
        except Exception as error:  # noqa: BLE001 - the test decides what an error means
            traceback.print_exc()
            answer = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
