"""Keys, selectors, parameters, encodings, bytes and times, without a session."""

from datetime import UTC, datetime

import zenoh
from zenoh import Encoding, KeyExpr, Parameters, Selector, ZBytes

for text in (
    "a/b",
    "a/*/c",
    "a/**",
    "**",
    "a/b$*",
    "@x/é",
    "a//b",
    "/a",
    "a/",
    "",
    "a/**/**",
    "a?b",
    "a#b",
    "$*",
):
    try:
        print(text, str(KeyExpr(text)), end=" ")
    except zenoh.ZError:
        print(text, "illegal", end=" ")
    try:
        print(str(KeyExpr.autocanonize(text)))
    except zenoh.ZError:
        print("also then")
for a, b in [
    ("a/*", "a/b"),
    ("a/b", "a/*"),
    ("a/**", "a"),
    ("a/*", "*/b"),
    ("a", "b"),
    ("a/*", "a/*"),
    ("**", "@a"),
]:
    left, right = KeyExpr(a), KeyExpr(b)
    print(a, b, left.intersects(right), left.includes(b), left.relation_to(right), left == right)
print(
    KeyExpr("a").join("b/c"), KeyExpr("a/b").concat("c"), {KeyExpr("k"): 1}[KeyExpr("k")], repr(KeyExpr("k"))
)
print(KeyExpr("a") == "a", KeyExpr("a") != KeyExpr("b"), KeyExpr("a") == "a")

for text in ("a", "a?", "a?x", "a?x=1;y=2|3", "a/*?_time=[now(-1h)..]", "a?x?y"):
    selector = Selector(text)
    print(selector, "|", selector.key_expr, "|", selector.parameters, "|", sorted(selector.parameters))
print(
    Selector("a", "x=1"), Selector("a", {"x": "1"}), Selector(KeyExpr("a"), Parameters("y=2")), Selector("a")
)

parameters = Parameters("a=1;b=2|3;c")
print(
    parameters, list(parameters), parameters["a"], parameters["c"], parameters["d"], parameters.get("d", "e")
)
print(
    parameters.values("b"), parameters.values("z"), "a" in parameters, "z" in parameters, bool(Parameters(""))
)
print(
    parameters.insert("a", "9"), parameters.insert("n", "0"), parameters.remove("b"), parameters.remove("q")
)
parameters.extend({"x": "y"})
parameters.extend(Parameters("a=8"))
print(parameters, parameters.is_empty(), parameters.is_ordered(), Parameters("").is_empty())

print(
    Encoding("text/plain"),
    Encoding("text/plain") == Encoding.TEXT_PLAIN,
    Encoding("text/plain") == "text/plain",
)
print(
    Encoding.APPLICATION_JSON.with_schema("person"),
    Encoding("of/ours;x"),
    Encoding(""),
    Encoding("text/plain;"),
)
print(
    hash(Encoding("text/json")) == hash(Encoding.TEXT_JSON), len({Encoding.IMAGE_PNG, Encoding("image/png")})
)
print([str(getattr(Encoding, name)) for name in sorted(dir(Encoding)) if name.isupper()])

for made in (b"", b"abc", bytearray(b"abc"), "text", "é"):
    data = ZBytes(made)
    print(
        data.to_bytes(),
        bytes(data),
        len(data),
        bool(data),
        data == bytes(data),
        hash(data) == hash(ZBytes(made)),
    )
print(
    ZBytes("é").to_string(),
    str(ZBytes("x")),
    ZBytes("x") == "x",
    ZBytes("x") == ZBytes(b"x"),
    ZBytes("x") == 1,
)
for wrong in ([1], 1, None, 1.5, {}):
    try:
        ZBytes(wrong) if wrong is not None else ZBytes(b"\xff").to_string()
    except (TypeError, ValueError) as error:
        print(wrong, "TypeError" if isinstance(error, TypeError) else "ValueError")

time = zenoh.NTP64(1_700_000_000, 500_000_000)
print(
    time,
    time.as_secs(),
    time.subsec_nanos(),
    time.as_nanos(),
    round(time.as_secs_f64(), 3),
    time.to_datetime(),
)
print(time.to_string_rfc3339_lossy(), zenoh.NTP64.parse_rfc3339("2023-11-14T22:13:20.500000000Z") == time)
print(
    time < zenoh.NTP64(1_700_000_001, 0),
    time >= zenoh.NTP64(1_700_000_000, 0),
    time == zenoh.NTP64(1, 0),
    hash(time) == hash(time),
)
stamp = zenoh.Timestamp(datetime(2024, 5, 6, 7, 8, 9, tzinfo=UTC), b"\x01\x02\x03")
print(stamp, stamp.get_time(), stamp.get_id(), bytes(stamp.get_id()), stamp.to_string_rfc3339_lossy())
later = zenoh.Timestamp(time, zenoh.TimestampId(b"\x01"))
print(
    stamp.get_diff_duration(later),
    stamp > later,
    later,
    zenoh.Timestamp.parse_rfc3339("2024-05-06T07:08:09Z/30201"),
)
print(zenoh.TimestampId(b"\x01") < zenoh.TimestampId(b"\x02"), later.get_time_as_ntp64() == time)

for enumeration in [
    "CongestionControl",
    "ConsolidationMode",
    "Locality",
    "Priority",
    "QueryTarget",
    "ReplyKeyExpr",
]:
    print(enumeration, getattr(zenoh, enumeration).DEFAULT)
print(
    zenoh.Priority.MAX,
    zenoh.Priority.MIN,
    zenoh.SampleKind.PUT == zenoh.SampleKind.DELETE,
    zenoh.WhatAmI.PEER,
)
print(zenoh.QueryConsolidation(zenoh.ConsolidationMode.LATEST) is not None, zenoh.WhatAmI("router"))
matcher = zenoh.WhatAmIMatcher.empty().router().client()
print(matcher, matcher.matches(zenoh.WhatAmI.CLIENT), matcher.matches(zenoh.WhatAmI.PEER), matcher.is_empty())
print(zenoh.WhatAmIMatcher("peer|router"), zenoh.WhatAmIMatcher("").is_empty())
