"""The newest few, whenever there is time: ring channels, and others."""

import queue
import time

import zenoh

with zenoh.open(zenoh.Config.from_env()) as session:
    ring = session.declare_subscriber("tick/**", zenoh.handlers.RingChannel(3))
    fifo = session.declare_subscriber("tick/**", zenoh.handlers.FifoChannel(100))
    plain = session.declare_subscriber("tick/**", zenoh.handlers.DefaultHandler())
    default = session.declare_subscriber("tick/**")
    inbox = queue.Queue()
    queued = session.declare_subscriber("tick/**", (inbox.put, inbox))
    called = []
    session.declare_subscriber("tick/**", lambda sample: called.append(sample.payload.to_string()))
    ends = []
    counted = session.declare_subscriber(
        "tick/**", zenoh.handlers.Callback(lambda sample: ends.append(1), lambda: ends.append("end"))
    )
    for number in range(10):
        session.put(f"tick/{number}", str(number))
    while len(called) < 10 or inbox.qsize() < 10 or len(ends) < 10:
        time.sleep(0.01)
    print([ring.recv().payload.to_string() for _ in range(3)], ring.try_recv())
    print([fifo.try_recv().payload.to_string() for _ in range(10)], fifo.try_recv())
    print([plain.recv().payload.to_string() for _ in range(10)], plain.handler.try_recv())
    print([default.handler.recv().payload.to_string() for _ in range(10)], default.try_recv())
    print(queued.handler is inbox, [inbox.get().payload.to_string() for _ in range(10)])
    print(called)
    counted.undeclare()
    while "end" not in ends:
        time.sleep(0.01)
    print(ends)
    print(type(ring.handler).__name__, iter(ring.handler) is ring.handler, type(iter(fifo)).__name__)

    # A handler of one's own is read through the subscriber.
    class Newest:
        value = None

        def set(self, sample):
            self.value = sample.payload.to_string()

        def recv(self):
            return self.value

        def try_recv(self):
            return None

        def __iter__(self):
            return iter([self.value])

    newest = Newest()
    own = session.declare_subscriber("own", (newest.set, newest))
    session.put("own", "seen")
    while newest.value is None:
        time.sleep(0.01)
    print(own.recv(), own.try_recv(), list(own), own.handler is newest)
    # What a handle still holds outlives it.
    session.put("tick/last", "last")
    handler = fifo.handler
    fifo.undeclare()
    print([sample.payload.to_string() for sample in handler])
    for use in (handler.recv, handler.try_recv):
        try:
            print(use())
        except zenoh.ZError:
            print("closed")
    print(session.declare_subscriber("none", print).handler, session.get("none", print))
