"""Declares, uses and deletes each kind of object, and prints what is left in memory, by kind.

    python -m tests.churn.run --cycles 10000            each kind, 10,000 times
    python -m tests.churn.run --kinds 'queues: quorum'  one kind

It ends with 1 unless all are flat (tests/churn/measuring.py says what is measured).
"""

import argparse
import gc
import json
import logging
import sys
import tempfile
from pathlib import Path

import uvloop

from tests.churn import of_clients, of_management, of_queues
from tests.churn.churned_node import ChurnedNode
from tests.churn.measuring import Windows

FAMILIES = {
    "queues": of_queues.QUEUE_KINDS,
    "exchanges": of_queues.EXCHANGE_KINDS,
    "clients": of_clients.KINDS,
    "management": of_management.KINDS,
    "traces": of_management.TRACE_KINDS,
    "links": of_management.LINK_KINDS,
}
KINDS = {name: kind for family in FAMILIES.values() for name, kind in family.items()}
CYCLES, WARM_UP = 200, 50


async def _measure(kinds, cycles, warm_up):
    for name in kinds:
        with tempfile.TemporaryDirectory(prefix="churn-") as directory:
            async with ChurnedNode(Path(directory)) as node:
                gc.collect()
                gc.freeze()
                left = await Windows(KINDS[name], node).measured(cycles, warm_up)
                gc.unfreeze()
        yield name, left


async def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--cycles", type=int, default=CYCLES)
    parser.add_argument("--warm-up", type=int, default=WARM_UP)
    parser.add_argument("--kinds", nargs="*", default=list(KINDS))
    parser.add_argument("--json", action="store_true", help="one line of JSON for each kind")
    arguments = parser.parse_args()
    logging.disable(logging.ERROR)
    are_flat = True
    async for name, left in _measure(arguments.kinds, arguments.cycles, arguments.warm_up):
        are_flat &= left.is_flat
        shown = json.dumps([name, *left]) if arguments.json else f"{name:40} {left}"
        print(shown, flush=True)
    return 0 if are_flat else 1


if __name__ == "__main__":
    sys.exit(uvloop.run(main()))
