"""Replies that wait for the disk, and the output of their channels behind them.

A method whose declaration is applied but not on disk yet has only its reply left (`Synced`,
broker/runtime/pending.py). It does not hold its channel: the client's next methods are handled, and
their declarations share the next sync. Later output of the channel waits behind the reply. So the
client gets everything in the order in which it would if each method held its channel: as in
RabbitMQ, where one process handles a channel's methods and sends its deliveries and confirms.

Mechanism: while replies wait, the channel's `output` is an `OutputBehindReplies`. It gathers the
output of the channel, in one list for each reply, and passes a list on when its reply has been
sent. The message path needs no check for it.

UR1. A reply is sent after its own sync, and after the replies before it.
UR2. Nothing that a channel sends overtakes a reply that waits: deliveries, confirms, returned
     messages and other replies wait behind it. A fault of the channel and channel.close hold the
     channel until all of its replies are sent (incoming.py).
UR3. If a reply fails, the output behind it is dropped, and the fault follows the output already
     sent.
UR4. No more than `WAITING_MAX` replies of a connection wait: a further one holds its channel. No
     more than `GATHERED_BYTES_MAX` of contents are gathered behind them: above that, consumers get
     no deliveries, and the socket is not read.

Not promised: that the replies of different channels come in the order of their methods. When the
connection is closed, the replies that wait are not sent.
"""

from collections import deque
from collections.abc import Callable

from leveret.broker.amqp.content import Piece
from leveret.broker.protocols.amqp091.channel.channel import Channel, ConnectionOutput
from leveret.broker.protocols.amqp091.connection.output import Output
from leveret.broker.runtime.pending import Answer, PendingOperation, given

WAITING_MAX = 1000
"""The declarations of 200 milliseconds: more than arrive during a sync, unless the disk stalls."""
GATHERED_BYTES_MAX = 1024 * 1024


class WaitingReply:
    """A method that waits for a sync, then replies.

    method_index: the method that its faults name. behind: the later output of its channel, and
    content_bytes: the approximate number of bytes of contents in it.
    """

    __slots__ = ("behind", "content_bytes", "method_index", "operation")

    def __init__(self, operation: PendingOperation, method_index: int) -> None:
        self.operation = operation
        self.method_index = method_index
        self.behind: list[Piece] = []
        self.content_bytes = 0


class UnsyncedReplies:
    """The replies of one connection that wait for a sync.

    is_full: more is gathered behind them than the limit allows.
    """

    __slots__ = ("_channels", "_fullness_changed", "_output", "content_bytes", "count", "is_full")

    def __init__(self, output: Output, fullness_changed: Callable[[], object]) -> None:
        """output: the connection's. fullness_changed: called when `is_full` has changed."""
        self._output = output
        self._fullness_changed = fullness_changed
        self._channels: dict[int, OutputBehindReplies] = {}
        self.count = self.content_bytes = 0
        self.is_full = False

    @property
    def has_room(self) -> bool:
        """Whether one more reply may wait (UR4)."""
        return self.count < WAITING_MAX

    def is_waiting(self, channel: Channel) -> bool:
        """Whether replies of this channel wait."""
        return channel.number in self._channels

    def wait(self, channel: Channel, operation: PendingOperation, method_index: int) -> None:
        """Have the reply of a method that awaits a sync wait for it.

        When the operation is resumed, `send_next` is called where faults are handled.
        """
        behind = self._channels.get(channel.number)
        if behind is None:
            if channel.has_confirms_due:
                channel.send_confirms()
            behind = OutputBehindReplies(self, channel, self._output)
            self._channels[channel.number] = channel.output = channel.unsynced = behind
        behind.add(WaitingReply(operation, method_index))

    def sent(self, channel: Channel) -> Answer[None]:
        """The answer is given when all replies of a channel are sent; then none of its earlier
        output waits. Asked once at a time.
        """
        behind = self._channels.get(channel.number)
        return given(None) if behind is None else behind.all_sent

    def next_due(self, channel: Channel) -> int | None:
        """The method whose reply is the next of its channel; None if it has to wait."""
        behind = self._channels.get(channel.number)
        return None if behind is None else behind.next_due()

    def send_next(self, channel: Channel) -> None:
        """Send the reply that is due, and the output behind it. Raises the reply's fault."""
        self._channels[channel.number].send_next()

    def forget(self, channel: Channel) -> None:
        """No replies of this channel are waiting."""
        del self._channels[channel.number]

    def gathered(self, content_bytes: int) -> None:
        """The gathered contents have changed by this many bytes; negative if there are fewer."""
        self.content_bytes += content_bytes
        is_full = self.content_bytes > GATHERED_BYTES_MAX
        if is_full != self.is_full:
            self.is_full = is_full
            self._fullness_changed()
            if not is_full:
                self._output.caught_up()

    def close(self) -> None:
        """The connection ends: the replies that wait are dropped."""
        for behind in tuple(self._channels.values()):
            behind.close()

    def disconnect(self) -> None:
        """The socket is closed: nothing more is sent."""
        self._fullness_changed = _no_listener


