"""Any program on a mirrored queue, by seed: every mirror ends with what the leader has.

A program publishes from two nodes, fetches, settles, takes, drops and purges, while mirrors join
and are synchronised, and what is on its way arrives in any order of the lines. Leaders die, and so
do nodes that publish.
"""

import random

import pytest

from leveret.storage.messages.message import Message
from tests.unit.cluster.mirrors.group_of_queues import (
    ADDRESS,
    HEADERS,
    Group,
    InMemory,
    OnDisk,
    ready,
)

STEPS = 150


class Program:
    """A program of a seed."""

    def __init__(self, seed, group):
        self.chance = random.Random(seed)
        self.group = group
        self.dead_letters = 0
        self.fail_overs = 0
        self.steps = [
            (self.publish, 12), (self.arrive_at_leader, 14), (self.arrive_at_mirror, 14),
            (self.end_turn, 12), (self.decisions_arrive, 14), (self.answer, 4),
            (self.fetch, 10), (self.ack, 8), (self.requeue, 4), (self.take, 2), (self.drop, 3),
            (self.purge, 1), (self.send_batch, 8), (self.batch_arrives, 8), (self.join, 1),
            (self.leader_dies, 1), (self.node_dies, 1), (self.page_out, 3),
        ]  # fmt: skip

    def run(self, steps):
        moves = [step for step, weight in self.steps for _ in range(weight)]
        for _ in range(steps):
            self.chance.choice(moves)()
        self.group.check()

    def follower(self):
        followers = self.group.followers
        return self.chance.choice(followers) if followers else None

    def publish(self):
        node = self.chance.choice(self.group.nodes)
        priority = self.chance.randrange(len(HEADERS))
        count = self.chance.randint(1, 6)
        node.publish(priority, count, has_own_times=self.chance.random() < 0.3)

    def arrive_at_leader(self):
        leader = self.group.leader
        share = self.chance.choice((0, 0, 0, 0, 0.4))
        refused = {}
        leader.refuses = lambda message: refused.setdefault(
            message.body, self.chance.random() < share
        )
        letter = None
        if self.chance.random() < 0.1:
            self.dead_letters += 1
            letter = Message(ADDRESS, HEADERS[0], b"dead %d" % self.dead_letters)
        node = self.chance.choice(self.group.nodes)
        pieces = 1 if letter is not None else self.chance.choice((1, 1, 2))
        self.group.deliver_contents(node, leader, pieces=pieces, dead_letter=letter)

    def arrive_at_mirror(self):
        follower = self.follower()
        if follower is not None:
            self.group.deliver_contents(self.chance.choice(self.group.nodes), follower)

    def end_turn(self):
        self.group.end_turn()

    def decisions_arrive(self):
        if follower := self.follower():
            self.group.deliver_decisions(follower)

    def answer(self):
        if follower := self.follower():
            self.group.answer(follower)

    def fetch(self):
        self.group.leader.fetch(self.chance.randint(1, 8), self.chance.random() < 0.7)

    def some_held(self):
        held = sorted(self.group.leader.entries)
        return self.chance.sample(held, self.chance.randint(0, len(held)))

    def ack(self):
        self.group.leader.settle(self.some_held(), "ack")

    def requeue(self):
        self.group.leader.settle(self.some_held(), "requeue")

    def take(self):
        leader = self.group.leader
        places = [position for position, _, _ in ready(leader)]
        if places:
            leader.take(set(self.chance.sample(places, min(len(places), 3))))

    def drop(self):
        leader = self.group.leader
        entry = leader.do(leader.queue.drop)
        if entry is not None:
            leader.gone.add(entry.message.body)

    def purge(self):
        self.group.leader.purge()

    def send_batch(self):
        if follower := self.follower():
            self.group.send_batch(follower)

    def batch_arrives(self):
        if follower := self.follower():
            self.group.deliver_batch(follower)

    def join(self):
        if len(self.group.followers) < 3:
            self.group.join()

    def page_out(self):
        implementation = self.chance.choice(self.group.implementations)
        if implementation.has_disk:
            implementation.page_out(self.chance.choice((1, 1_000, 1_000_000)), True)

    def node_dies(self):
        node = self.chance.choice(self.group.nodes)
        self.group.node_dies(node, lambda count: self.chance.randint(0, count))

    def leader_dies(self):
        group = self.group
        if not any(follower.mirror.has_begun for follower in group.followers):
            return
        self.fail_overs += 1
        before = group.leader
        confirmed = self.confirmed()
        on_ring = max(len(follower.decisions) for follower in group.followers)
        was_synchronised = group.fail_over(self.chance.randint(0, on_ring))
        if was_synchronised:
            left = {body for _, body, _ in ready(group.leader)}
            assert confirmed - before.gone <= left

    def confirmed(self):
        """The bodies of what the leader published and every mirror has applied, if it is known."""
        group = self.group
        is_kept = not group.leader.queue.has_decisions and all(
            follower.mirror.has_begun and not follower.decisions and not follower.mirror.is_behind
            for follower in group.followers
        )
        return set(group.leader.published) if is_kept else set()


def run(seed, make_implementation, has_priorities, steps=STEPS):
    group = Group(make_implementation, has_priorities)
    try:
        for _ in range(2):
            group.join()
        program = Program(seed, group)
        program.run(steps)
        return program
    finally:
        group.close()


@pytest.mark.parametrize("has_priorities", [False, True], ids=["plain", "priorities"])
@pytest.mark.parametrize("tens", range(10))
def test_mirrors_have_what_the_leader_has(tens, has_priorities):
    for seed in range(10 * tens, 10 * tens + 10):
        run(seed, InMemory, has_priorities)


@pytest.mark.parametrize("has_priorities", [False, True], ids=["plain", "priorities"])
@pytest.mark.parametrize("seed", range(8))
def test_mirrors_whose_messages_are_on_disk_too(seed, has_priorities):
    run(seed, OnDisk, has_priorities)
