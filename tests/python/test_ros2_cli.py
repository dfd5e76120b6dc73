"""`zwire ros2`, and its bags, read by mcap-ros2-support and rosbags."""

import contextlib
import json
import signal
import threading
import time

import pytest

import nodes
from nodes import eventually
from zwire import ros2
from zwire.cli import main
from zwire.errors import DefinitionError, RecordingError
from zwire.ros2 import Node
from zwire.ros2._bag import Bag, BagRecorder, play
from zwire.ros2._plain import definition, fill, plain

TEXT = "std_msgs/msg/String"
ADD = "example_interfaces/srv/AddTwoInts"
FIBONACCI = "example_interfaces/action/Fibonacci"
PATIENCE = 10.0


@pytest.fixture(scope="module")
def hub():
    with nodes.router(timestamping__enabled=True) as session:
        yield session


@pytest.fixture(scope="module")
def config(hub):
    return nodes.settings("client", connect=hub.listening(), timestamping__enabled=True)


@pytest.fixture(scope="module")
def talker(config):
    """A node with one of each."""
    with Node("talker", namespace="/robot1", config=config) as node:
        latched = node.create_publisher(TEXT, "/latched", ros2.qos_profile_latched)
        latched.publish(latched.type.cls(data="old"))
        chatter = node.create_publisher(TEXT, "/chatter")
        message = chatter.type.cls(data="x" * 200)
        node.chatter, node.sent = chatter, 0

        def talk():
            chatter.publish(message)
            node.sent += 1

        node.create_timer(0.01, talk)
        node.create_subscription(TEXT, "/heard", lambda message: node.heard.append(message.data))
        node.heard = []
        node.create_service(ADD, "/add", lambda request, response: type(response)(sum=request.a + request.b))
        node.declare_parameter("speed", 1.5)

        def run(goal):
            goal.publish_feedback(server.type.feedback.cls(sequence=[1]))
            if goal.request.order > 1:
                goal.succeed()
            return server.type.result.cls(sequence=[1, 1])

        server = node.create_action_server(FIBONACCI, "/fib", run, goal_callback=lambda goal: goal.order)
        yield node


@pytest.fixture
def command(hub, talker, capsys):
    """A function that runs `zwire ros2` and returns exit code, output and errors."""

    def run(*words):
        code = main(["ros2", *words, "--connect", hub.listening()[0]])
        out, err = capsys.readouterr()
        return code, out, err

    return run


def test_lists_show_names_and_types(command):
    code, out, _ = command("topic", "list")
    assert (code, out.split()) == (0, ["/chatter", "/heard", "/latched", "/parameter_events"])
    assert f"/chatter [{TEXT}]\n" in command("topic", "list", "-t")[1]
    assert "/fib/_action/status\n" in command("topic", "list", "--all")[1]
    assert json.loads(command("service", "list", "--format", "jsonl")[1].splitlines()[0]) == {
        "name": "/add",
        "types": [ADD],
    }
    assert command("node", "list") == (0, "/robot1/talker\n", "")
    assert command("action", "list", "-t") == (0, f"/fib [{FIBONACCI}]\n", "")
    assert command("action", "info", "/fib") == (0, f"server /robot1/talker {FIBONACCI}\n", "")


def test_node_and_topic_info(command):
    code, out, _ = command("node", "info", "/robot1/talker")
    assert code == 0
    assert "  Publishers:\n    /chatter: std_msgs/msg/String\n" in out
    assert "  Service Servers:\n    /add: example_interfaces/srv/AddTwoInts\n" in out
    assert command("node", "info", "/no")[0] == 3
    code, out, _ = command("topic", "info", "/latched", "--format", "jsonl")
    row = json.loads(out)
    assert (row["kind"], row["node"], row["durability"], row["depth"]) == (
        "publisher",
        "/robot1/talker",
        "transient_local",
        1,
    )
    assert command("topic", "info", "/no")[0] == 3


