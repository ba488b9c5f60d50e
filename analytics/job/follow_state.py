"""What a follow has read so far: a position in each log, and the records up to there.

Records are Parquet files in a directory for each trigger. The file `follow.json` says which of
these count and where in each log the next one begins. It is beside the tables, and published
together with them by one rename. So a trigger that is killed has no effect: the next one reads the
same again.

A file is identified by its inode and its first bytes: it is the same when the broker gives it the
name of a complete file, and another one if it was replaced.
"""

import hashlib
import json
import os
import shutil
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import BinaryIO

from leveret.analytics.tables.versions import MissingTablesError, published
from leveret.analytics.traces.local_files import local_path

DIRECTORY, NAME = "_follow", "follow.json"
VERSION = 1
HEAD_BYTES = 256


@dataclass
class Position:
    """How far a log was read. size: bytes to which it was read. same_as: the file it is a copy of.

    sample: the log has one message in so many.
    """

    path: str
    size: int = 0
    lines: int = 0
    sample: int = 1
    same_as: str = ""


@dataclass
class State:
    """Positions by identity. first, last: the numbers of the triggers whose records count.

    events, rejected: the number of their records.
    """

    first: int = 1
    last: int = 0
    events: int = 0
    rejected: int = 0
    logs: dict[str, Position] = field(default_factory=dict)

    def content(self) -> bytes:
        """Return the content of the file."""
        return json.dumps({"version": VERSION, **asdict(self)}).encode()


class KeptRecords:
    """The records of triggers. state: as the published tables have it."""

    def __init__(self, out: str) -> None:
        """Continue where the tables in a directory end. Raises OSError."""
        self._directory = Path(local_path(out)) / DIRECTORY
        self._directory.mkdir(parents=True, exist_ok=True)
        self.state = _read(out)
        self._delete_others()

    def begin(self) -> Path:
        """Return an empty directory for the records of the next trigger. Raises OSError."""
        self._delete_others()
        directory = self._records_of(self.state.last + 1)
        directory.mkdir()
        return directory

    def files_of(self, state: State) -> list[Path]:
        """Return the files with all records of a state."""
        numbers = range(state.first, state.last + 1)
        return [file for one in numbers for file in sorted(self._records_of(one).glob("*.parquet"))]

    def published(self, state: State) -> None:
        """A state was published with the tables."""
        self.state = state
        self._delete_others()

    def _records_of(self, trigger: int) -> Path:
        return self._directory / f"records-{trigger}"

    def _delete_others(self) -> None:
        """Delete records that do not count: of a killed trigger, or from before a new start."""
        for path in self._directory.glob("records-*"):
            number = int(path.name.removeprefix("records-"))
            if not self.state.first <= number <= self.state.last:
                shutil.rmtree(path)


def _read(out: str) -> State:
    try:
        found = json.loads((Path(published(out)) / NAME).read_text("utf-8"))
    except (FileNotFoundError, MissingTablesError):
        return State()
    if found.pop("version") != VERSION:
        return State()
    logs = {identity: Position(**one) for identity, one in found.pop("logs").items()}
    return State(**found, logs=logs)


def identity_of(file: BinaryIO) -> str:
    """Return what identifies an open file. Raises OSError."""
    file.seek(0)
    head = hashlib.blake2b(file.read(HEAD_BYTES), digest_size=8).hexdigest()
    return f"{os.fstat(file.fileno()).st_ino}-{head}"
