"""The contract of every test that stops, kills or cuts off a node: a check of its files finds
nothing.
"""

from pathlib import Path

from leveret.broker.registry.stored import declared_ids
from leveret.storage.check.check import check_store
from leveret.storage.check.check_metadata import FILE, check_metadata


def assert_intact(directory):
    """What `leveret store check` reports of a node that has ended: no problems."""
    directory = Path(directory)
    if not (directory / FILE).exists():
        # It had not begun to write.
        return
    definitions = check_metadata(directory)
    assert definitions.damaged == []
    report = check_store(directory, declared_ids(definitions))
    assert [(file.path, file.problems) for file in report.files if file.problems] == []
