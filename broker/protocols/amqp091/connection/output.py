"""A connection's output: frames of channels, and the confirms that are due with them.

Consumers and channels append to `pieces` directly, and report the size for a run of deliveries
(`gathered`).
"""

from collections.abc import Callable

from leveret.broker.amqp.frames import HEARTBEAT_FRAME
from leveret.broker.protocols.amqp091.channel.channel import Channel, ConnectionOutput
from leveret.broker.services.services import Services


class Output(ConnectionOutput):
    """The output of one connection."""

    __slots__ = ("_confirming",)

    def __init__(self, services: Services, caught_up: Callable[[], object]) -> None:
        """caught_up: called when the output is no longer congested."""
        super().__init__(services, services.config.initial_frame_max_bytes)
        self.caught_up = caught_up
        self._confirming: list[Channel] = []

    def disconnect(self) -> None:
        """The socket is closed: discard all later output."""
        super().disconnect()
        self._confirming = []

    def send_heartbeat(self) -> None:
        """Send a heartbeat frame."""
        self.pieces.append(HEARTBEAT_FRAME)
        self.flush_later()

    def confirm_later(self, channel: Channel) -> None:
        """The channel has confirms to send at the end of the round."""
        self._confirming.append(channel)
        self.flush_later()

    def flush(self) -> None:
        """Write the buffered pieces, and the confirms."""
        if self._confirming and not self.services.holds_confirms:
            confirming, self._confirming = self._confirming, []
            for channel in confirming:
                channel.send_confirms()
        super().flush()
