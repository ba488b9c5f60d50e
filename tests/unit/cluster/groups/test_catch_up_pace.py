"""How fast members that are behind are sent entries and snapshots."""

import heapq
from contextlib import suppress

from leveret.cluster.groups.catch_up_pace import (
    BYTES_A_MS,
    FASTER_THAN_APPENDS,
    LATE_MS,
    CatchUpPace,
)

PIECE = 256 * 1024


class Times:
    """A clock that a test sets, and the calls that wait for it."""

    def __init__(self):
        self.time_ms = 10_000
        self.wakes = []

    def now_ms(self):
        return self.time_ms

    def wake_at(self, at_ms, wake):
        heapq.heappush(self.wakes, (at_ms, len(self.wakes), wake))
        return 0

    def advance(self, milliseconds):
        end_ms = self.time_ms + milliseconds
        while self.wakes and self.wakes[0][0] <= end_ms:
            self.time_ms, _, wake = heapq.heappop(self.wakes)
            wake(self.time_ms)
        self.time_ms = end_ms


class Node:
    """A node that appends at a constant rate, and transfers that send as much as they may."""

    def __init__(self, appended_a_ms, transfers=1):
        self.times = Times()
        self.appended_a_ms = appended_a_ms
        self.publishes_until_ms = 1_000_000
        self.pace = CatchUpPace(self.times, self.appended_bytes)
        self.sent = [0] * transfers

    def appended_bytes(self):
        return self.appended_a_ms * min(self.times.time_ms, self.publishes_until_ms)

    def send(self, transfer=0, pieces=100_000):
        for _ in range(pieces):
            if not self.pace.may_send(lambda: self.send(transfer)):
                return
            self.pace.sent(PIECE)
            self.sent[transfer] += PIECE


def test_there_is_no_limit_while_nothing_is_appended():
    node = Node(appended_a_ms=0)
    node.send(pieces=1000)
    assert node.sent == [1000 * PIECE]


def test_the_rate_is_limited_while_clients_publish():
    node = Node(appended_a_ms=1)
    node.send()
    node.times.advance(10_000)
    assert 0.9 < node.sent[0] / (10_000 * BYTES_A_MS) < 1.1


def test_a_member_catches_up_with_any_rate_of_publishing():
    node = Node(appended_a_ms=10 * BYTES_A_MS)
    node.send()
    node.times.advance(10_000)
    assert 0.9 < node.sent[0] / (10_000 * node.appended_a_ms * FASTER_THAN_APPENDS) < 1.1


def test_transfers_have_their_turn_one_after_the_other_with_one_timer():
    node = Node(appended_a_ms=1, transfers=4)
    for transfer in range(4):
        node.send(transfer)
    assert len(node.times.wakes) == 1
    node.times.advance(10_000)
    assert len(node.times.wakes) == 1
    assert max(node.sent) - min(node.sent) <= LATE_MS * BYTES_A_MS + 2 * PIECE
    assert 0.9 < sum(node.sent) / (10_000 * BYTES_A_MS) < 1.1


def test_the_limit_ends_with_the_traffic():
    node = Node(appended_a_ms=1)
    node.send()
    node.publishes_until_ms = node.times.now_ms()
    node.times.advance(2000)
    assert node.sent[0] >= 100_000 * PIECE


def test_a_transfer_that_fails_does_not_stop_the_others():
    node = Node(appended_a_ms=1, transfers=2)
    node.send()

    def fail():
        raise ValueError("a member of the group has failed")

    assert not node.pace.may_send(fail)
    node.send(1)
    for _ in range(100):
        with suppress(ValueError):
            node.times.advance(10)
    assert min(node.sent) > 10 * PIECE
