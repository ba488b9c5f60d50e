"""Federation links: lists of them, restarts, who may see them; and policies with federation's keys.

RabbitMQ must have the plugin federation_management. The upstream is another vhost of the broker.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from tests.mgmt.recorder.broker import Broker
from tests.mgmt.recorder.requests import delete, get, options_of, post, put
from tests.mgmt.recorder.scenario import Scenario
from tests.mgmt.recorder.state import TAGS, Names, users_of_each_tag

LINK, LATER = "9c6247ec", {"reconnect-delay": 3600}
"""The id of the link of exchange `fx` to `there` at the upstream `good`."""
RESTART = f"federation-links/vhost/{{v}}/{LINK}/{{node}}/restart"
POLICIES = (
    {"federation-upstream-set": 5},
    {"federation-upstream": ["good"]},
    {"federation-upstream-pattern": 5},
    {"federation-upstream-pattern": "("},
    {"federation-upstream": "good", "federation-upstream-set": "all"},
    {"federation-upstream": "good", "federation-upstream-set": "all",
     "federation-upstream-pattern": "."},
    {"federation-upstream-pattern": "^none", "max-length": 5},
    {"federation-upstream": "nosuch"},
)  # fmt: skip


@contextmanager
def with_upstream(broker: Broker, vhost: str) -> Iterator[Names]:
    """A vhost and users of each tag, and a vhost `{u}` as upstream, which is at port `{port}`."""
    upstream = f"{vhost}-upstream"
    with users_of_each_tag(broker, vhost) as names:
        broker.ask("DELETE", f"vhosts/{upstream}")
        broker.ask("PUT", f"vhosts/{upstream}", {})
        try:
            yield {"u": upstream, "port": str(broker.amqp_port), **names}
        finally:
            broker.ask("DELETE", f"vhosts/{upstream}")


REQUESTS = (
    put("exchanges/{v}/fx", {"type": "topic"}),
    put("queues/{v}/fq", {"durable": True}),
    put("parameters/federation-upstream/{v}/good",
        {"value": {"uri": "amqp://guest:guest@127.0.0.1:{port}/{u}", "exchange": "there"}}),
    put("parameters/federation-upstream/{v}/bad",
        {"value": {"uri": "amqp://guest:sesame@127.0.0.1:1", "queue": "far",
                   "consumer-tag": "tag", **LATER}}),
    get("parameters/federation-upstream/{v}"),
    get("parameters/federation-upstream/{v}/good", user="policymaker"),
    get("parameters/federation-upstream/{v}/good", user="monitoring"),
    get("federation-links/{v}"),
    put("policies/{v}/p", {"pattern": "^f", "definition": {"federation-upstream-set": "all"}}),
    get("federation-links", settles=True),
    get("federation-links/{v}", settles=True),
    get("federation-links/{v}/", settles=True),
    get("federation-links/state/down"),
    get("federation-links/state/down/"),
    get("federation-links/{v}/state/down"),
    get("federation-links/{v}/state/up"),
    get("federation-links/{u}"),
    get("federation-links/{u}/state/down"),
    get("federation-links/nosuch"),
    get("federation-links/nosuch/state/down"),
    get("federation-links/{v}?columns=upstream,status,exchange,vhost,consumer_tag"),
    get("federation-links/{v}?sort=upstream&columns=upstream", ordered=True),
    get("federation-links/{v}?page=1&page_size=3&columns=vhost"),
    *(get(path, user=tag) for tag in TAGS for path in ("federation-links", "federation-links/{u}")),
    get("federation-links", user=None),
    options_of("federation-links"),
    post("federation-links"),
    put("federation-links/{v}"),
    put(RESTART),
    delete(RESTART, user="management"),
    delete(RESTART, user="monitoring"),
    delete(RESTART, user="policymaker"),
    delete("federation-links/vhost/{v}/00000000/{node}/restart"),
    delete("federation-links/vhost/nosuch/" + RESTART.partition("{v}/")[2]),
    delete("federation-links/vhost/{u}/" + RESTART.partition("{v}/")[2]),
    delete(RESTART.replace("{node}", "nosuch@localhost")),
    delete(RESTART),
    get("federation-links/{v}", settles=True),
    delete("parameters/federation-upstream/{v}/bad"),
    get("federation-links/{v}", settles=True),
    delete("policies/{v}/p"),
    get("federation-links/{v}", settles=True),
    *(put(f"policies/{{v}}/wrong{number}", {"pattern": "^none", "definition": definition})
      for number, definition in enumerate(POLICIES)),
)  # fmt: skip

FEDERATION = (Scenario("federation-links", REQUESTS, with_upstream),)
