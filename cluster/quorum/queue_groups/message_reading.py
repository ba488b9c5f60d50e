"""Reads a message of a quorum queue from the log of the member on this node."""

from leveret.broker.amqp.errors import internal_error
from leveret.broker.protocols.amqp10.modified_messages import annotated
from leveret.broker.queues.contract.queue_factory import PeekedMessage
from leveret.broker.runtime.pending import Answer
from leveret.cluster.groups.group_member import GroupMember
from leveret.cluster.quorum.machine.commands import messages_at
from leveret.cluster.quorum.machine.runs import Run
from leveret.cluster.remote_queues.message_runs import RunReader
from leveret.storage.contract.backing_queue import BeingRead
from leveret.storage.disk.disk import StoreError
from leveret.storage.messages.addresses import Addresses
from leveret.storage.messages.message import Message


def messages_of(run: Run, entry: bytes, addresses: Addresses) -> list[Message]:
    """The messages of a run. entry: the log entry that published them."""
    reader = RunReader(entry, messages_at(entry), addresses)
    if run.place:
        reader.pass_over(run.place)
    messages = [one.message for one in reader.some_entries(run.count, 1, False)]
    annotations = run.annotations
    return messages if annotations is None else [annotated(one, annotations) for one in messages]


def read_message(
    member: GroupMember, run: Run, addresses: Addresses, answer: Answer[PeekedMessage | None]
) -> None:
    """Answer with the first message of a run when it is read."""
    try:
        entry = member.read_entry(run.index)
    except BeingRead as reading:
        reading.when_done(lambda: read_message(member, run, addresses, answer))
    except (KeyError, StoreError) as error:
        answer.refuse(internal_error(f"the message cannot be read: {error}"))
    else:
        (message,) = messages_of(run.part(0, 1), entry, addresses)
        answer.give(PeekedMessage(message, run.delivery_count))
