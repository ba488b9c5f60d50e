"""The commands of an open connection that are answered: the action of each, and its response.

A command is refused with a code (`CommandRefused`). Its response still has all fields, since
clients read them. Publishes, credits and stored offsets are not answered: the connection handles
them.
"""

import struct
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any, Final, TypeAlias

from leveret.broker.protocols.stream import codes, declaring, responses, super_streams
from leveret.broker.protocols.stream.addresses import address_of
from leveret.broker.protocols.stream.publishers import Publishers
from leveret.broker.protocols.stream.responses import StreamNodes
from leveret.broker.protocols.stream.serving import (
    READ,
    CommandRefused,
    ServingConnection,
    check,
    find_queue,
    find_stream,
)
from leveret.broker.protocols.stream.subscriptions import Subscriptions
from leveret.broker.queues.contract.offset_specification import NEXT, OffsetSpecification
from leveret.broker.queues.contract.stream import StreamStats
from leveret.broker.runtime.pending import Answer

LEADER_LOOK_MS: Final = 100
LEADER_LOOKS: Final = 10
"""A stream whose leader has died, or whose node has just started, has a leader again within a
second. Until then RabbitMQ answers that the stream is not available, which clients such as rstream
raise as an error to their programs."""
_OFFSET_TYPE: Final = 4
_RESOLVED: Final = struct.Struct(">HQ")


class StreamCommands:
    """The commands of one connection."""

    def __init__(
        self, connection: ServingConnection, publishers: Publishers, subscriptions: Subscriptions
    ) -> None:
        self._connection = connection
        self._publishers = publishers
        self._subscriptions = subscriptions

    @staticmethod
    def has(key: int) -> bool:
        """Whether this is the key of one of these commands."""
        return key in _COMMANDS

    async def do(self, key: int, fields: tuple[Any, ...]) -> bytes:
        """Carry out a command; returns the body of its response. Raises CommandRefused, Fault."""
        return await _COMMANDS[key](self, *fields)

    # Publishers and subscriptions

    async def declare_publisher(self, number: int, reference: str, stream: str) -> bytes:
        """Declare a publisher."""
        return await self._publishers.declare(number, reference, stream)

    async def delete_publisher(self, number: int) -> bytes:
        """Delete a publisher."""
        self._publishers.delete(number)
        return b""

    async def subscribe(self, *fields: Any) -> bytes:
        """Subscribe to a stream."""
        return await self._subscriptions.subscribe(*fields)

    async def unsubscribe(self, number: int) -> bytes:
        """End a subscription."""
        self._subscriptions.unsubscribe(number)
        return b""

    # Declaring

    async def create(self, name: str, arguments: Mapping[str, str]) -> bytes:
        """Create a stream."""
        return await declaring.create(self._connection, name, arguments)

    async def delete(self, name: str) -> bytes:
        """Delete a stream."""
        return await declaring.delete(self._connection, name)

    async def create_super_stream(self, *fields: Any) -> bytes:
        """Create a super stream."""
        return await declaring.create_super_stream(self._connection, *fields)

    async def delete_super_stream(self, name: str) -> bytes:
        """Delete a super stream."""
        return await declaring.delete_super_stream(self._connection, name)

    # Questions

    async def query_sequence(self, reference: str, name: str) -> bytes:
        """The last publishing id of a publisher."""
        await check(self._connection, name, READ)
        answer: Answer[int] = Answer()
        find_stream(self._connection, name).sequence(_bytes(reference), answer)
        return responses.number(await answer)

    async def query_offset(self, reference: str, name: str) -> bytes:
        """The offset that is stored under a name."""
        await check(self._connection, name, READ)
        answer: Answer[int | None] = Answer()
        find_stream(self._connection, name).stored_offset(_bytes(reference), answer)
        offset = await answer
        if offset is None:
            raise CommandRefused(codes.NO_OFFSET)
        return responses.number(offset)

    async def resolve_offset(
        self, name: str, start: OffsetSpecification | None, _properties: Mapping[str, str]
    ) -> bytes:
        """The offset from which a subscription would get messages."""
        await check(self._connection, name, READ)
        answer: Answer[int] = Answer()
        find_stream(self._connection, name).resolve_offset(start or NEXT, answer)
        return _RESOLVED.pack(_OFFSET_TYPE, await answer)

    async def stream_stats(self, name: str) -> bytes:
        """The offsets of a stream."""
        await check(self._connection, name, READ)
        answer: Answer[StreamStats] = Answer()
        find_stream(self._connection, name).stats(answer)
        stats = await answer
        return responses.statistics({
            "first_chunk_id": stats.first_offset,
            "last_chunk_id": stats.committed_chunk_offset,
            "committed_chunk_id": stats.committed_chunk_offset,
        })  # fmt: skip

    async def partitions(self, name: str) -> bytes:
        """The partitions of a super stream."""
        return responses.strings(super_streams.partitions(self._connection.vhost, name))

    async def route(self, routing_key: str, name: str) -> bytes:
        """The partitions for a key."""
        return responses.strings(super_streams.route(self._connection.vhost, name, routing_key))

    async def exchange_versions(self, offered: list[tuple[int, int, int]]) -> bytes:
        """The versions of all commands. Deliveries get the client's highest version."""
        for key, _, highest in offered:
            if key == codes.DELIVER:
                self._subscriptions.deliver_version = 2 if highest >= 2 else 1
        return responses.command_versions(
            resolves_offsets=self._connection.services.config.is_as_rabbitmq_4_3
        )

    async def metadata(self, names: list[str]) -> dict[str, StreamNodes]:
        """The leaders and replicas of streams. Waits for up to a second while one has no leader."""
        found = {name: self._nodes_of(name) for name in names}
        for _ in range(LEADER_LOOKS):
            if all(nodes.code != codes.STREAM_NOT_AVAILABLE for nodes in found.values()):
                break
            passed: Answer[None] = Answer()
            clock = self._connection.services.clock
            clock.call_later_ms(LEADER_LOOK_MS, partial(passed.give, None))
            await passed
            found = {name: self._nodes_of(name) for name in names}
        return found

    def _nodes_of(self, name: str) -> StreamNodes:
        connection = self._connection
        try:
            queue = find_queue(connection, name)
        except CommandRefused as refused:
            return StreamNodes(refused.code)
        members = connection.services.queue_kinds.of(queue.kind).members(queue)
        if members is None or not members.leader:
            return StreamNodes(codes.STREAM_NOT_AVAILABLE)
        replicas = [
            address_of(connection, node) for node in members.online if node != members.leader
        ]
        return StreamNodes(
            codes.OK,
            address_of(connection, members.leader),
            [address for address in replicas if address is not None],
        )


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


