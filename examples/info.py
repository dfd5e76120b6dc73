"""Prints the id of this session and its links."""

import common

args = common.parser(__doc__, key=None).parse_args()

with common.open_session(args) as session:
    session.ready(timeout=5)
    info = session.info
    print(f"me: {info.zid()}")
    for router in info.routers_zid():
        print(f"router: {router}")
    for peer in info.peers_zid():
        print(f"peer: {peer}")
    for link in info.links():
        print(f"link: {link.src} -> {link.dst}, {link.mtu} bytes, {link.reliability.name}")
