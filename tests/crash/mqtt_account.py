"""QoS 1 and 2 of MQTT on a node that is killed at random times: what clients saw.

    python -m tests.crash.mqtt_account --minutes 10 --seed 3

A publisher and a subscriber of each QoS work all the time, while the node is killed with `kill -9`
and started again on its data. In the end each message that was published has come: with QoS 1 at
least once, with QoS 2 exactly once. tests/jepsen does the same to three nodes (`--queues mqtt`).
"""

import argparse
import asyncio
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from random import Random

from tests.crash.killed_node import Node
from tests.crash.mqtt_clients import Address, Publisher, Subscriber
from tests.patience import PATIENCE_SECONDS
from tests.ports import free_port

LOOK_SECONDS = 0.02
WORK_SECONDS = 0.05, 1.5
"""How long a node works before it is killed: from, to."""


class Pair:
    """A publisher and a subscriber of one topic. received: how often each payload has come."""

    def __init__(self, qos: int, addresses: list[Address]) -> None:
        self.qos = qos
        self.published: list[str] = []
        self.confirmed: set[str] = set()
        self.received: Counter[str] = Counter()
        topic = f"account/{qos}"
        self.publisher = Publisher(
            f"publisher-{qos}", addresses, topic, qos, self._payloads(), self.confirmed.add
        )
        self.subscriber = Subscriber(f"subscriber-{qos}", addresses, topic, qos, self._receive)

    def _receive(self, payload: str) -> None:
        self.received[payload] += 1

    def _payloads(self) -> Iterator[str]:
        for number in count():
            self.published.append(str(number))
            yield str(number)

    async def start(self) -> None:
        """Subscribe, and then publish."""
        self.subscriber.start()
        await self.subscriber.subscribed.wait()
        self.publisher.start()

    async def finish(self) -> None:
        """Publish nothing new, and wait until all has come."""
        self.publisher.stop_publishing()
        async with asyncio.timeout(PATIENCE_SECONDS):
            while self.publisher.open or len(self.received) < len(self.published):
                if self.publisher.failure or self.subscriber.failure:
                    break
                await asyncio.sleep(LOOK_SECONDS)

    def problems(self) -> list[str]:
        """What must not be."""
        lost = [one for one in self.published if one not in self.received]
        doubled = [one for one, times in self.received.items() if times > 1 and self.qos > 1]
        found = {
            "lost": lost,
            "lost after they were answered": [one for one in lost if one in self.confirmed],
            "doubled": doubled,
            "lost sessions": [self.subscriber.name] * self.subscriber.sessions_lost,
            "failures": [one.failure for one in (self.publisher, self.subscriber) if one.failure],
        }
        return [f"QoS {self.qos}, {what}: {which[:20]}" for what, which in found.items() if which]

    async def stop(self) -> None:
        """Disconnect both."""
        await self.publisher.stop()
        await self.subscriber.stop()


async def run(directory: Path, rounds: Iterator[float]) -> tuple[list[str], list[str]]:
    """Kill a node after each of these times of work. Returns problems, and figures."""
    port = free_port()
    node = Node(
        directory, LEVERET_MQTT_LISTENERS_TCP=f"127.0.0.1:{port}", LEVERET_MQTT_QOS2="exactly_once"
    )
    assert await asyncio.to_thread(node.start)
    pairs = [Pair(qos, [("127.0.0.1", port)]) for qos in (1, 2)]
    problems: list[str] = []
    kills = 0
    try:
        for pair in pairs:
            await pair.start()
        for seconds in rounds:
            await asyncio.sleep(seconds)
            await asyncio.to_thread(node.kill)
            kills += 1
            if not await asyncio.to_thread(node.start):
                problems.append(f"the node does not start, see {node.log.name}")
                break
        else:
            for pair in pairs:
                await pair.finish()
    except TimeoutError:
        problems.append("clients wait for ever")
    finally:
        for pair in pairs:
            await pair.stop()
        await asyncio.to_thread(node.kill)
    for pair in pairs:
        problems += pair.problems()
    figures = [
        f"QoS {pair.qos}: published {len(pair.published)}, answered {len(pair.confirmed)}, "
        f"received {len(pair.received)}, "
        f"again {pair.received.total() - len(pair.received)}, connections "
        f"{pair.publisher.connections + pair.subscriber.connections}"
        for pair in pairs
    ]
    return problems, [f"kills {kills}", *figures]


def random_rounds(seed: int, number: int) -> Iterator[float]:
    """The times of work before each of a number of kills."""
    chance = Random(seed)
    for _ in range(number):
        yield chance.uniform(*WORK_SECONDS)


def rounds_of_minutes(seed: int, minutes: float) -> Iterator[float]:
    """The times of work, as long as there is time."""
    chance, ends_at = Random(seed), time.monotonic() + 60 * minutes
    while time.monotonic() < ends_at:
        yield chance.uniform(*WORK_SECONDS)


def main() -> None:
    """Read the options, run, and report."""
    options = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    options.add_argument("--minutes", type=float, default=5.0)
    options.add_argument("--seed", type=int, default=1)
    chosen = options.parse_args()
    directory = Path(tempfile.mkdtemp(prefix="mqtt-account-")) / "data"
    print(f"seed {chosen.seed}, {chosen.minutes} minutes, data and log in {directory}", flush=True)
    rounds = rounds_of_minutes(chosen.seed, chosen.minutes)
    problems, figures = asyncio.run(run(directory, rounds))
    print(*figures, *problems, sep="\n")
    sys.exit(bool(problems))


if __name__ == "__main__":
    main()
