"""Links that are up and lose frames, and quarters of a net_ticktime that pass meanwhile."""

import logging

from tests.unit.broker.queues.fakes import publish
from tests.unit.cluster.remote_queues.fakes import Publisher


def lose(nodes, monkeypatch, sender, receiver, kind):
    """Frames of a kind do not arrive from one node at another, though they are linked."""
    send = nodes.ends[sender, receiver].send

    def lossy(service, *pieces):
        if pieces[0][0] != kind:
            send(service, *pieces)

    monkeypatch.setattr(nodes.ends[sender, receiver], "send", lossy)


def look(nodes, times):
    """A number of quarters of a net_ticktime pass."""
    for _ in range(times):
        for node in nodes:
            node.replicas.look()
        nodes.settle()


def published(nodes, name):
    """A message goes to the queue from a node, whose publisher waits for the confirm."""
    publisher = Publisher()
    publish(nodes.queue(name), b"1", publisher=publisher)
    nodes.settle()
    return publisher


def warnings(caplog):
    return [one.getMessage() for one in caplog.records if one.levelno == logging.WARNING]
