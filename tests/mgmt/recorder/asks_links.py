"""Parameters of shovels, federation upstreams and sets of them: most values are wrong.

RabbitMQ must have the plugins shovel and federation. No server listens where the valid ones lead.
"""

from typing import Any

from tests.mgmt.recorder.requests import Request, delete, get, put
from tests.mgmt.recorder.scenario import Scenario
from tests.mgmt.recorder.state import users_of_each_tag

NOWHERE = "amqp://127.0.0.1:1"
SHOVEL = {"src-uri": NOWHERE, "src-queue": "q", "dest-uri": NOWHERE, "dest-queue": "d"}

OF_SHOVELS: tuple[Any, ...] = (
    {},
    {"a": 1},
    {"src-exchange": "x"},
    {"dest-exchange": "x"},
    {"src-uri": None, "ack-mode": "x", "reconnect-delay": "y", "foo": 1},
    {"src-queue": 5},
    {"src-queue": [97, 98]},
    {"dest-queue": "d" * 256},
    {"src-exchange-key": 5},
    {"ack-mode": "nonsense"},
    {"ack-mode": "<ö>"},
    {"ack-mode": 5},
    {"prefetch-count": "5"},
    {"prefetch-count": -1},
    {"prefetch-count": {"a": 1}},
    {"src-prefetch-count": True},
    {"reconnect-delay": "5"},
    {"reconnect-delay": 0.5},
    {"src-delete-after": "always"},
    {"src-delete-after": -1},
    {"src-delete-after": 1.5},
    {"delete-after": True},
    {"delete-after": 5, "ack-mode": "no-ack"},
    {"src-delete-after": "queue-length", "ack-mode": "no-ack"},
    {"src-delete-after": "never", "delete-after": 5, "ack-mode": "no-ack"},
    {"src-delete-after": 0},
    {"src-protocol": "amqp10"},
    {"src-protocol": "amqp099"},
    {"src-protocol": "amqp091", "dest-protocol": "amqp091"},
    {"src-queue-args": 5},
    {"src-queue-args": []},
    {"src-queue-args": {"x": 1}},
    {"src-queue-args": {"x-max-length": -1}},
    {"dest-queue-args": {"x-delivery-limit": 5}},
    {"src-consumer-args": {"x": 1}},
    {"src-consumer-args": {"x-priority": "high"}},
    {"add-forward-headers": "yes"},
    {"dest-add-forward-headers": 1},
    {"dest-publish-properties": {"delivery_mode": "2"}},
    {"dest-publish-properties": {"nonsense": 1}},
    {"publish-properties": {"headers": {}}},
    {"publish-properties": {"priority": "5", "type": 5, "app_id": "a"}},
    {"publish-properties": 5},
    {"publish-properties": [1]},
    {"src_queue": "x"},
    {"name": "x", "foo": [1, {"b": "c", "a": None}]},
)
"""Changes of a valid shovel."""

URIS: tuple[Any, ...] = (
    "http://localhost",
    "localhost",
    "",
    5,
    [],
    [NOWHERE, "http://no"],
    {"a": 1},
    "amqp://host:port",
    "amqp://host:99999",
    "amqp://:5672",
    "amqp:host",
    "amqp://anna:sesame@host/a/b",
    "amqp://anna:sesame%zz@host",
    "amqp://host/%2",
    "amqp://[::1]x",
    "amqp://[::1]:1",
    "amqp://127.0.0.1:1?heartbeat=x",
    "amqp://127.0.0.1:1?heartbeat=5&channel_max=7&unknown=1",
    "amqp://127.0.0.1:1?auth_mechanism=a:b:c",
    "amqp://127.0.0.1:1?port=5",
    "amqps://127.0.0.1:1?depth=x",
    "amqps://127.0.0.1:1?password=sesame&verify=verify_none",
    "amqps://",
    "amqp:///nowhere",
    "amqp:///%2F",
)

OF_UPSTREAMS: tuple[Any, ...] = (
    {},
    {"exchange": 5},
    {"queue": 5},
    {"consumer-tag": 5},
    {"prefetch-count": "x"},
    {"reconnect-delay": "1"},
    {"max-hops": "1"},
    {"expires": "1"},
    {"message-ttl": "1"},
    {"trust-user-id": "yes"},
    {"ack-mode": "x"},
    {"resource-cleanup-mode": "x"},
    {"resource-cleanup-mode": "never", "channel-use-mode": "single"},
    {"channel-use-mode": "x"},
    {"ha-policy": 5},
    {"bind-nowait": 1},
    {"queue-type": "quorum"},
    {"prefetch_count": 5},
    {"uri": []},
    {"uri": "http://x"},
    {"uri": "amqp:///nowhere"},
)
"""Changes of a valid upstream."""

SETS: tuple[Any, ...] = (
    {},
    [],
    5,
    [{}],
    [1],
    [{"upstream": 5}],
    [{"upstream": "u", "foo": 1}, {}],
    [{"upstream": "u", "uri": "amqp://"}],
    [{"upstream": "u", "max-hops": "x"}],
    {"upstream": "u"},
)


def asked(component: str, values: tuple[Any, ...]) -> tuple[Request, ...]:
    """The values, each under a name of its own."""
    return tuple(
        put(f"parameters/{component}/{{v}}/{letter(component)}{number}", {"value": value})
        for number, value in enumerate(values)
    )


def letter(component: str) -> str:
    """What the names of a component's parameters begin with."""
    return component.rpartition("-")[2][0]


LINKS = (
    *asked("shovel", (5, "text", [], [1], True, {}, {"a": 1},
                      *({**SHOVEL, **changes} for changes in OF_SHOVELS),
                      *({**SHOVEL, "src-uri": uri} for uri in URIS))),
    *asked("federation-upstream", (5, [], {},
                                   *({"uri": NOWHERE, **changes} for changes in OF_UPSTREAMS))),
    *asked("federation-upstream-set", SETS),
    put("parameters/shovel/{v}/vhost", {"value": {**SHOVEL, "src-uri": "amqp:///%2F"}},
        user="policymaker"),
    put("parameters/shovel/{v}/vhost", {"value": {**SHOVEL, "src-uri": "amqp:///{v}"}},
        user="policymaker"),
    get("parameters/shovel/{v}/vhost"),
    get("parameters/federation-upstream-set/{v}"),
    delete("parameters/shovel/{v}/vhost"),
)  # fmt: skip

LINK_PARAMETERS = (Scenario("links", LINKS, users_of_each_tag),)
