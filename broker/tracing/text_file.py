"""The file of a trace that RabbitMQ's tools read: it only grows."""

from pathlib import Path

from broker.tracing.appended_file import AppendedFile
from broker.tracing.output import Batch


class TextFile:
    """Where such a trace goes; see `output.Destination`. Removed, the file begins anew."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: AppendedFile | None = None

    def write(self, batch: Batch) -> None:
        """Append a batch."""
        self._opened().append(batch.data)

    def tick(self, time_us: int) -> None:
        """Have the file, as soon as there is a trace."""
        file = self._opened()
        if not file.is_there():
            self._file = None
            file.close()
            self._opened()

    def close(self) -> None:
        """Leave the file as it is."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def _opened(self) -> AppendedFile:
        if self._file is None:
            self._file = AppendedFile(self._path)
        return self._file
