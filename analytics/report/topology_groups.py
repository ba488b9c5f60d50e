"""Groups the many consumers and generated queues of one place in the message flow. Pure.

Connections that are killed and opened again are consumers with names of their own, and requesters
have queues with generated names: hundreds of them are one party of the drawing.
"""

from collections.abc import Callable, Iterable

from leveret.analytics.report.aggregates import Edge

ALONE_MAX = 5
"""More consumers of a queue, or generated queues of a virtual host, are grouped."""
_GENERATED = "amq.gen-"

Place = tuple[str, str]
"""Virtual host, and queue."""
Names = dict[tuple[str, str, str], str]
"""The name of its group, by virtual host, queue and consumer."""


def grouped(edges: Iterable[Edge]) -> list[Edge]:
    """Return edges with groups in place of many parties alike, the busiest first."""
    edges = list(edges)
    queues = _queue_names(edges)
    edges = _summed(_with_queues(one, queues) for one in edges)
    consumers = _consumer_names(edges)
    return _summed(
        one._replace(target=consumers.get((one.vhost, one.source, one.target), one.target))
        if one.target_kind == "consumer" else one
        for one in edges
    )  # fmt: skip


def _queue_names(edges: Iterable[Edge]) -> dict[Place, str]:
    """Name the group of generated queues of each virtual host that has many."""
    found: dict[str, set[str]] = {}
    for one in edges:
        for kind, name in ((one.source_kind, one.source), (one.target_kind, one.target)):
            if kind == "queue" and name.startswith(_GENERATED):
                found.setdefault(one.vhost, set()).add(name)
    return {
        (vhost, name): f"{len(names)} queues with generated names"
        for vhost, names in found.items() if len(names) > ALONE_MAX for name in names
    }  # fmt: skip


def _with_queues(one: Edge, names: dict[Place, str]) -> Edge:
    if one.source_kind == "queue":
        one = one._replace(source=names.get((one.vhost, one.source), one.source))
    if one.target_kind == "queue":
        one = one._replace(target=names.get((one.vhost, one.target), one.target))
    return one


def _consumer_names(edges: Iterable[Edge]) -> Names:
    """Name groups of the consumers of queues that have many: by host, or all if hosts are many."""
    by_queue: dict[Place, list[str]] = {}
    for one in edges:
        if one.target_kind == "consumer":
            by_queue.setdefault((one.vhost, one.source), []).append(one.target)
    found: Names = {}
    for place, consumers in by_queue.items():
        if len(consumers) <= ALONE_MAX:
            continue
        by_host = _by(consumers, host)
        if len(by_host) > ALONE_MAX:
            words = {f"{len(consumers)} consumers on {len(by_host)} hosts": consumers}
        else:
            words = {
                f"{len(names)} consumers on {name}": names
                for name, names in by_host.items() if len(names) > 1
            }  # fmt: skip
        found |= {(*place, name): word for word, names in words.items() for name in names}
    return found


def _by(names: Iterable[str], key: Callable[[str], str]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for name in names:
        found.setdefault(key(name), []).append(name)
    return found


def host(consumer: str) -> str:
    """Return the host of a consumer, whose name is `TAG on HOST:PORT -> HOST:PORT`."""
    return consumer.rpartition(" on ")[2].split(" -> ")[0].rpartition(":")[0] or consumer


def _summed(edges: Iterable[Edge]) -> list[Edge]:
    messages: dict[Edge, int] = {}
    for one in edges:
        key = one._replace(messages=0)
        messages[key] = messages.get(key, 0) + one.messages
    found = [key._replace(messages=count) for key, count in messages.items()]
    return sorted(found, key=lambda one: -one.messages)
