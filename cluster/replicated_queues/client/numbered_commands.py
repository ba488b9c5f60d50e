"""The commands of one sender. They are numbered 1, 2, 3 ..., and kept until they are applied.

Invariants:
NC1. The kept commands are those after `seen`, without a gap.
NC2. A result belongs to a kept command. All commands before that one are done first.
"""

from collections.abc import Iterator

from mypy_extensions import i64

from leveret.cluster.replicated_queues.client.numbered_command import NumberedCommand


class NumberedCommands:
    """The commands of one sender.

    sender: its number. last: the number of the last command. seen: all commands through this number
    were applied, and their results have arrived. kept_bytes: of the kept commands.
    """

    __slots__ = ("_kept", "kept_bytes", "last", "seen", "sender")

    def __init__(self, sender: int) -> None:
        self.sender = sender
        self.last: i64 = 0
        self.seen: i64 = 0
        self.kept_bytes: i64 = 0
        self._kept: dict[int, NumberedCommand] = {}

    def __repr__(self) -> str:
        return f"<{len(self._kept)} commands of {self.sender}>"

    def add(self, command: NumberedCommand) -> bytes:
        """Give a command its number, and encode it. Returns the bytes."""
        self.last += 1
        number = self.last
        command.number = number
        payload = command.payload = command.encode(self.sender, self.seen)
        self.kept_bytes += len(payload)
        self._kept[number] = command
        return payload

    def after_seen(self) -> list[bytes]:
        """The bytes of the kept commands, in order."""
        return [command.payload for command in self._kept.values()]

    def applied(self, through: int) -> None:
        """The commands through a number are done. Those with a result were told it before.

        Raises ValueError for a number that no command has.
        """
        self._check(through)
        while self.seen < through:
            self._done(None)

    def result(self, number: int, result: object) -> None:
        """A command has a result. A known result is ignored. Raises ValueError like `applied`."""
        if number > self.seen:
            self._check(number)
            self.applied(number - 1)
            self._done(result)  # NC2

    def _check(self, number: int) -> None:
        if number > self.last:
            raise ValueError(f"command {number} is applied, but the last one is {self.last}")

    def _done(self, result: object) -> None:
        self.seen += 1
        command = self._kept.pop(self.seen)
        self.kept_bytes -= len(command.payload)
        command.applied(result)

    def __iter__(self) -> Iterator[NumberedCommand]:
        """The kept commands, in order."""
        return iter(self._kept.values())
