"""Publishers of persistent messages wait for the disk, and no other clients do."""

import asyncio
import threading

import pytest
from pamqp import commands

from leveret.broker.amqp.content_header import read_header
from leveret.broker.auth.backends.internal import InternalBackend
from leveret.broker.auth.identity import Identity
from leveret.broker.declarations.requester import THE_NODE
from leveret.broker.sessions.direct import DirectConnection
from leveret.storage.disk.disk import Disk
from leveret.storage.metadata.metadata import SqliteMetadata
from tests.patience import PATIENCE_SECONDS
from tests.protocol.raw_client import encode_properties, opened, wait_until
from tests.stored_broker import started

QUICK_SYNCS = 50
"""Enough that the disk counts as a quick one."""
OPERATIONS = ["write", "sync", "sync of the declarations"]


class Gate:
    """A system call that takes no time, until it waits for the test."""

    def __init__(self):
        self.waits = threading.Event()
        self.is_open = threading.Event()
        self.is_open.set()

    def shut(self):
        self.waits.clear()
        self.is_open.clear()

    def pass_through(self):
        self.waits.set()
        assert self.is_open.wait(PATIENCE_SECONDS)


class GatedDisk(Disk):
    """A disk whose operations on the log pass a gate. Its syncs take no time otherwise."""

    def __init__(self, gates):
        super().__init__()
        self._gates = gates

    def write(self, descriptor, path, data, offset):
        if path.suffix == ".log":
            self._gates["write"].pass_through()
        super().write(descriptor, path, data, offset)

    def sync(self, descriptor, path):
        self._gates["sync"].pass_through()


def gated_metadata(gate):
    """Makes metadata whose syncs pass a gate."""

    class GatedMetadata(SqliteMetadata):
        def sync(self):
            gate.pass_through()
            super().sync()

    return GatedMetadata


@pytest.mark.parametrize("operation", OPERATIONS)
def test_a_transient_message_does_not_wait_for_a_disk_that_was_quick_before(tmp_path, operation):
    gates = {name: Gate() for name in OPERATIONS}
    metadata = gated_metadata(gates["sync of the declarations"])
    broker = started(tmp_path, make_metadata=metadata, disk=GatedDisk(gates))
    try:
        with opened(broker) as persistent, opened(broker) as transient:
            transient.declare("transient")
            persistent.declare("persistent", durable=True)
            persistent.call(1, commands.Confirm.Select, commands.Confirm.SelectOk)
            for _ in range(QUICK_SYNCS):
                persistent.publish(1, "persistent", b"before", delivery_mode=2)
                persistent.read_method(1, commands.Basic.Ack)

            gates[operation].shut()
            persistent.send_method(
                1, commands.Queue.Bind, queue="persistent", exchange="amq.direct", nowait=True
            )
            persistent.publish(1, "persistent", b"held", delivery_mode=2)
            assert gates[operation].waits.wait(PATIENCE_SECONDS)
            transient.publish(1, "transient", b"meanwhile")
            assert transient.get("transient") == b"meanwhile"

            gates[operation].is_open.set()
            persistent.read_method(1, commands.Basic.Ack)
    finally:
        for gate in gates.values():
            gate.is_open.set()
        broker.stop()


def test_management_answers_a_publish_when_the_message_is_on_disk(tmp_path):
    gates = {name: Gate() for name in OPERATIONS}
    broker = started(tmp_path, disk=GatedDisk(gates))
    try:
        with opened(broker) as client:
            client.declare("q", durable=True)
            gates["sync"].shut()
            published = broker.call(lambda embedded: asyncio.ensure_future(publish(embedded, "q")))
            assert gates["sync"].waits.wait(PATIENCE_SECONDS)
            assert not published.done()
            gates["sync"].is_open.set()
            wait_until(published.done)
            assert published.result()
    finally:
        gates["sync"].is_open.set()
        broker.stop()


async def publish(embedded, queue):
    """Publish a persistent message as `POST /api/exchanges/.../publish` does."""
    header = read_header(encode_properties({"delivery_mode": 2}))
    with connect(embedded) as connection:
        is_routed = await connection.publish("", queue, header, b"body")
        return is_routed and await connection.confirmed()


def connect(embedded):
    services = embedded.broker.services
    guest = Identity("guest", ("administrator",), authorization=InternalBackend(
        services.users, services.permissions))  # fmt: skip
    return DirectConnection(services, guest, services.vhosts["/"], "127.0.0.1", THE_NODE)
