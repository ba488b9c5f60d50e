"""The single file of a trace in a format of RabbitMQ's plugin: it is only appended to."""

from pathlib import Path

from leveret.broker.tracing.appended_file import AppendedFile
from leveret.broker.tracing.output import OutputBatch


class TextFile:
    """A `TraceDestination` that appends to a file. A deleted file is created again."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: AppendedFile | None = None

    def write(self, batch: OutputBatch) -> None:
        """Append a batch."""
        self._opened().append(batch.data)

    def tick(self, time_us: int) -> None:
        """Create the file as soon as the trace exists."""
        file = self._opened()
        if not file.is_there():
            self._file = None
            file.close()
            self._opened()

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def _opened(self) -> AppendedFile:
        if self._file is None:
            self._file = AppendedFile(self._path)
        return self._file