def test_echo_prints_messages(command):
    code, out, _ = command("topic", "echo", "/chatter", "-n", "2", "--timeout", "5")
    assert (code, out) == (0, f"{{data: {'x' * 128}...}}\n---\n" * 2)
    assert command("topic", "echo", "/chatter", "-n", "1", "--full", "--format", "jsonl")[1] == (
        json.dumps({"data": "x" * 200}) + "\n"
    )
    # The profile is that of the publisher.
    assert command("topic", "echo", "/latched", "-n", "1", "--timeout", "5") == (0, "{data: old}\n---\n", "")
    code, out, err = command("topic", "echo", "/no", TEXT, "-n", "1", "--timeout", "0.1")
    assert (code, out, err) == (3, "", "zwire ros2 topic: 0 of 1 came in 0.1 s\n")
    code, _, err = command("topic", "echo", "/no")
    assert (code, err.startswith("zwire ros2 topic: topic /no is not there")) == (3, True)


def test_rates_are_measured(command):
    code, out, _ = command("topic", "hz", "/chatter", "--period", "0.2", "--timeout", "0.3")
    assert code == 0
    assert 20 < float(out.splitlines()[0].removeprefix("average rate: ")) < 200
    code, out, _ = command("topic", "bw", "/chatter", "-n", "5", "--format", "jsonl")
    assert 20 * 208 < json.loads(out.splitlines()[-1])["octets_per_second"] < 1000 * 208


def test_pub_publishes_yaml(command, talker):
    code, _, err = command("topic", "pub", "/heard", TEXT, "{data: hi}", "-n", "2", "--rate", "100")
    assert (code, err) == (0, "")
    eventually(lambda: talker.heard == ["hi", "hi"])
    for words, problem in (
        (("/heard", TEXT), "VALUES is missing"),
        (("/heard", TEXT, "{dat: 1}"), "has no field 'dat'; it has data"),
        (("/heard", TEXT, "[1"), "no YAML"),
        (("/heard", TEXT, "1"), "expected fields"),
    ):
        code, _, err = command("topic", "pub", *words, "-n", "1")
        assert (code, problem in err) == (2, True), err


def test_services_are_called(command):
    assert command("service", "call", "/add", ADD, "{a: 1, b: 2}") == (0, "{sum: 3}\n", "")
    assert command("service", "call", "/add", "--format", "jsonl")[1] == '{"sum": 0}\n'
    assert command("service", "call", "/no")[0] == 3
    assert command("service", "call", "/no", ADD, "{}", "--timeout", "0.1")[0] == 3


def test_goals_are_sent(command):
    code, out, _ = command("action", "send_goal", "/fib", FIBONACCI, "{order: 2}", "--feedback")
    # Feedback and result come on different threads.
    assert (code, sorted(out.splitlines())) == (0, ["sequence: [1, 1]", "sequence: [1]"])
    code, _, err = command("action", "send_goal", "/fib", FIBONACCI, "{order: 1}")
    assert (code, err.splitlines()[-1]) == (1, "zwire ros2 action: the goal ended as aborted")
    code, _, err = command("action", "send_goal", "/fib", FIBONACCI, "{order: 0}")
    assert (code, err) == (1, "zwire ros2 action: the server rejected the goal\n")
    assert command("action", "send_goal", "/no", FIBONACCI, "{}", "--timeout", "0.1")[0] == 3


def test_parameters_are_read_and_set(command, talker):
    assert command("param", "list", "robot1/talker") == (0, "speed\nuse_sim_time\n", "")
    assert command("param", "get", "/robot1/talker", "speed") == (0, "double: 1.5\n", "")
    assert command("param", "set", "/robot1/talker", "speed", "2.5") == (0, "", "")
    assert talker.get_parameter("speed").value == 2.5
    code, _, err = command("param", "set", "/robot1/talker", "speed", "fast")
    assert (code, err) == (1, "zwire ros2 param: parameter speed is of type double, not string\n")
    assert command("param", "get", "/robot1/talker", "no")[0] == 3
    assert command("param", "list", "/no", "--timeout", "0.1")[0] == 3
    talker.set_parameters([ros2.Parameter("speed", 1.5)])


def test_mistakes_are_refused(command):
    for words, problem in (
        (("topic", "eco", "/x"), "did you mean echo?"),
        (("topic", "echo"), "NAME is missing"),
        (("topic", "list", "--domain", "400"), "no number from 0 to 232"),
        (("bag", "record"), "--output is missing"),
        (("bag", "play"), "expected one folder"),
        (("bag", "play", "x", "--rate", "-1"), ""),
    ):
        code, out, err = command(*words)
        assert (code in {1, 2}, out, problem in err) == (True, "", True), (words, err)


