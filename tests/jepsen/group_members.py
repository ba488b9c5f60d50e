"""Single active consumers of streams: groups whose members come, go, and change their nodes.

Each member joins the group of its stream through any node, stays for some seconds, and leaves. An
active one stores the offset of each chunk that it has got, and one that becomes active begins
after the offset that is stored. The groups are those of a super stream, in which the leader asks
the active member to stop when another one is to be active.
"""

import asyncio
import contextlib
import random
import struct
import time
from collections.abc import Callable

from leveret.broker.protocols.stream import codes
from tests.jepsen.clients import LOOK_SECONDS, PUBLISH_SECONDS, RETRY_SECONDS, end_all
from tests.jepsen.group_account import GroupAccount
from tests.jepsen.stream_protocol import LOST, SUBSCRIPTION, StreamClient, read_chunk
from tests.protocol.stream_peer import string

GROUP, MEMBERS = "group", ("first", "second", "third")
STAY_SECONDS = 1.0, 9.0
FIRST = b"\0\1"
FROM_OFFSET = struct.Struct(">HQ")
NO_OFFSET = b"\0\0"
QUIET_SECONDS = 1.0
"""A member that got nothing for so long looks whether it should leave."""


class Member:
    """One stay of a member. name: of the member; the account knows it by this."""

    def __init__(self, client: StreamClient, name: str, queue: str, group: GroupAccount) -> None:
        self._client = client
        self._name = name
        self._queue = queue
        self._group = group
        self._begin = 0
        self._question = b""
        """The correlation of the update that waits for the stored offset."""

    async def join(self, super_stream: str) -> None:
        """Become a member of the group."""
        await self._client.subscribe(
            self._queue, FIRST, single_active_consumer="true", name=GROUP, super_stream=super_stream
        )

    async def stay(self, until_s: float, chance: random.Random) -> None:
        """Answer to updates, and take chunks, until this time."""
        while time.monotonic() < until_s:
            try:
                key, body = await self._client.receive(QUIET_SECONDS)
            except TimeoutError:
                continue
            if key == codes.DELIVER:
                self._take(body)
                await asyncio.sleep(chance.uniform(0, PUBLISH_SECONDS))
            elif key == codes.CONSUMER_UPDATE:
                self._update(body)
            elif key == codes.QUERY_OFFSET | codes.RESPONSE:
                self._begin_after(body)
            elif key == codes.METADATA_UPDATE:
                return

    def _update(self, body: bytes) -> None:
        correlation, is_active = body[:4], body[5]
        if is_active:
            self._question = correlation
            name, stream = string(GROUP), string(self._queue)
            self._client.send(codes.QUERY_OFFSET, correlation + name + stream)
        else:
            self._question = b""
            self._group.ends(self._name)
            self._answer(correlation, NO_OFFSET)

    def _begin_after(self, body: bytes) -> None:
        if body[:4] != self._question:
            return
        is_stored = int.from_bytes(body[4:6], "big") == codes.OK
        self._begin = int.from_bytes(body[6:14], "big") + 1 if is_stored else 0
        self._group.begins(self._name)
        self._answer(self._question, FROM_OFFSET.pack(4, self._begin))

    def _answer(self, correlation: bytes, offset: bytes) -> None:
        ok = struct.pack(">H", codes.OK)
        self._client.send(codes.CONSUMER_UPDATE | codes.RESPONSE, correlation + ok + offset)

    def _take(self, body: bytes) -> None:
        first, entries = read_chunk(body)
        self._client.send(codes.CREDIT, struct.pack(">Bh", SUBSCRIPTION, 1))
        last = first + len(entries) - 1
        for offset in range(max(first, self._begin), last + 1):
            self._group.took(self._name, offset)
        if last >= self._begin:
            self._client.store_offset(self._queue, GROUP, last)


class Groups:
    """The groups of the partitions of a super stream. host: of any node."""

    def __init__(
        self, super_stream: str, groups: dict[str, GroupAccount], chance: random.Random,
        host: Callable[[], str],
    ) -> None:  # fmt: skip
        self._super_stream = super_stream
        self._groups = groups
        self._chance = chance
        self._host = host
        self._tasks: list[asyncio.Task[None]] = []
        self._are_staying = False

    def start(self) -> None:
        """Let all members join."""
        start = asyncio.get_running_loop().create_task
        self._tasks = [
            start(self._be_member(name, queue)) for queue in self._groups for name in MEMBERS
        ]

    async def finish(self, ends: dict[str, int]) -> None:
        """Wait until all groups have got the message at their stream's end, and end them."""
        self._are_staying = True
        while any(self._groups[queue].next_offset <= end for queue, end in ends.items()):
            await asyncio.sleep(LOOK_SECONDS)
        await asyncio.sleep(STAY_SECONDS[1] / 2)
        for group in self._groups.values():
            group.finished()
        for error in await end_all(self._tasks):
            raise AssertionError(f"a member of a group has failed: {error!r}")

    async def _be_member(self, name: str, queue: str) -> None:
        group = self._groups[queue]
        while True:
            with contextlib.suppress(*LOST):
                async with StreamClient(self._host()) as client:
                    member = Member(client, name, queue, group)
                    try:
                        await member.join(self._super_stream)
                        await member.stay(self._until_s(), self._chance)
                    finally:
                        group.ends(name)
            await asyncio.sleep(RETRY_SECONDS)

    def _until_s(self) -> float:
        """When a member leaves. In the end nobody does."""
        seconds = 1e9 if self._are_staying else self._chance.uniform(*STAY_SECONDS)
        return time.monotonic() + seconds
