"""The number of changes beside SQLite's log (rule MW1)."""

import pytest

from leveret.storage.metadata import metadata_witness
from leveret.storage.metadata.metadata_witness import Witness

IDENTITY = 77


@pytest.fixture
def witness(path):
    witness = Witness(path, 0o640)
    assert witness.changes_of(IDENTITY) == 0
    yield witness
    witness.close(remove=False)


def after_restart(path, identity=IDENTITY):
    witness = Witness(path, 0o640)
    found = witness.changes_of(identity)
    witness.close(remove=False)
    return found


def test_what_was_committed_counts_after_a_crash_of_the_process(witness, path):
    witness.note_committed(5)
    assert after_restart(path) == 5


def test_only_what_was_synced_counts_after_a_restart_of_the_machine(witness, path, monkeypatch):
    witness.note_committed(5)
    witness.note_synced(3)
    monkeypatch.setattr(metadata_witness, "_read_boot_id", lambda: b"another")
    assert after_restart(path) == 3


def test_a_slot_of_another_file_is_ignored(witness, path):
    witness.note_committed(5)
    assert after_restart(path, identity=78) == 0


def test_a_damaged_slot_is_ignored(witness, path):
    witness.note_synced(3)
    witness.note_committed(5)
    file = path.with_name("metadata.sqlite-witness")
    data = bytearray(file.read_bytes())
    data[40] ^= 1
    file.write_bytes(data)
    assert after_restart(path) == 3


def test_closed_metadata_have_no_witness(witness, path):
    witness.note_committed(5)
    witness.close(remove=True)
    assert not path.with_name("metadata.sqlite-witness").exists()
