"""Limits of the store that are reached soon."""

import pytest

from leveret.storage.store import reclaiming
from leveret.storage.store import store as store_module


@pytest.fixture
def space_given_back_often(monkeypatch):
    """The store looks for space that it can give back every few milliseconds."""
    monkeypatch.setattr(store_module, "CHECK_SECONDS", 0.002)
    for name in ("LOG_BYTES_MIN", "GARBAGE_BYTES_MIN"):
        monkeypatch.setattr(reclaiming, name, 2000)
    monkeypatch.setattr(reclaiming, "IDLE_FACTOR", 1)
