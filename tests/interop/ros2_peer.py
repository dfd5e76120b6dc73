"""A program of zenoh-ros2-sdk over eclipse-zenoh: a line of JSON on standard input, a line of answer.

Its argument is the port of a router on the loopback.
"""

import json
import sys
import threading

import zenoh
import zenoh.ext
from zenoh_ros2_sdk import (
    ROS2Publisher,
    ROS2ServiceClient,
    ROS2ServiceServer,
    ROS2Subscriber,
    ZenohSession,
    get_service_names_and_types,
    get_topic_info,
    get_topic_names_and_types,
)
from zenoh_ros2_sdk.attachment import Attachment
from zenoh_ros2_sdk.keyexpr import topic_keyexpr
from zenoh_ros2_sdk.utils import get_type_hash, ros2_to_dds_type

PORT = int(sys.argv[1])
TEXT = {"msg_definition": "string data\n"}
ADD = {"request_definition": "int64 a\nint64 b\n", "response_definition": "int64 sum\n"}
IMAGE = {
    "msg_definition": "std_msgs/Header header\nuint32 height\nuint32 width\nstring encoding\n"
    "uint8 is_bigendian\nuint32 step\nuint8[] data\n"
}


class Peer:
    def __init__(self):
        self.kept = []
        self.texts = []
        self.publishers = {}
        self.came = threading.Condition()

    def subscribe(self, topic, domain):
        def callback(message):
            with self.came:
                self.texts.append(message.data)
                self.came.notify_all()

        self.kept.append(
            ROS2Subscriber(
                topic,
                "std_msgs/msg/String",
                callback,
                node_name="sdk_listener",
                domain_id=domain,
                router_port=PORT,
                **TEXT,
            )
        )

    def received(self, count):
        with self.came:
            self.came.wait_for(lambda: len(self.texts) >= count, 10)
            return self.texts

    def advertise(self, topic, domain, qos=None):
        self.publishers[topic] = ROS2Publisher(
            topic,
            "std_msgs/msg/String",
            node_name="sdk_talker",
            domain_id=domain,
            router_port=PORT,
            qos=qos,
            **TEXT,
        )

    def publish(self, topic, data):
        self.publishers[topic].publish(data=data)

    def serve(self, name, domain):
        def add(request):
            return server.response_msg_class(sum=request.a + request.b)

        server = ROS2ServiceServer(
            name,
            "example_interfaces/srv/AddTwoInts",
            add,
            node_name="sdk_server",
            domain_id=domain,
            router_port=PORT,
            type_hash=None,
            **ADD,
        )
        self.kept.append(server)
        return server.type_hash

    def call(self, name, domain, a, b):
        client = ROS2ServiceClient(
            name,
            "example_interfaces/srv/AddTwoInts",
            node_name="sdk_client",
            domain_id=domain,
            router_port=PORT,
            **ADD,
        )
        self.kept.append(client)
        return int(client.call(a=a, b=b).sum)

    def _text_key(self, topic, domain):
        kind = "std_msgs/msg/String"
        digest = get_type_hash(kind, msg_definition=TEXT["msg_definition"], dependencies={})
        return topic_keyexpr(domain, topic, ros2_to_dds_type(kind), digest)

    def latch(self, topic, domain, data):
        """Publish once by an advanced publisher with a cache, as rmw_zenoh does for transient local."""
        manager = ZenohSession.get_instance("127.0.0.1", PORT)
        cls = manager.register_message_type(TEXT["msg_definition"], "std_msgs/msg/String")
        publisher = zenoh.ext.declare_advanced_publisher(
            manager.session,
            self._text_key(topic, domain),
            cache=zenoh.ext.CacheConfig(1),
            publisher_detection=True,
            sample_miss_detection=zenoh.ext.MissDetectionConfig(sporadic_heartbeat=0.5),
        )
        self.kept.append(publisher)
        payload = bytes(manager.store.serialize_cdr(cls(data=data), "std_msgs/msg/String"))
        publisher.put(payload, attachment=Attachment(1, 2, bytes(16)).to_bytes())

    def late(self, topic, domain):
        """Subscribe by an advanced subscriber with history, as rmw_zenoh does for transient local."""
        manager = ZenohSession.get_instance("127.0.0.1", PORT)
        manager.register_message_type(TEXT["msg_definition"], "std_msgs/msg/String")

        def callback(sample):
            Attachment.from_bytes(sample.attachment.to_bytes())
            message = manager.store.deserialize_cdr(sample.payload.to_bytes(), "std_msgs/msg/String")
            with self.came:
                self.texts.append(message.data)
                self.came.notify_all()

        self.kept.append(
            zenoh.ext.declare_advanced_subscriber(
                manager.session,
                self._text_key(topic, domain),
                callback,
                history=zenoh.ext.HistoryConfig(detect_late_publishers=True, max_samples=1),
                recovery=zenoh.ext.RecoveryConfig(heartbeat=True),
                subscriber_detection=True,
            )
        )

    def topics(self, domain):
        return dict(get_topic_names_and_types(domain_id=domain, router_port=PORT))

    def services(self, domain):
        return dict(get_service_names_and_types(domain_id=domain, router_port=PORT))

    def info(self, topic, domain):
        return str(get_topic_info(topic, domain_id=domain, router_port=PORT, verbose=True))

    def pamoja(self, name, linear, angular, digest):
        """Put a Twist with key and CDR of pamoja-ros2, and the attachment of the SDK."""
        from pamoja import ros2

        key = ros2.entity_key(0, name, "geometry_msgs/msg/Twist", digest)
        payload = bytes(ros2.twist_to_cdr(tuple(linear), tuple(angular)))
        session = ZenohSession.get_instance("127.0.0.1", PORT).session
        session.put(key, payload, attachment=Attachment(1, 2, bytes(16)).to_bytes())
        return key

    def twist(self, name, digest):
        """Subscribe to a Twist with key and CDR of pamoja-ros2."""
        from pamoja import ros2

        def callback(sample):
            with self.came:
                self.texts.append(ros2.twist_from_cdr(sample.payload.to_bytes()))
                self.came.notify_all()

        session = ZenohSession.get_instance("127.0.0.1", PORT).session
        key = ros2.entity_key(0, name, "geometry_msgs/msg/Twist", digest)
        self.kept.append(session.declare_subscriber(zenoh.KeyExpr(key), callback))


def main():
    peer = Peer()
    for line in sys.stdin:
        what, words = json.loads(line)
        try:
            answer = ["ok", getattr(peer, what)(*words)]
        except Exception as error:  # noqa: BLE001 - the test fails by it
            answer = ["error", repr(error)]
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
