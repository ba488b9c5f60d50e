"""The file of declarations of a test, and what has it open."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from leveret.storage.metadata.metadata import SqliteMetadata


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "metadata.sqlite"


@pytest.fixture
def metadata(path: Path) -> Iterator[SqliteMetadata]:
    opened = SqliteMetadata(path)
    yield opened
    opened.close()
