"""Configurations from everywhere."""

import json
import tempfile
from pathlib import Path

import zenoh

config = zenoh.Config()
for path in (
    "mode",
    "connect/endpoints",
    "listen/timeout_ms",
    "scouting/multicast/enabled",
    "timestamping/drop_future_timestamp",
):
    print(path, config.get_json(path))
config.insert_json5("mode", '"client"')
config.insert_json5("connect/endpoints", "['tcp/127.0.0.1:1', \"tcp/[::1]:2\",] // JSON5")
config.insert_json5("scouting/multicast/enabled", "false")
config.insert_json5("connect/timeout_ms", "{router: -1, client: 100}")
for path in ("mode", "connect/endpoints", "scouting/multicast/enabled"):
    print(path, json.loads(config.get_json(path)))

quiet = "scouting: {multicast: {enabled: false}}"
text = f"{{mode: 'router', /* a comment */ listen: {{endpoints: ['tcp/127.0.0.1:0']}}, {quiet}}}"
nobody = f"{{mode: 'client', connect: {{endpoints: ['tcp/127.0.0.1:1']}}, {quiet}}}"
config = zenoh.Config.from_json5(text)
print(json.loads(config.get_json("mode")), json.loads(config.get_json("listen/endpoints")))
with zenoh.open(config) as session:
    print(session.info.routers_zid(), session.is_closed())

with tempfile.TemporaryDirectory() as folder:
    for name in ("zenoh.json5", "zenoh.json"):
        path = Path(folder, name)
        path.write_text(text if name.endswith("5") else '{"mode": "client"}')
        print(name, json.loads(zenoh.Config.from_file(path).get_json("mode")))

print(json.loads(zenoh.Config.from_env().get_json("mode")))
print(sorted(json.loads(str(config)))[:3])

for what, attempt in {
    "unknown key": lambda: config.insert_json5("no/such/key", "1"),
    "unknown key read": lambda: config.get_json("no/such/key"),
    "wrong value": lambda: config.insert_json5("mode", '"boss"'),
    "no JSON5": lambda: config.insert_json5("mode", "{"),
    "no JSON5 text": lambda: zenoh.Config.from_json5("{mode:"),
    "unknown key in text": lambda: zenoh.Config.from_json5("{moda: 'peer'}"),
    "no file": lambda: zenoh.Config.from_file("/no/such/file.json5"),
    "nobody there": lambda: zenoh.open(zenoh.Config.from_json5(nobody)),
    "nowhere to go": lambda: zenoh.open(zenoh.Config.from_json5(f"{{mode: 'client', {quiet}}}")),
}.items():
    try:
        print(what, attempt())
    except zenoh.ZError:
        print(what, "refused")