Command: TypeAlias = Callable[..., Awaitable[bytes]]
_COMMANDS: Final[Mapping[int, Command]] = {
    codes.DECLARE_PUBLISHER: StreamCommands.declare_publisher,
    codes.DELETE_PUBLISHER: StreamCommands.delete_publisher,
    codes.QUERY_PUBLISHER_SEQUENCE: StreamCommands.query_sequence,
    codes.SUBSCRIBE: StreamCommands.subscribe,
    codes.UNSUBSCRIBE: StreamCommands.unsubscribe,
    codes.QUERY_OFFSET: StreamCommands.query_offset,
    codes.CREATE: StreamCommands.create,
    codes.DELETE: StreamCommands.delete,
    codes.ROUTE: StreamCommands.route,
    codes.PARTITIONS: StreamCommands.partitions,
    codes.EXCHANGE_COMMAND_VERSIONS: StreamCommands.exchange_versions,
    codes.STREAM_STATS: StreamCommands.stream_stats,
    codes.CREATE_SUPER_STREAM: StreamCommands.create_super_stream,
    codes.DELETE_SUPER_STREAM: StreamCommands.delete_super_stream,
    codes.RESOLVE_OFFSET: StreamCommands.resolve_offset,
}
REFUSED_BODIES: Final[Mapping[int, bytes]] = {
    codes.QUERY_PUBLISHER_SEQUENCE: responses.number(0),
    codes.QUERY_OFFSET: responses.number(0),
    codes.ROUTE: responses.strings(()),
    codes.PARTITIONS: responses.strings(()),
    codes.STREAM_STATS: responses.statistics({}),
    codes.RESOLVE_OFFSET: _RESOLVED.pack(_OFFSET_TYPE, 0),
}
"""The other fields of a response to a refused command."""
