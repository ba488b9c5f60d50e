"""The store of queues whose log and segments are in a directory of the test."""

import pytest

from tests.unit.storage.fake_store import FakeStore


@pytest.fixture
def store(tmp_path):
    return FakeStore(tmp_path)
