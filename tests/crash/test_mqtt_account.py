"""`kill -9` at random times while clients use QoS 1 and 2 of MQTT.

LEVERET_CRASH_ROUNDS sets the number of kills; `python -m tests.crash.mqtt_account` goes on for
minutes.
"""

import os

import pytest

from tests.crash.mqtt_account import random_rounds, run

ROUNDS = int(os.environ.get("LEVERET_CRASH_ROUNDS", "3"))


@pytest.mark.timeout(300 + 20 * ROUNDS)
async def test_qos_1_is_never_lost_and_qos_2_neither_lost_nor_doubled(tmp_path):
    problems, figures = await run(tmp_path / "data", random_rounds(1, ROUNDS))
    assert problems == [], figures
