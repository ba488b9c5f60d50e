"""Records the answers of a running RabbitMQ: `python -m tests.mgmt.recorder.record --help`.

For RabbitMQ 3.10.8 without other objects, with the plugins management and prometheus; for the
scenarios `links` and `federation-links` also with shovel and federation_management, without which
all others are recorded. It creates and deletes vhosts and users whose names begin with `golden`,
and changes nothing else.
"""

import argparse

from tests.mgmt.recorder.broker import Broker
from tests.mgmt.recorder.scenarios import SCENARIOS

STATISTICS_SECONDS = 11
"""RabbitMQ's statistics are complete after two of its intervals, of five seconds each."""


def main() -> None:
    """Record all scenarios, or the named ones."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--amqp-port", type=int, default=5672)
    parser.add_argument("--http-port", type=int, default=15672)
    parser.add_argument("names", nargs="*", help="scenarios; all without")
    chosen = parser.parse_args()
    broker = Broker(chosen.amqp_port, chosen.http_port)
    for scenario in SCENARIOS:
        if not chosen.names or scenario.name in chosen.names:
            scenario.record(broker, STATISTICS_SECONDS)
            print(f"{scenario.name}: {len(scenario.requests)} requests")
    broker.close()


if __name__ == "__main__":
    main()
