"""Prepares a broker for the requests of a scenario, and cleans up afterwards.

Every scenario has a vhost of its own, and a user for each tag with all permissions in it. The busy
state adds a working client: channels with confirms, consumers, unacked and returned messages.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from typing import Any
from urllib.parse import quote

import pika

from tests.mgmt.recorder.broker import Broker
from tests.mgmt.recorder.requests import PREFIX

TAGS = ("administrator", "monitoring", "policymaker", "management", "none")
STRANGER = "stranger"
"""A user with the tag management and without permissions."""
EVERYTHING = {"configure": ".*", "write": ".*", "read": ".*"}

Names = dict[str, str]
Prepare = Callable[[Broker, str], AbstractContextManager[Names]]


def login(user: str | None) -> str | None:
    """Return the login of a user given by tag, or unchanged if given as `a:b`."""
    if user is None or ":" in user:
        return user
    return "guest:guest" if user == "guest" else f"{PREFIX}-{user}:secret"


@contextmanager
def empty_vhost(broker: Broker, vhost: str) -> Iterator[Names]:
    """An empty vhost."""
    broker.ask("DELETE", f"vhosts/{vhost}")
    broker.ask("PUT", f"vhosts/{vhost}", {})
    broker.ask("PUT", f"permissions/{vhost}/guest", EVERYTHING)
    try:
        yield {"v": vhost, "node": broker.node}
    finally:
        broker.ask("DELETE", f"vhosts/{vhost}")


@contextmanager
def users_of_each_tag(broker: Broker, vhost: str) -> Iterator[Names]:
    """A vhost, and users of each tag with all permissions in it."""
    with empty_vhost(broker, vhost) as names:
        for tag in TAGS:
            _put_user(broker, tag, "" if tag == "none" else tag)
            broker.ask("PUT", f"permissions/{vhost}/{PREFIX}-{tag}", EVERYTHING)
        _put_user(broker, STRANGER, "management")
        try:
            yield names
        finally:
            for tag in (*TAGS, STRANGER):
                broker.ask("DELETE", f"users/{PREFIX}-{tag}")


def _put_user(broker: Broker, name: str, tags: str) -> None:
    broker.ask("PUT", f"users/{PREFIX}-{name}", {"password": "secret", "tags": tags})


@contextmanager
def declared(broker: Broker, vhost: str) -> Iterator[Names]:
    """Exchanges, queues, bindings, policies, parameters and limits of many kinds."""
    with users_of_each_tag(broker, vhost) as names:
        for path, body in DECLARATIONS:
            method = "POST" if path.startswith("bindings/") else "PUT"
            answer = broker.ask(method, path.replace("{v}", vhost), body)
            assert answer.status in (201, 204), (path, answer)
        try:
            yield names
        finally:
            broker.ask("DELETE", f"global-parameters/{PREFIX}")


@contextmanager
def busy(broker: Broker, vhost: str) -> Iterator[Names]:
    """The same, with working clients of guest and of the management user."""
    with declared(broker, vhost) as names:
        connection = connect(broker, vhost)
        other = connect(broker, vhost, login("management"))
        other.channel()
        work(connection)
        try:
            yield names | _names_of(broker, connection, "") | _names_of(broker, other, "other_")
        finally:
            for one in (connection, other):
                with suppress(pika.exceptions.AMQPError):
                    # A scenario may have closed it.
                    one.close()


def _names_of(broker: Broker, connection: pika.BlockingConnection, which: str) -> Names:
    port = connection._impl._transport._sock.getsockname()[1]
    name = f"127.0.0.1:{port} -> 127.0.0.1:{broker.amqp_port}"
    return {f"{which}connection": name, f"{which}quoted": quote(name, safe="")}


def connect(
    broker: Broker, vhost: str, user: str | None = "guest:guest"
) -> pika.BlockingConnection:
    """Open a connection of a real client with a name of its own."""
    parameters = pika.ConnectionParameters(
        "127.0.0.1", broker.amqp_port, vhost,
        pika.PlainCredentials(*(user or "").split(":")), heartbeat=60,
        client_properties={"connection_name": f"{PREFIX} client"},
    )  # fmt: skip
    return pika.BlockingConnection(parameters)


def work(connection: pika.BlockingConnection) -> None:
    """Publish confirmed and returned messages, consume some, ack some, and leave some unacked."""
    persistent = pika.BasicProperties(delivery_mode=2, headers={"h": 1}, content_type="text/plain")
    publisher = connection.channel()
    publisher.confirm_delivery()
    for number in range(10):
        publisher.basic_publish("topics", f"job.{number}", b"12345", persistent)
    with suppress(pika.exceptions.UnroutableError):
        publisher.basic_publish("", "nowhere", b"lost", mandatory=True)
    consumer = connection.channel()
    consumer.basic_qos(prefetch_count=4)
    consumer.basic_consume("work", _acks_two(), consumer_tag="tag", arguments={"x-priority": 2})
    connection.process_data_events(0.3)
    getter = connection.channel()
    getter.basic_get("other", auto_ack=True)
    getter.basic_get("empty", auto_ack=False)
    getter.basic_qos(prefetch_count=7, global_qos=True)
    connection.channel().tx_select()


def _acks_two() -> Callable[..., None]:
    seen: list[int] = []

    def take(channel: Any, delivery: Any, *_: Any) -> None:
        seen.append(delivery.delivery_tag)
        if len(seen) <= 2:
            channel.basic_ack(delivery.delivery_tag)

    return take


DURABLE = {"durable": True}
DECLARATIONS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("exchanges/{v}/topics", {"type": "topic", "durable": True}),
    ("exchanges/{v}/heads", {"type": "headers", "durable": True}),
    ("exchanges/{v}/inner", {"type": "fanout", "internal": True}),
    ("exchanges/{v}/fleeting", {"type": "direct", "auto_delete": True,
                                "arguments": {"alternate-exchange": "inner"}}),
    ("exchanges/{v}/a%20b%2Fc%20%C3%BC", {"type": "direct", "durable": True}),
    ("queues/{v}/work", {"durable": True, "arguments": {"x-max-length": 1000}}),
    ("queues/{v}/other", {"durable": True, "arguments": {
        "x-message-ttl": 600000, "x-expires": 700000, "x-max-length-bytes": 1000000,
        "x-dead-letter-exchange": "heads", "x-dead-letter-routing-key": "dead",
        "x-overflow": "reject-publish", "x-max-priority": 5}}),
    ("queues/{v}/single", {"durable": True, "arguments": {"x-single-active-consumer": True}}),
    ("queues/{v}/empty", {"auto_delete": True}),
    ("queues/{v}/a%20b%2Fc%20%C3%BC", DURABLE),
    ("bindings/{v}/e/topics/q/work", {"routing_key": "job.*"}),
    ("bindings/{v}/e/topics/q/work", {"routing_key": "same", "arguments": {"k": 1}}),
    ("bindings/{v}/e/topics/q/work", {"routing_key": "same", "arguments": {"k": 2}}),
    ("bindings/{v}/e/topics/q/other", {"routing_key": "job.#"}),
    ("bindings/{v}/e/topics/e/inner", {"routing_key": "in"}),
    ("bindings/{v}/e/heads/q/single", {"arguments": {"x-match": "all", "a": "b"}}),
    ("bindings/{v}/e/a%20b%2Fc%20%C3%BC/q/a%20b%2Fc%20%C3%BC", {"routing_key": "a b/c ü~"}),
    ("policies/{v}/short", {"pattern": "^work$", "apply-to": "queues", "priority": 3,
                            "definition": {"max-length": 500, "dead-letter-exchange": "inner"}}),
    ("policies/{v}/spare", {"pattern": "^topics$", "apply-to": "exchanges",
                            "definition": {"alternate-exchange": "inner"}}),
    ("operator-policies/{v}/cap", {"pattern": "^work$", "apply-to": "queues",
                                   "definition": {"max-length": 400}}),
    ("vhost-limits/{v}/max-queues", {"value": 100}),
    ("vhost-limits/{v}/max-connections", {"value": 50}),
    (f"user-limits/{PREFIX}-none/max-connections", {"value": 5}),
    (f"user-limits/{PREFIX}-none/max-channels", {"value": 6}),
    (f"topic-permissions/{{v}}/{PREFIX}-none",
     {"exchange": "topics", "write": "^a", "read": "^b"}),
    (f"global-parameters/{PREFIX}", {"value": {"a": [1, "b", None]}}),
)  # fmt: skip
