"""Records in golden.json what a RabbitMQ answers to the scenarios.

    python -m tests.conformance.record --port 5673 --mgmt-port 15673
    python -m tests.conformance.record --port 5673 --mgmt-port 15673 --only quorum

`--only` records the scenarios whose subject.name contains a text again, and keeps the others.
RabbitMQ 3.10 with the management plugin is expected at 127.0.0.1, with the user guest.
"""

import argparse
import json
import sys
import traceback
from pathlib import Path

from tests.conformance.context import Target
from tests.conformance.scenario import every_scenario
from tests.conformance.transcripts import Transcripts

GOLDEN = Path(__file__).with_name("golden.json")
AT_ONCE = 8


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--mgmt-port", type=int, required=True)
    parser.add_argument("--only", default="")
    options = parser.parse_args()
    every = every_scenario()
    known = json.loads(GOLDEN.read_text())
    golden = {one.identifier: known[one.identifier] for one in every if one.identifier in known}
    chosen = [one for one in every if options.only in one.identifier]
    target = Target(options.port, options.mgmt_port)
    failed = 0
    with Transcripts(target, chosen, AT_ONCE) as transcripts:
        for scenario in chosen:
            try:
                golden[scenario.identifier] = transcripts.of(scenario)
            except Exception:
                failed += 1
                print(f"{scenario.identifier}\n{traceback.format_exc()}")
    GOLDEN.write_text(json.dumps(golden, indent=1, sort_keys=True, ensure_ascii=False) + "\n")
    print(f"{len(chosen) - failed} recorded, {failed} failed")
    sys.exit(bool(failed))


if __name__ == "__main__":
    main()
