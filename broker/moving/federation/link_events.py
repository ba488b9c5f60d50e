"""Events of federation links: a change of the state, and the end of a link on this node.

Names and fields are those of RabbitMQ's `rabbit_federation_status`.
"""

from leveret.broker.events.events import Events
from leveret.broker.moving.federation.status import ERROR, QUEUE, RUNNING, LinkStatus
from leveret.broker.moving.transfers.local_time import local_time


def link_changed(events: Events, status: LinkStatus) -> None:
    """A link has started, can receive messages from now on, or has failed."""
    if events.are_wanted:
        events.notify("federation.link.status", facts_of(status))


def link_removed(events: Events, status: LinkStatus) -> None:
    """A link has ended, is being restarted, or another node runs it."""
    if events.are_wanted:
        events.notify("federation.link.removed", _identity(status))


def facts_of(status: LinkStatus) -> dict[str, str]:
    """The ends and the state of a link, by RabbitMQ's names."""
    state = {"status": status.state}
    if status.state == RUNNING:
        state["local_connection"] = status.local_connection
    elif status.state == ERROR:
        state["error"] = status.error
    timestamp = local_time(status.since_s)
    return {**_identity(status), **state, "uri": status.uri, "timestamp": timestamp}


def _identity(status: LinkStatus) -> dict[str, str]:
    identity = {status.kind: status.name, f"upstream_{status.kind}": status.upstream_name}
    if status.kind == QUEUE:
        identity["consumer_tag"] = status.consumer_tag
    return {
        **identity,
        "type": status.kind,
        "vhost": status.vhost,
        "upstream": status.upstream,
        "id": status.link_id,
    }
