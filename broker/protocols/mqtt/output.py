"""The output of an MQTT connection: PUBACKs that are due are added before each flush. Compiled."""

from leveret.broker.net.socket_output import SocketOutput
from leveret.broker.protocols.mqtt.incoming import MqttInput
from leveret.broker.runtime.clock import Clock
from leveret.broker.runtime.turns import Turns


class MqttOutput(SocketOutput):
    """The output of one connection."""

    __slots__ = ("_received",)

    def __init__(self, turns: Turns, clock: Clock, received: MqttInput) -> None:
        """received: the connection's input, with its publisher."""
        super().__init__(turns, clock)
        self._received = received

    def flush(self) -> None:
        """Write the gathered packets."""
        publisher = self._received.publisher
        if publisher is not None:
            publisher.send_answers()
        super().flush()