@contextlib.contextmanager
def interrupted(talker, messages):
    """End the command in the block by SIGTERM when a subscription of it has had so many messages."""

    def watch():
        eventually(lambda: talker.chatter.matched)
        first = talker.sent
        eventually(lambda: talker.sent > first + messages)
        signal.raise_signal(signal.SIGTERM)

    eventually(lambda: not talker.chatter.matched)
    thread = threading.Thread(target=watch)
    thread.start()
    yield
    thread.join()


@pytest.fixture
def bag(command, tmp_path, talker):
    """A bag with the topics of the node."""
    folder = tmp_path / "run"
    with interrupted(talker, 10):
        code, _, err = command("bag", "record", "-o", str(folder), "/chatter", "/latched")
    assert code == 0, err
    assert "messages of 2 topics" in err
    return folder


def test_bags_are_those_of_rosbag2(bag, command, talker):
    from mcap.reader import make_reader
    from mcap_ros2.decoder import DecoderFactory
    from rosbags.rosbag2 import Reader
    from ruamel.yaml import YAML

    (file,) = bag.glob("*.mcap")
    with file.open("rb") as stream:
        reader = make_reader(stream, decoder_factories=[DecoderFactory()])
        assert reader.get_header().profile == "ros2"
        found = [
            (c.topic, s.name, s.encoding, c.message_encoding, m.data)
            for s, c, _, m in reader.iter_decoded_messages()
        ]
    assert ("/latched", TEXT, "ros2msg", "cdr", "old") in found
    assert found.count(("/chatter", TEXT, "ros2msg", "cdr", "x" * 200)) == len(found) - 1 > 0
    told = YAML(typ="safe").load(bag / "metadata.yaml")["rosbag2_bagfile_information"]
    assert (told["storage_identifier"], told["message_count"]) == ("mcap", len(found))
    assert told["relative_file_paths"] == [file.name]
    topics = {
        each["topic_metadata"]["name"]: each["topic_metadata"] for each in told["topics_with_message_count"]
    }
    assert topics["/chatter"]["type_description_hash"] == talker.store.message(TEXT).hash
    assert topics["/latched"]["offered_qos_profiles"][0]["durability"] in {1, "transient_local"}
    with Reader(bag) as other:
        assert other.message_count == len(found)

    code, out, _ = command("bag", "info", str(bag), "--json")
    row = json.loads(out)
    assert (code, row["messages"]) == (0, len(found))
    assert {each["name"] for each in row["topics"]} == {"/chatter", "/latched"}
    assert "/latched std_msgs/msg/String 1\n" in command("bag", "info", str(bag))[1]
    assert command("bag", "info", str(bag.parent / "no"))[0] == 1


def test_bags_are_played(bag, config, command):
    with Node("listener", config={**config}, domain_id=9) as listener:
        heard = listener.create_subscription(TEXT, "/latched", None, ros2.qos_profile_latched)
        code, _, err = command("bag", "play", str(bag), "--rate", "0", "--domain", "9", "--topic", "/latched")
        assert (code, err) == (0, "published 1 messages\n")
        # The publisher and its cache are gone after the command; a message on its way is not.
        assert heard.recv(PATIENCE).data == "old"
        others = listener.create_subscription(TEXT, "/chatter", None, 1000)
        with Node("player", config=config, domain_id=9) as player, Bag(bag) as opened:
            times = [at for _, at, _ in opened]
            begun = time.monotonic()
            assert play(player, opened, rate=2.0) == len(times)
            assert time.monotonic() - begun >= (times[-1] - times[0]) / 2e9
            assert play(player, opened, stopped=lambda: True) == 0
            assert others.recv(PATIENCE).data == "x" * 200


