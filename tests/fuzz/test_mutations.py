"""Some thousand mutated frames and records; `make fuzz` runs millions."""

import logging
import random

import pytest

from tests.fuzz.mutated_frames import NODE_EACH, frame_round
from tests.fuzz.mutated_records import record_round
from tests.fuzz.mutation import mutated
from tests.fuzz.run import run

SEED = 7
NODE_ROUNDS = [NODE_EACH * number - 1 for number in range(1, 5)]


@pytest.fixture(autouse=True)
def _quiet():
    """What the node logs of damage is not printed: its names are not always UTF-8."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(before)


@pytest.mark.parametrize("number", [0, 1, *NODE_ROUNDS])
def test_mutated_frames_raise_what_the_decoders_name_and_nothing_else(number):
    assert frame_round(SEED, number) >= 2_000


@pytest.mark.parametrize("number", range(3))
def test_mutated_records_are_damage(number):
    assert record_round(SEED, number) > 2_000


def test_the_same_seed_makes_the_same_damage():
    data = bytes(range(100))
    once, again = ([mutated(random.Random(seed), data) for seed in range(50)] for _ in range(2))
    assert once == again
    assert data not in once
    assert len(set(once)) > 40


def test_a_round_that_fails_is_named(tmp_path, monkeypatch, capsys):
    def fail_in_the_third(seed, number):
        if number == 2:
            raise ZeroDivisionError
        return 10

    monkeypatch.setattr("tests.fuzz.run.KINDS", {"frames": fail_in_the_third})
    with pytest.raises(ZeroDivisionError):
        run("frames", 100, SEED, tmp_path)
    assert capsys.readouterr().err == "frames: seed 7 round 2\n"
    assert (tmp_path / "frames.round").read_text() == "seed 7 round 2\n"
