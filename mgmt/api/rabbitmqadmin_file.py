"""The program rabbitmqadmin as one file, which a node serves for users to download.

It is an archive that Python runs (zipapp): a line for the shell, and the modules of
mgmt/rabbitmqadmin, not compressed. They are read as files, since a node imports no client.
"""

import io
import zipfile
from pathlib import Path

SOURCES = Path(__file__).parent.parent / "rabbitmqadmin"
SHELL_LINE = b"#!/usr/bin/env python3\n"
MAIN = "import sys\n\nfrom rabbitmqadmin.program import main\n\nsys.exit(main())\n"


def rabbitmqadmin_file() -> bytes:
    """The file. Its bytes depend on the modules only."""
    packed = io.BytesIO()
    packed.write(SHELL_LINE)
    with zipfile.ZipFile(packed, "a") as archive:
        archive.writestr(zipfile.ZipInfo("__main__.py"), MAIN)
        for path in sorted(SOURCES.glob("*.py")):
            archive.writestr(zipfile.ZipInfo(f"rabbitmqadmin/{path.name}"), path.read_text())
    return packed.getvalue()
