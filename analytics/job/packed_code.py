"""Packs the modules that Spark's workers import into a zip file.

Workers read logs (reading.py). They need this package, and of the broker the records of a trace,
the properties of a message and the parser of Erlang terms, which are pure.
"""

import atexit
import shutil
import tempfile
import zipfile
from pathlib import Path

WORKERS_NEED = (
    "leveret/__init__.py",
    "leveret/compiled.py",
    "leveret/analytics/**/*.py",
    "leveret/broker/__init__.py",
    "leveret/broker/amqp/__init__.py",
    "leveret/broker/amqp/field_table.py",
    "leveret/broker/amqp/field_terms.py",
    "leveret/broker/amqp/json_form.py",
    "leveret/broker/amqp/properties.py",
    "leveret/broker/amqp/table_scan.py",
    "leveret/broker/erlang/*.py",
    "leveret/broker/resources/__init__.py",
    "leveret/broker/resources/available_processors.py",
    "leveret/broker/resources/control_groups.py",
    "leveret/broker/tracing/__init__.py",
    "leveret/broker/tracing/block_format.py",
    "leveret/broker/tracing/block_lines.py",
    "leveret/broker/tracing/record.py",
    "leveret/broker/tracing/shown.py",
)
"""Patterns of files, below the folder that has the package."""


def packed_code() -> Path:
    """Return the path of a new zip file with the modules, which is deleted at exit."""
    # Not resolved: in a checkout `leveret/analytics` is a link that leads out of `leveret`.
    root = Path(__file__).absolute().parents[3]
    directory = tempfile.mkdtemp(prefix="leveret-code-")
    atexit.register(shutil.rmtree, directory, ignore_errors=True)
    packed = Path(directory) / "leveret_analytics.zip"
    with zipfile.ZipFile(packed, "w") as file:
        for path in (path for pattern in WORKERS_NEED for path in sorted(root.glob(pattern))):
            file.write(path, path.relative_to(root))
    return packed
