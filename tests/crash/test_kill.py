"""`kill -9` at random times, and at every named point of the store, under load.

LEVERET_CRASH_ROUNDS sets the number of kills of each random test; use thousands manually.
"""

import os
import random

import pytest

from leveret.storage.disk.disk import POINTS
from tests.crash.killed_node import Node
from tests.crash.traffic import Traffic
from tests.patience import PATIENCE_SECONDS

ROUNDS = int(os.environ.get("LEVERET_CRASH_ROUNDS", "4"))
SMALL_FILES = {
    "LEVERET_MSG_LOG_FILE_SIZE_LIMIT": "100000",
    "LEVERET_VM_MEMORY_HIGH_WATERMARK_PAGING_RATIO": "0.0001",
}
"""The node may keep almost nothing in memory, and pages out at once."""


@pytest.mark.timeout(300 + 20 * ROUNDS)
@pytest.mark.parametrize("seed", range(4))
async def test_killed_at_random_moments(tmp_path, seed):
    chance = random.Random(seed)
    node = Node(tmp_path / "data", **(SMALL_FILES if seed % 2 else {}))
    assert node.start()
    traffic = Traffic(node.url, seed)
    await traffic.declare()
    for number in range(ROUNDS):
        tasks = await traffic.run(chance.uniform(0.05, 0.6))
        node.kill()
        await traffic.end(tasks)
        assert node.start()
        assert await traffic.check() == [], f"round {number}, see {node.directory}"
    node.stop()


RARE = {"bodies.punched", "bodies.removed", "segment.removed"}
"""These points need more garbage than the next test creates; tests/storage passes all of them, the
others several times.
"""


@pytest.mark.parametrize("point", [point for point in POINTS if point not in RARE])
async def test_killed_at_a_point(tmp_path, point):
    node = Node(tmp_path / "data", **SMALL_FILES)
    assert node.start()
    traffic = Traffic(node.url, 1)
    await traffic.declare()
    node.kill()
    is_up = node.start(LEVERET_CRASH_AT=f"{point}:1")
    tasks = await traffic.run_until_killed(node.process, PATIENCE_SECONDS) if is_up else []
    assert node.process.poll() is not None, f"nothing passed {point}, see {node.directory}.log"
    node.kill()
    await traffic.end(tasks)
    assert node.start()
    assert await traffic.check() == []
    node.kill()
