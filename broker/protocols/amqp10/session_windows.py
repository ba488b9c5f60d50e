"""The windows of a session, in transfers, and the transfers that wait for room. Compiled.

The client's window bounds the transfers that are sent to it. If a message is larger than the rest
of the window, its last transfers and those after it wait until a flow of the client opens the
window.

The numbers of transfers have 32 bits, and 0 follows the highest one (RFC 1982).
"""

from collections import deque
from typing import Final

from leveret.broker.net.socket_output import SocketOutput
from leveret.broker.protocols.amqp10.conditions import WINDOW_VIOLATION, SessionEnds
from leveret.broker.protocols.amqp10.performatives import Begin
from leveret.broker.protocols.amqp10.session_frames import ABSENT, flow_frame
from leveret.broker.protocols.amqp10.transfer_frames import SERIAL, forward

INCOMING_WINDOW: Final = 400
"""RabbitMQ's window: the number of transfers that a client may send in advance."""
FIRST_OUTGOING_ID: Final = SERIAL - 4
"""RabbitMQ's, near the highest number, which reveals clients that do not wrap around."""
_UINT_MAX: Final = SERIAL - 1


class SessionWindows:
    """The windows of one session.

    next_outgoing_id, next_incoming_id: the numbers of the next transfers. room: the number of
    transfers that may still be sent to the client. is_closed: an alarm is in force.
    """

    __slots__ = (
        "_channel",
        "_excess_max",
        "_incoming_window",
        "_kept",
        "_outgoing_end",
        "_output",
        "is_closed",
        "next_incoming_id",
        "next_outgoing_id",
        "room",
    )  # fmt: skip

    def __init__(
        self, output: SocketOutput, channel: int, begin: Begin, *, is_closed: bool
    ) -> None:
        self._output = output
        self._channel = channel
        self.next_incoming_id = begin.next_outgoing_id
        self.is_closed = is_closed
        self._incoming_window = 0 if is_closed else INCOMING_WINDOW
        self._excess_max = 0
        self._outgoing_end = begin.next_outgoing_id + begin.outgoing_window
        self.next_outgoing_id = FIRST_OUTGOING_ID
        self.room = begin.incoming_window
        self._kept: deque[bytes] = deque()

    # From the client

    def received(self) -> None:
        """A transfer has come. Raises SessionEnds if the client did not keep to the window."""
        self.next_incoming_id = (self.next_incoming_id + 1) % SERIAL
        self._incoming_window -= 1
        if self._incoming_window < -self._excess_max:
            raise SessionEnds(
                WINDOW_VIOLATION,
                f"incoming window violation (tolerated excess tranfers: {self._excess_max})",
            )
        if self._incoming_window <= INCOMING_WINDOW // 2 and not self.is_closed:
            self._incoming_window = INCOMING_WINDOW
            self.send_flow(ABSENT, 0, 0)

    def alarms_changed(self, are_in_force: bool) -> None:
        """Close the incoming window during alarms, but for transfers that are under way."""
        self.is_closed = are_in_force
        is_used_up = self._incoming_window <= 0
        if are_in_force and not is_used_up:
            self._incoming_window, self._excess_max = 0, INCOMING_WINDOW
        elif not are_in_force and (is_used_up or self._excess_max):
            self._incoming_window, self._excess_max = INCOMING_WINDOW, 0
        else:
            return
        self.send_flow(ABSENT, 0, 0)

    @property
    def incoming_window(self) -> int:
        """The number of transfers that the client may still send."""
        return max(0, self._incoming_window)

    @property
    def remote_outgoing_window(self) -> int:
        """The number of transfers that the client may still send by its own last flow."""
        return (self._outgoing_end - self.next_incoming_id) % SERIAL

    def send_flow(self, handle: int, delivery_count: int, link_credit: int) -> None:
        """Send the state of the session, and that of a link. handle: ABSENT without a link."""
        self._output.write(
            flow_frame(
                self._channel, self.next_incoming_id, self.incoming_window, self.next_outgoing_id,
                _UINT_MAX, handle, delivery_count, link_credit,
            )
        )  # fmt: skip

    # To the client

    @property
    def has_room(self) -> bool:
        """Whether transfers may be sent: the window is open, and the client reads."""
        return not self._kept and self.room > 0 and not self._output.is_congested

    @property
    def keeps(self) -> bool:
        """Whether transfers wait."""
        return bool(self._kept)

    def send(self, frames: list[bytes]) -> None:
        """Send transfers of one message, or keep them until the window is open."""
        if self._kept or self.room < len(frames):
            self._kept.extend(frames)
            self._send_kept()
            return
        for frame in frames:
            self._output.write(frame)
        self.sent(len(frames))

    def sent(self, count: int) -> None:
        """Count transfers that were written to the output."""
        self.room -= count
        self.next_outgoing_id = (self.next_outgoing_id + count) % SERIAL

    def client_flow(self, next_incoming_id: int, incoming_window: int, outgoing_end: int) -> None:
        """The client tells its windows. next_incoming_id: ABSENT before it has seen our begin.

        outgoing_end: the number of its next transfer, and its outgoing window. Raises SessionEnds.
        """
        seen = FIRST_OUTGOING_ID if next_incoming_id == ABSENT else next_incoming_id
        if forward(seen, self.next_outgoing_id) > 0:
            raise SessionEnds(
                WINDOW_VIOLATION,
                f"next-incoming-id from FLOW ({seen}) leads next-outgoing-id "
                f"({self.next_outgoing_id})",
            )
        room = (seen + incoming_window) % SERIAL
        self.room = max(0, forward(room, self.next_outgoing_id))
        if incoming_window >= SERIAL // 2:
            self.room = SERIAL // 2
        self._outgoing_end = outgoing_end
        self._send_kept()

    def _send_kept(self) -> None:
        while self._kept and self.room > 0:
            self._output.write(self._kept.popleft())
            self.sent(1)

    def clear(self) -> None:
        """Forget the waiting transfers: the session ends."""
        self._kept.clear()
