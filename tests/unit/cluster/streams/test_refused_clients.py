"""A client whose publish the leader refuses begins again, and its publishers are told."""

from itertools import count

from leveret.cluster.remote_queues.remote_hold import UntakenBytes
from leveret.cluster.replicated_queues.client.group_client import (
    GroupClient,
    SendCommands,
    StartSession,
)
from leveret.cluster.replicated_queues.client.sender_numbers import SenderNumbers
from leveret.cluster.replicated_queues.client.unapplied_hold import UnappliedHold
from leveret.cluster.streams.client.commands import PublishEntries, StreamSenders
from leveret.cluster.streams.machine.effects import Applied
from leveret.cluster.streams.machine.stream_machine import StreamMachine
from leveret.cluster.streams.stream_machines import StreamGroupMachine
from leveret.storage.stream_log.chunks import entries_of, read_head


class Leader:
    """The leader of a stream, and a client on another node. stored: the entries of its chunks.

    outcomes: of the client's appends, by their names. refused: what was reported.
    """

    def __init__(self):
        self.machine = StreamGroupMachine(StreamMachine(), 0)
        self.refused, self.outcomes, self.stored = [], {}, []
        self.machine.refused = lambda node, reason: self.refused.append((node, reason))
        self.client = GroupClient(StreamSenders(SenderNumbers("b", 1)))
        self.client.leader_found()
        self._hold = UnappliedHold(UntakenBytes(lambda is_behind: None))
        self._index = count(1)

    def append(self, name, entries, entry_count=1):
        append = PublishEntries(b"", self._hold)
        append.add([entries], len(entries), entry_count, entry_count, [])
        append.then(lambda is_stored: self.outcomes.setdefault(name, is_stored))
        self.client.add(append)

    def run(self):
        """Pass on what both send until neither has anything to send."""
        while outputs := self.client.take_outputs():
            for output in outputs:
                if isinstance(output, StartSession):
                    self._tell(
                        self.machine.attach(output.sender, output.seen, output.received),
                        output.session,
                    )
                elif isinstance(output, SendCommands):
                    commands = self.machine.accepted(output.payloads)
                    for chunk in self.machine.entries(commands, 1_000, 1):
                        self.stored += filter(None, [entries_of(chunk, read_head(chunk))])
                        self.machine.apply(next(self._index), chunk, True)
                    effects = self.machine.take_effects()
                    self._tell([effect for _, effect in effects], output.session)

    def _tell(self, effects, session):
        for effect in effects:
            if isinstance(effect, Applied):
                self.client.applied(session, effect.through)
            else:
                self.client.sender_unknown(session)


def message(body):
    return len(body).to_bytes(4) + body


def test_what_was_not_confirmed_is_reported_and_the_client_goes_on():
    leader = Leader()
    leader.append("first", message(b"first"))
    leader.run()
    leader.append("before", message(b"before"))
    leader.append("bad", message(b"bad"), entry_count=2)
    leader.append("after", message(b"after"))
    leader.run()
    assert leader.outcomes == {"first": True, "before": True, "bad": False, "after": False}
    leader.append("again", message(b"again"))
    leader.run()
    assert leader.outcomes["again"]
    assert leader.stored == [message(b"first"), message(b"before"), message(b"again")]
    assert leader.refused == [("node b", "7 bytes are not 2 entries with 2 messages")]


def test_the_first_publish_of_a_client_may_be_bad():
    leader = Leader()
    leader.append("bad", message(b"bad"), entry_count=2)
    leader.append("after", message(b"after"))
    leader.run()
    leader.append("again", message(b"again"))
    leader.run()
    assert leader.outcomes == {"bad": False, "after": False, "again": True}
    assert leader.stored[-1] == message(b"again")
