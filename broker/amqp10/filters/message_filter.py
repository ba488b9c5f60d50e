"""The filter of a consumer of a stream: which of its messages it wants."""

from collections.abc import Callable, Sequence

from leveret.broker.amqp10.filters.message_fields import MessageFields, Scalar


class MessageFilter:
    """Messages pass if each of the conditions is True for them, which is neither None nor 1."""

    __slots__ = ("_conditions",)

    def __init__(self, conditions: Sequence[Callable[[MessageFields], Scalar]]) -> None:
        self._conditions = tuple(conditions)

    def matches(self, data: bytes, begin: int, end: int) -> bool:
        """Whether the message passes whose sections are in `data`, from `begin` to `end`."""
        fields = MessageFields(data, begin, end)
        return all(condition(fields) is True for condition in self._conditions)
