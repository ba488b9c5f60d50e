"""The sources of an earlier version of Leveret, from which a test upgrades.

They are those of the last tag of a release (`v0.1.0`) before HEAD, or, as long as there is none,
those of a commit. Git
has them, so nothing is installed: an earlier version runs with the packages of this one, in pure
Python (`start_program` with `sources`).

A shallow clone has neither tags nor the commit, and a source distribution has no history. There, a
test goes from this version to itself.
"""

import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
WITHOUT_TAGS = "e543243b"
"""The first version whose clusters have streams that keep what a leader has confirmed."""
PACKAGES = ("leveret", "broker", "cluster", "mgmt", "storage", "analytics")


def earlier_version() -> str:
    """The tag or commit."""
    tag = _git("describe", "--tags", "--match=v[0-9]*", "--abbrev=0", "HEAD^")
    return tag.stdout.decode().strip() if tag.returncode == 0 else WITHOUT_TAGS


def earlier_sources(version: str, directory: Path) -> Path | None:
    """Write the sources of a version to a new directory. Returns it, or None if Git has none."""
    archive = _git("archive", "--format=tar", version, *PACKAGES)
    if archive.returncode != 0:
        return None
    directory.mkdir()
    subprocess.run(["tar", "-x", "-C", directory], input=archive.stdout, check=True)
    return directory


def _git(*words: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(["git", "-C", ROOT, *words], capture_output=True, check=False)
