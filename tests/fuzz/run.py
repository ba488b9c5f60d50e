"""Feeds millions of mutated frames, and of mutated records of the store, to this build.

    python -m tests.fuzz.run --frames 10000000 --records 10000000 --seed 1

The work is done in rounds of some thousand cases, each from its own seed. The number of the round
is in a file before it begins, so that a crash of the process names it, and

    python -m tests.fuzz.run frames 17 --seed 1

does that round again. `make fuzz` runs this on a build with the address sanitizer.
"""

import argparse
import contextlib
import logging
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

from leveret import compiled
from tests.fuzz.mutated_frames import frame_round
from tests.fuzz.mutated_records import record_round

KINDS: dict[str, Callable[[int, int], int]] = {"frames": frame_round, "records": record_round}
"""A round of each kind: from its seed and its number to the number of cases."""
REPORT_EACH_SECONDS = 60.0


def has_sanitizer() -> bool:
    """Whether the address sanitizer watches this process and sees Python's memory."""
    maps = Path("/proc/self/maps").read_text()
    return "libasan" in maps and os.environ.get("PYTHONMALLOC") == "malloc"


def run(kind: str, wanted: int, seed: int, directory: Path) -> None:
    """Run rounds of one kind until `wanted` cases were run."""
    began = reported = time.monotonic()
    cases = number = 0
    noted = directory / f"{kind}.round"
    while cases < wanted:
        noted.write_text(f"seed {seed} round {number}\n")
        try:
            cases += KINDS[kind](seed, number)
        except BaseException:
            print(f"{kind}: seed {seed} round {number}", file=sys.stderr)
            raise
        number += 1
        if time.monotonic() - reported > REPORT_EACH_SECONDS or cases >= wanted:
            reported = time.monotonic()
            print(f"{kind}: {cases:,} in {number:,} rounds, {reported - began:.0f} s", flush=True)


def main() -> None:
    """Read the command line and run."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("kind", nargs="?", choices=KINDS, help="run one round of this kind")
    parser.add_argument("round", nargs="?", type=int, default=0)
    parser.add_argument("--frames", type=int, default=0, metavar="N")
    parser.add_argument("--records", type=int, default=0, metavar="N")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--directory", type=Path, default=Path("build/fuzz"))
    arguments = parser.parse_args()
    # What the node logs of damage is not to be printed ten million times.
    logger = logging.getLogger("leveret")
    logger.propagate = False
    logger.addHandler(logging.NullHandler())
    watched = "with" if has_sanitizer() else "without"
    print(f"{compiled.build()}, {watched} the address sanitizer", flush=True)
    if arguments.kind is not None:
        print(KINDS[arguments.kind](arguments.seed, arguments.round), "cases")
        return
    arguments.directory.mkdir(parents=True, exist_ok=True)
    for kind in KINDS:
        run(kind, getattr(arguments, kind), arguments.seed, arguments.directory)


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        main()
