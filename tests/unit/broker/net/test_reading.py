"""Reading: the reasons to leave a socket unread, and that each of them alone is enough."""

import pytest

from leveret.broker.net.reading import (
    BIG_READ_BYTES,
    ROUND_READ_BYTES_MAX,
    SHARED_WORK_MAX,
    Reading,
)
from leveret.broker.resources.alarms import DISK, MEMORY
from leveret.broker.runtime.turns import WORK_MAX
from tests.unit.broker.net.fakes import Socket, make_services

TIMEOUT_MS = 1000


class Client:
    """One that is told that it is blocked. told: what, in order."""

    name = "client"

    def __init__(self):
        self.told = []

    def send_blocked(self, reason):
        self.told.append(reason)

    def send_unblocked(self):
        self.told.append("unblocked")


@pytest.fixture
def services():
    return make_services()


@pytest.fixture
def socket():
    return Socket()


def read(services, socket):
    """The reading side of a connection with this socket, and its client."""
    client = Client()
    reading = Reading(services, client)
    reading.connect(socket)
    return reading, client


def test_a_publisher_is_blocked_while_there_is_an_alarm(services, socket):
    reading, client = read(services, socket)
    services.alarms.set(MEMORY)
    assert not reading.hold_back(is_persistent=True)
    assert (socket.is_read, reading.publishing_state, len(client.told)) == (False, "blocked", 1)
    services.alarms.clear(MEMORY)
    reading.alarms_changed()
    assert (socket.is_read, reading.publishing_state, len(client.told)) == (True, "running", 2)


def test_an_alarm_that_lasts_has_publishes_refused(socket):
    services = make_services(publisher_blocked_timeout_ms=TIMEOUT_MS)
    reading, _ = read(services, socket)
    services.alarms.set(MEMORY)
    assert not reading.hold_back(is_persistent=True)
    services.clock.advance(TIMEOUT_MS / 1000)
    assert socket.is_read
    assert reading.hold_back(is_persistent=True)
    assert reading.publishing_state == "blocked"


def test_a_publisher_waits_for_a_store_that_is_behind(services, socket):
    reading, _ = read(services, socket)
    services.flow.set_congested(True)
    reading.hold_back(is_persistent=True)
    assert (socket.is_read, reading.publishing_state) == (False, "flow")
    services.flow.set_congested(False)
    reading.congestion_changed()
    assert (socket.is_read, reading.publishing_state) == (True, "running")


def test_a_slow_disk_holds_back_only_publishers_of_persistent_messages(services, socket):
    reading, _ = read(services, socket)
    services.flow.set_congested(True)
    reading.hold_back(is_persistent=False)
    assert (socket.is_read, reading.publishing_state) == (True, "running")
    services.flow.set_congested(True, is_memory_short=True)
    reading.hold_back(is_persistent=False)
    assert (socket.is_read, reading.publishing_state) == (False, "flow")
    services.flow.set_congested(True)
    reading.congestion_changed()
    assert (socket.is_read, reading.publishing_state) == (True, "running")


def test_a_publisher_that_waits_for_a_slow_disk_is_told_of_an_alarm(services, socket):
    reading, client = read(services, socket)
    services.flow.set_congested(True)
    reading.hold_back(is_persistent=True)
    assert not client.told
    services.alarms.set(DISK)
    reading.alarms_changed()
    assert (reading.publishing_state, len(client.told)) == ("blocked", 1)
    services.alarms.clear(DISK)
    reading.alarms_changed()
    assert (socket.is_read, reading.publishing_state) == (False, "flow")
    services.flow.set_congested(False)
    reading.congestion_changed()
    assert (socket.is_read, reading.publishing_state) == (True, "running")


def test_every_reason_has_to_be_gone(services, socket):
    reading, _ = read(services, socket)
    services.flow.set_congested(True)
    reading.hold_back(is_persistent=True)
    reading.backlog_changed(True)
    services.flow.set_congested(False)
    reading.congestion_changed()
    assert not socket.is_read
    reading.backlog_changed(False)
    assert socket.is_read


def test_others_have_their_turn_after_the_bytes_of_a_turn(services, socket):
    reading, _ = read(services, socket)
    reading.pause_after_large_reads(ROUND_READ_BYTES_MAX - 1, others_publish_little=True)
    assert socket.is_read
    reading.pause_after_large_reads(1, others_publish_little=False)
    assert not socket.is_read
    services.turns.end_round()
    assert socket.is_read


@pytest.mark.parametrize(
    ("others_publish_little", "work", "is_read"), [(True, SHARED_WORK_MAX, True),
    (False, SHARED_WORK_MAX + 1, True), (True, SHARED_WORK_MAX + 1, False)]
)  # fmt: skip
def test_other_clients_have_their_turn_after_one_read_of_many_messages(
    services, socket, others_publish_little, work, is_read
):
    reading, _ = read(services, socket)
    services.turns.work_left = WORK_MAX - work
    reading.pause_after_large_reads(BIG_READ_BYTES, others_publish_little)
    assert socket.is_read == is_read
    services.turns.end_round()
    assert socket.is_read
