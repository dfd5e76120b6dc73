"""Information of a session about itself and its neighbours."""

import re

import zenoh

with zenoh.open(zenoh.Config.from_env()) as session:
    info = session.info
    print(type(info).__name__, info.zid() == session.zid(), session.zid() == str(session.zid()))
    print(bool(re.fullmatch("[1-9a-f][0-9a-f]{0,31}", str(session.zid()))))
    (router,) = info.routers_zid()
    print(type(router).__name__, router != info.zid(), info.peers_zid(), len({router, session.zid()}))
    (transport,) = info.transports()
    print(transport.zid == router, transport.whatami, transport.is_qos, transport.is_multicast)
    (link,) = info.links()
    print(link.zid == router, link.src != link.dst, link.group, link.is_streamed, link.auth_identifier)
    print(re.sub(r":\d+", ":PORT", link.dst), re.sub(r":\d+", ":PORT", link.src), link.mtu > 9000)
    publisher = session.declare_publisher("a")
    subscriber = session.declare_subscriber("a")
    print(publisher.id.zid == session.zid(), publisher.id.eid != subscriber.id.eid, publisher.reliability)
    publisher.put("x", source_info=zenoh.SourceInfo(publisher.id, 7))
    source = subscriber.recv().source_info
    print(source.source_sn, source.source_id.zid == session.zid(), source.source_id.eid == publisher.id.eid)
    stamp = session.new_timestamp()
    print(stamp < session.new_timestamp(), bytes(stamp.get_id()).hex() != "")
    again = zenoh.Timestamp(stamp.get_time_as_ntp64(), stamp.get_id())
    print(stamp == again, hash(stamp) == hash(again))
    print(zenoh.Timestamp.parse_rfc3339(stamp.to_string_rfc3339_lossy()).get_id() == stamp.get_id())
