"""The steps of a migration, and that only one process carries it out."""

import os
import time

import pytest

from leveret.mgmt.ctl.client import HttpError
from leveret.mgmt.ctl.errors import CtlError
from leveret.mgmt.ctl.migrating.carrying_over import Held
from leveret.mgmt.ctl.migrating.state import (
    ENDED,
    FINISH,
    FINISHING,
    IMPORTED,
    IMPORTING,
    MOVING,
    NEXT,
    NONE,
    RETURNING,
    ROLL_BACK,
    RUN,
    STARTED,
    MigrationState,
    OnlyRun,
    load,
    store,
)


class KeptParameters:
    """The global parameters of a node."""

    place = "this node"

    def __init__(self):
        self.kept = {}

    def ask(self, method, *path, body):
        self.kept[path[-1]] = body["value"]

    def get(self, *path):
        if len(path) == 1:
            return [{"name": name, "value": value} for name, value in self.kept.items()]
        if path[-1] not in self.kept:
            raise HttpError(404, "not found")
        return {"value": self.kept[path[-1]]}

    def delete(self, *path):
        self.kept.pop(path[-1], None)


@pytest.fixture
def node():
    return KeptParameters()


def test_each_step_before_the_end_can_be_repeated_and_rolled_back():
    for step in (IMPORTING, MOVING, FINISHING, RETURNING):
        assert NEXT[step, ROLL_BACK] == RETURNING
        assert (step, STARTED) in NEXT
    step, steps = NONE, [IMPORTING, MOVING, FINISHING, NONE]
    for event, wanted in zip((STARTED, IMPORTED, FINISH, ENDED), steps, strict=True):
        step = NEXT[step, event]
        assert step == wanted


def test_a_step_that_is_not_possible_names_the_current_one():
    with pytest.raises(CtlError, match="step 'importing': finish is not possible"):
        MigrationState("amqp://old", "http://old", step=IMPORTING).after(FINISH)


def test_a_state_is_kept_until_its_end(node):
    state = MigrationState(
        "amqp://old", "http://old", step=MOVING, held=(Held("shovel", "/", "s"),)
    )
    assert load(node) is None
    store(node, state)
    assert load(node) == state
    store(node, state.after(FINISH).after(ENDED))
    assert node.kept == {}


def test_a_second_process_is_refused(node):
    with (
        OnlyRun(node).alone(),
        pytest.raises(CtlError, match=f"process {os.getpid()} on "),
        OnlyRun(node).alone(),
    ):
        pass
    assert node.kept == {}


def test_a_process_that_has_died_does_not_count(node):
    node.kept[f"{RUN} a"] = {"host": os.uname().nodename, "process": 2**22 + 1, "at": 10**12}
    node.kept[f"{RUN} b"] = {"host": "elsewhere", "process": 1, "at": int(time.time()) - 61}
    with OnlyRun(node).alone():
        assert len(node.kept) == 1
