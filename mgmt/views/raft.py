"""The members of a quorum queue as JSON: the field `raft` (http-api.md), joined of all nodes.

Also a message of it, as `rabbitmq-queues peek` shows it.
"""

from typing import Any

from leveret.broker.amqp.content_header import ContentHeader
from leveret.broker.amqp.json_form import text
from leveret.broker.queues.contract.queue_factory import PeekedMessage
from leveret.cluster.replicated_queues.member_states import NOT_LED
from leveret.mgmt.views.to_json import properties_to_json

PAYLOAD_BYTES_MAX = 64

OF_THE_LEADER = "lag"
"""What only the leader's node knows of a member. All else is what its own node knows."""


def add_part(shown: dict[str, Any], part: dict[str, Any], node: str) -> None:
    """Add what another node reports: its own member, and if it leads, how far the others are."""
    found = {member["node"]: member for member in part["members"]}
    for member in shown["members"]:
        other = found.get(member["node"])
        if other is None:
            continue
        if member["node"] == node:
            member |= {name: value for name, value in other.items() if name != OF_THE_LEADER}
        if other[OF_THE_LEADER] is not None:
            member[OF_THE_LEADER] = other[OF_THE_LEADER]
    if part["leader"] is not None and part["term"] >= shown["term"]:
        shown |= {name: part[name] for name in ("leader", "term", "reason")}
    elif shown["reason"] == NOT_LED and part["leader"] is None:
        shown["reason"] = part["reason"]


def peeked_message(peeked: PeekedMessage) -> dict[str, Any]:
    """The fields of `rabbit_basic:peek_fmt_message`, in its order."""
    message = peeked.message
    header = message.header
    assert isinstance(header, ContentHeader)
    properties = dict(properties_to_json(header.properties))
    headers = properties.pop("headers", {}) | {"x-delivery-count": peeked.delivery_count}
    address = message.address
    return {
        **dict(reversed(properties.items())),
        "routing_keys": [text(address.routing_key)],
        "exchange": text(address.exchange),
        "payload (max 64 bytes)": message.body[:PAYLOAD_BYTES_MAX].decode(errors="replace"),
        **{f"header.{name}": value for name, value in headers.items()},
    }
