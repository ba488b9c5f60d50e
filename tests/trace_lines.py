"""The records of a file of a trace log that a broker has written."""

import json

from leveret.analytics.traces.log_blocks import read_blocks
from leveret.analytics.traces.trace_files import described


def records_in(path):
    """Return the header and all records. Nothing in the file may be unreadable."""
    problems = []
    blocks = read_blocks(described(str(path), path.stat().st_size), problems)
    found = [json.loads(line) for block in blocks for line in block.data.splitlines()]
    assert not problems
    return found
