"""The state of a follow: a DuckDB database with positions in the logs, and the rows read so far.

A trigger changes the database in one transaction, together with the positions. So one that is
killed has no effect: the next one reads the same again. The tables are made from the database; the
file beside them names the trigger to which they belong.

A file is identified by its inode and its first bytes: it is the same when the broker gives it the
name of a complete file, and another one if it was replaced.
"""

import hashlib
import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import BinaryIO

import duckdb

from leveret.analytics.job.duckdb_engine import DuckDBEngine
from leveret.analytics.job.job import JobOptions
from leveret.analytics.tables.engine import Values
from leveret.analytics.tables.versions import MissingTablesError, published
from leveret.analytics.traces.local_files import local_path

DIRECTORY, NAME, DATABASE = "_follow", "follow.json", "state.duckdb"
VERSION = 7
HEAD_BYTES = 256


@dataclass
class ReadPosition:
    """How far a log was read. size: bytes to which it was read. same_as: the file it is a copy of.

    sample: the log has one message in this number. beginning: identifies its first records; empty
    if it has none yet. last_us: the time of the last record.
    """

    path: str
    size: int = 0
    lines: int = 0
    sample: int = 1
    same_as: str = ""
    beginning: str = ""
    last_us: int | None = None


@dataclass
class FollowState:
    """Positions by identity, and the state of the records up to them.

    trigger: the number of the last one. began_ns: when it was begun. events, rejected: the numbers
    of records; events_before: the number when all logs began to be read again. keeps_details: the
    details of publishes are kept also if their messages are acknowledged. expected_days: the rows
    of the view `days` when all logs began to be read again. rows: the numbers of rows of tables of
    sums, after they were last summed up. kept_since_us: measurements before this time cannot
    change; None if all can.
    """

    options: str
    began_ns: int = field(default_factory=time.time_ns)
    trigger: int = 0
    events: int = 0
    rejected: int = 0
    events_before: int = 0
    keeps_details: bool = False
    expected_days: list[tuple[float, int, int, int]] = field(default_factory=list)
    rows: dict[str, int] = field(default_factory=dict)
    kept_since_us: int | None = None
    logs: dict[str, ReadPosition] = field(default_factory=dict)

    def content(self) -> str:
        """Return the state as text."""
        return json.dumps({"version": VERSION, **asdict(self)})


class KeptState:
    """The database of a follow. state: as it is in the database."""

    def __init__(self, options: JobOptions) -> None:
        """Continue where an earlier follow with these options has ended. Raises OSError."""
        self._options = options
        self._directory = Path(local_path(options.out)) / DIRECTORY
        self._directory.mkdir(parents=True, exist_ok=True)
        self._named = repr((options.window, options.poison_above))
        self.state = FollowState(self._named)
        with self.engine() as engine:
            found = _read(engine)
        if found is None or found.options != self._named:
            self.begin_again(self.state)
        else:
            self.state = found

    @contextmanager
    def engine(self) -> Iterator[DuckDBEngine]:
        """Open an engine in which the database is attached as `state`. Raises OSError."""
        with DuckDBEngine(self._options.work) as engine:
            try:
                engine.attach(self._directory / DATABASE, "state")
            except duckdb.Error as error:
                raise OSError(
                    f"the state that --follow keeps in {self._directory} cannot be read ({error}):"
                    " delete this directory, and all logs are read again"
                ) from error
            yield engine

    def begin_again(self, state: FollowState) -> None:
        """Delete the state; everything is read again. Raises OSError."""
        for path in self._directory.glob(f"{DATABASE}*"):
            path.unlink()
        with self.engine() as engine:
            engine.change([positions(state)])
        self.state = state

    def is_published(self) -> bool:
        """Tell whether the published tables are those of the state."""
        try:
            content = (Path(published(self._options.out)) / NAME).read_text("utf-8")
        except (FileNotFoundError, MissingTablesError):
            return self.state.trigger == 0
        return content == self.number()

    def number(self) -> str:
        """Return what identifies the state in the file beside the tables."""
        return json.dumps({"began_ns": self.state.began_ns, "trigger": self.state.trigger})


def positions(state: FollowState) -> tuple[str, Values]:
    """Return the statement that keeps a state."""
    return (
        "create or replace table state.positions as select $content as content",
        {"content": state.content()},
    )


def _read(engine: DuckDBEngine) -> FollowState | None:
    """Return the content of the database; None if this version cannot read it."""
    if not engine.has_table("positions"):
        return None
    [(content,)] = engine.rows("select content from state.positions")
    found = json.loads(content)
    if found.pop("version") != VERSION:
        return None
    logs = {identity: ReadPosition(**one) for identity, one in found.pop("logs").items()}
    days = [(*row,) for row in found.pop("expected_days")]
    return FollowState(**found, logs=logs, expected_days=days)


def identity_of(file: BinaryIO) -> str:
    """Return what identifies an open file. Raises OSError."""
    file.seek(0)
    head = hashlib.blake2b(file.read(HEAD_BYTES), digest_size=8).hexdigest()
    return f"{os.fstat(file.fileno()).st_ino}-{head}"