def test_bags_with_other_types(config, tmp_path):
    own = "int32 speed\nstd_msgs/Header header\n"
    store = ros2.TypeStore()
    store.add(own, "robot/msg/Wheel")
    with Node("source", config=config, domain_id=10, store=store) as source:
        wheel = source.create_publisher("robot/msg/Wheel", "/wheel")
        with BagRecorder(source, tmp_path / "own") as recorder:
            eventually(lambda: "/wheel" in recorder.topics())
            wheel.wait_for_subscription(PATIENCE)
            wheel.publish(wheel.type.cls(speed=7))
            eventually(lambda: recorder.messages == 1)
        with pytest.raises(RecordingError, match="exists"):
            BagRecorder(source, tmp_path / "own")
        # A recorder without the type leaves the topic out.
        with (
            Node("other", config=config, domain_id=10) as other,
            BagRecorder(other, tmp_path / "less", ["/wheel"]) as less,
        ):
            eventually(lambda: less.left_out() == {"unknown type": 1})
            assert less.topics() == []
    with Node("player", config=config, domain_id=11) as player, Bag(tmp_path / "own") as opened:
        assert play(player, opened, rate=None) == 1
        assert player.store.message("robot/msg/Wheel").hash == wheel.type.hash
    changed = ros2.TypeStore()
    changed.add("int32 speed\n", "robot/msg/Wheel")
    with (
        Node("player", config=config, domain_id=11, store=changed) as player,
        Bag(tmp_path / "own") as opened,
        pytest.raises(DefinitionError, match="another definition"),
    ):
        play(player, opened)


def test_recording_ends_at_a_signal(command, tmp_path, talker):
    with interrupted(talker, 10):
        code, _, err = command("bag", "record", "-o", str(tmp_path / "run"))
    assert (code, "recorded " in err) == (0, True)
    with Bag(tmp_path / "run") as bag:
        assert "/parameter_events" in {topic.name for topic in bag.topics()}
        assert bag.messages > 1


def test_definitions_are_those_of_the_types():
    store, others = ros2.TypeStore(), ros2.TypeStore(None)
    names = [name for name in store.names() if "/msg/" in name]
    assert len(names) > 100
    for name in names:
        others = ros2.TypeStore(None)
        others.add(definition(store.message(name)._record), name)
        assert others.message(name).hash == store.message(name).hash, name


def test_plain_values_fill_messages():
    store = ros2.TypeStore()
    marker = store.message("visualization_msgs/msg/Marker")
    values = {"ns": "a", "points": [{"x": 1}], "pose": {"position": {"y": 2.5}}, "frame_locked": True}
    filled = fill(marker.cls(), values)
    assert marker.decode(marker.encode(filled)) == filled
    found = plain(filled)
    assert (found["points"], found["pose"]["position"]["y"]) == ([{"x": 1.0, "y": 0.0, "z": 0.0}], 2.5)
    image = store.message("sensor_msgs/msg/Image").cls(data=list(range(5)))
    assert plain(image, 2)["data"] == [0, 1, "... of 5"]
    for wrong in ({"no": 1}, {"pose": {"no": 1}}, {"points": [1]}, {"pose": 1}):
        with pytest.raises(ValueError, match=r"no field|expected fields"):
            fill(marker.cls(), wrong)


def test_the_session_is_that_of_the_environment(hub, talker, capsys, monkeypatch):
    for name in ("ZENOH_CONFIG", "ZWIRE_CONFIG", "ZENOH_SESSION_CONFIG_URI"):
        monkeypatch.delenv(name, raising=False)
    keys = f'mode="client";connect/endpoints={json.dumps(hub.listening())}'
    monkeypatch.setenv("ZENOH_CONFIG_OVERRIDE", keys)
    assert main(["ros2", "node", "list"]) == 0
    assert capsys.readouterr() == ("/robot1/talker\n", "")
    monkeypatch.setenv("ROS_DOMAIN_ID", "12")
    assert main(["ros2", "node", "list"]) == 0
    assert capsys.readouterr() == ("", "")


def test_own_types_come_from_a_folder(command, config, tmp_path):
    folder = tmp_path / "robot" / "msg"
    folder.mkdir(parents=True)
    (folder / "Wheel.msg").write_text("int32 speed\nstring[] names\n")
    store = ros2.TypeStore()
    store.add_folder(tmp_path)
    with Node("wheels", config=config, domain_id=13, store=store) as node:
        heard = node.create_subscription("robot/msg/Wheel", "/wheel")
        words = ("/wheel", "robot/msg/Wheel", "{speed: 7, names: [a, b]}", "-n", "1", "--domain", "13")
        assert command("topic", "pub", *words, "--types", str(tmp_path))[0] == 0
        message = heard.recv(PATIENCE)
        assert (message.speed, message.names) == (7, ["a", "b"])
        code, _, err = command("topic", "echo", "/wheel", "--domain", "13")
        assert (code, "there is no definition of robot/msg/Wheel" in err) == (1, True)
