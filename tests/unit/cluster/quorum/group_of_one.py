"""A quorum queue's group of one member in memory, and a client of it: no disk, no links."""

import msgspec

from leveret.broker.amqp.json_form import text
from leveret.broker.queues.contract.publication import publication_of
from leveret.broker.runtime.counts import MessageCounts
from leveret.broker.runtime.pending import Answer
from leveret.cluster.quorum.client.quorum_queue_client import QuorumQueueClient
from leveret.cluster.quorum.machine.commands import (
    Configure,
    NodeDown,
    encode_command,
    entry_of,
)
from leveret.cluster.quorum.machine.figures import figures
from leveret.cluster.quorum.queue_group import QueueGroup
from leveret.cluster.quorum.queue_groups.machine_options import QueueRules, machine_options
from leveret.cluster.quorum.queue_machines import FOR_THE_LEADER, QueueMachines
from leveret.cluster.remote_queues.remote_hold import UntakenBytes
from leveret.cluster.replicated_queues.client.own_node import OwnNode
from leveret.cluster.replicated_queues.client.sender_numbers import SenderNumbers
from leveret.storage.messages.addresses import Addresses
from leveret.storage.messages.message import Message
from tests.unit.broker.queues.fakes import ADDRESS, HEADER, FakeConsumer, FakeVhost, specified

NODE, INCARNATION = "a@host", 1_700_000_000_000_000
ANSWER_MS = 10_000
"""How long requests wait for a leader."""


class GroupOfOne:
    """What the client of a queue uses of a group, and its only member.

    entries: its log. for_leader: gets the effects for its leader. loses: commands are lost on their
    way. is_forgetful: answers are. is_damaging: clients get damaged entries. demand: that of
    `watch`.
    """

    node, declared_at_s, is_new = NODE, 0, True

    def __init__(self, clock):
        self.clock = clock
        self.machine = QueueMachines().new()
        self.entries = [b""]
        self.client = self.demand = None
        self.sessions = {}
        self.for_leader = lambda effect: None
        self.is_led = self.loses = self.is_forgetful = self.is_damaging = self.is_closed = False
        self.sent = []

    # What the client asks for

    def attach(self, session, sender, seen, received):
        if self.is_led:
            self.sessions = {sender: session}
            self.client.told(session, self.machine.attach(sender, seen, received), self)

    def send(self, session, commands):
        self.sent += commands
        if self.is_led and not self.loses:
            for command in self.machine.accepted(commands):
                self._apply(self.machine.entry(command, self.clock.now_ms()))
            self._tell()

    def took(self, session, consumer, octets):
        for sender in [one for one, of in self.sessions.items() if of == session]:
            for effect in self.machine.took(sender, consumer, octets):
                self.client.told(session, [effect], self)

    def ask(self, question, answer):
        answer(self.machine.answer(question) if self.is_led else None)

    def close(self):
        self.is_closed = True

    def wall_ms(self):
        return 0

    def led(self):
        return None

    def watch(self, demand):
        self.demand = demand

    def end(self, is_deleted):
        return

    def configure(self, options):
        self.propose(Configure(machine_options(options, QueueRules.OF_3)))

    # The leader

    def _apply(self, entry):
        self.entries.append(entry)
        self.machine.apply(len(self.entries) - 1, entry, True)

    def propose(self, command):
        self.propose_entry(entry_of(encode_command(command), self.clock.now_ms()))

    def propose_entry(self, entry):
        self._apply(entry)
        self._tell()

    def _tell(self):
        for sender, effect in self.machine.take_effects():
            if sender == FOR_THE_LEADER:
                self.for_leader(effect)
            elif sender in self.sessions and not self.is_forgetful:
                self.client.told(self.sessions[sender], [effect], self)

    def __getitem__(self, index):
        """An entry, as a client gets it."""
        entry = self.entries[index]
        return entry[:-10] if self.is_damaging else entry

    def lead(self):
        self.is_led = True
        self.client.leader_found()

    def stop_leading(self):
        self.is_led = False
        self.sessions = {}
        self.client.leader_lost()

    def take_node_for_gone(self):
        self.propose(NodeDown(NODE, INCARNATION))


class Use:
    """A quorum queue and its client. behind: what `UntakenBytes` has said."""

    def __init__(self, **arguments):
        self.vhost = FakeVhost()
        self.vhost.clock.advance(1)
        self.group = GroupOfOne(self.vhost.clock)
        letters = {int: "I", str: "S", bool: "t"}
        table = {
            name.replace("_", "-"): (letters[type(value)], value)
            for name, value in (arguments | {"x_queue_type": "quorum"}).items()
        }
        specification = specified(table, durable=True)
        self.specification = specification
        self.behind = []
        self.node = OwnNode(
            NODE, ANSWER_MS, SenderNumbers(NODE, INCARNATION), Addresses(),
            UntakenBytes(self.behind.append), MessageCounts(),
        )  # fmt: skip
        self.queue = self.client()
        self.group.propose(Configure(machine_options(self.queue.options, QueueRules.OF_3)))
        self.group.lead()

    def client(self):
        """A new client of the group, in the place of the last one."""
        service = QueueGroup(self.group)
        service.begin(self.group)
        queue = QuorumQueueClient(self.vhost, self.specification, self.node, service)
        self.group.client = queue
        return queue

    def settle(self):
        """Give turns until nothing is left to do."""
        self.vhost.turns.run()

    def asked(self, ask, *arguments):
        """The answer to a question. Raises what it is refused with."""
        answer = Answer()
        ask(*arguments, answer)
        self.settle()
        return answer.result()

    def consuming(self, consumer):
        """The consumer, which gets messages from now on."""
        self.asked(self.queue.subscribe, consumer)
        return consumer

    @property
    def figures(self):
        return figures(self.group.machine.queue)


class LimitedConsumer(FakeConsumer):
    """A consumer with a prefetch limit."""

    def __init__(self, tag="c", prefetch=1000, no_ack=False):
        super().__init__(tag, prefetch, no_ack)
        self.prefetch = prefetch

    def figures(self, activity):
        figures = super().figures(activity)
        return msgspec.structs.replace(figures, tag=text(self.tag), prefetch_count=self.prefetch)


def run_of(*bodies, publisher=None, first=1, header=HEADER):
    """A publication of these messages."""
    return publication_of(
        [Message(ADDRESS, header, body) for body in bodies], None, publisher, first
    )
