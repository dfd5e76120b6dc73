"""Matching status of publishers and queriers."""

import time

import zenoh


def until(thing, matching):
    while thing.matching_status.matching != matching:
        time.sleep(0.01)
    print(matching)


with zenoh.open(zenoh.Config.from_env()) as near, zenoh.open(zenoh.Config.from_env()) as far:
    publisher = near.declare_publisher("news/sport")
    querier = near.declare_querier("archive/2024")
    told = []
    news = publisher.declare_matching_listener()
    answers = querier.declare_matching_listener(lambda status: told.append(status.matching))
    until(publisher, False)
    until(querier, False)
    reader = far.declare_subscriber("news/**")
    until(publisher, True)
    print(news.recv().matching, news.try_recv())
    # A listener declared late learns at once of existing subscribers.
    late = publisher.declare_matching_listener()
    print(late.recv().matching, late.try_recv())
    late.undeclare()
    second = far.declare_subscriber("news/sport")
    reader.undeclare()
    second.undeclare()
    until(publisher, False)
    print(news.recv().matching)
    queryable = far.declare_queryable("archive/*")
    until(querier, True)
    queryable.undeclare()
    until(querier, False)
    while len(told) < 2:
        time.sleep(0.01)
    print(told)
    # Own ones count as well, and another place does not.
    with near.declare_subscriber("news/*"):
        until(publisher, True)
    until(publisher, False)
    far.declare_subscriber("weather/*", lambda sample: None)
    local = near.declare_publisher("news/local", allowed_destination=zenoh.Locality.SESSION_LOCAL)
    remote = far.declare_subscriber("news/local")
    print(local.matching_status.matching)
    news.undeclare()
    answers.undeclare()
