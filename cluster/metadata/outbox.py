"""The outputs of a step, in the order in which the parts of the state machine produce them."""

from leveret.cluster.metadata.messages import AnyMessage
from leveret.cluster.metadata.outputs import Output, SendMessage


class Outbox:
    """Gathers the outputs of one step."""

    def __init__(self) -> None:
        self._outputs: list[Output] = []

    def add(self, *outputs: Output) -> None:
        """Add outputs of this step."""
        self._outputs += outputs

    def send(self, name: str, message: AnyMessage) -> None:
        """Add a message to a linked node."""
        self._outputs.append(SendMessage(name, message))

    def take(self) -> list[Output]:
        """The outputs since the last call."""
        outputs, self._outputs = self._outputs, []
        return outputs