class OutputBehindReplies(ConnectionOutput):
    """The output of one channel behind replies that wait.

    all_sent: given when no reply waits.
    """

    __slots__ = ("_all", "_channel", "_output", "_waiting", "all_sent")

    def __init__(self, replies: UnsyncedReplies, channel: Channel, output: Output) -> None:
        """output: the connection's."""
        super().__init__(output.services, output.frame_bytes_max)
        self._all = replies
        self._channel = channel
        self._output = output
        self._waiting: deque[WaitingReply] = deque()
        self.all_sent: Answer[None] = Answer()

    # As the channel uses it

    @property
    def is_congested(self) -> bool:
        """Whether consumers of the channel get no deliveries."""
        return self._all.is_full or self._output.is_congested

    def gathered(self, content_bytes: int) -> None:
        """Contents are gathered behind the last reply."""
        self._waiting[-1].content_bytes += content_bytes
        self._all.gathered(content_bytes)

    def flush_later(self) -> None:
        """Do nothing: what is gathered is passed on with the reply."""

    def confirm_later(self, channel: Channel) -> None:
        """Have confirms sent to this output at the end of the round."""
        self._output.confirm_later(channel)

    # The replies

    def add(self, reply: WaitingReply) -> None:
        """One more reply waits, and later output of the channel waits behind it."""
        self._waiting.append(reply)
        self.pieces = reply.behind
        self._all.count += 1

    def next_due(self) -> int | None:
        """The method whose reply is next; None if it has to wait."""
        first = self._waiting[0]
        return None if first.operation.is_waiting else first.method_index

    def send_next(self) -> None:
        """Send the reply that is due, and the output behind it. Raises the reply's fault."""
        channel = self._channel
        if channel.has_confirms_due:
            # These became due after the reply did.
            channel.send_confirms()
        reply = self._waiting[0]
        channel.output = self._output
        try:
            reply.operation.step()
        except BaseException:
            self.close()
            raise
        assert reply.operation.is_over, (
            "UR2: a method that waited for a sync does nothing but reply"
        )
        self._waiting.popleft()
        self._output.pieces += reply.behind
        self._output.gathered(reply.content_bytes)
        if self._waiting:
            channel.output = self
        else:
            self.close()
        self._let_go(reply)

    def _let_go(self, reply: WaitingReply) -> None:
        self._all.count -= 1
        self._all.gathered(-reply.content_bytes)

    def close(self) -> None:
        """The channel sends to the connection's output again; the replies that wait are dropped."""
        channel = self._channel
        channel.output, channel.unsynced = self._output, None
        self._all.forget(channel)
        waiting, self._waiting = self._waiting, deque()
        for reply in waiting:
            reply.operation.close()
            self._let_go(reply)
        self.all_sent.give(None)


def _no_listener() -> None:
    """The connection has ended."""
