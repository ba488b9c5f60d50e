"""What a person sees at a terminal while a migration runs."""

import io
from types import SimpleNamespace

import pytest
from rich.console import Console

from leveret.mgmt.ctl.client import HttpError
from leveret.mgmt.ctl.errors import TIMED_OUT, UNAVAILABLE, CtlError
from leveret.mgmt.ctl.migrating.links import FORWARD, QueueAtBoth, QueueAtOne
from leveret.mgmt.ctl.migrating.look import Look, MigrationLinks
from leveret.mgmt.ctl.migrating.progress import import_progress, looks, pause, shown
from leveret.mgmt.ctl.migrating.table import summary


def look(*counts):
    """A look at queues with these numbers of messages at the source."""
    queues = [
        QueueAtBoth(
            ("/", f"[red]q{number}"), QueueAtOne("classic", count, 0), QueueAtOne("quorum", 3, 1)
        )
        for number, count in enumerate(counts)
    ]  # fmt: skip
    place = queues[0].place
    links = MigrationLinks({place: FORWARD}, {}, {place: {"state": "running"}})
    return Look(queues, links, ["program"], 0)


def rendered(one, rows_max):
    console = Console(file=io.StringIO(), width=150)
    console.print(shown(one, False, rows_max))
    return console.file.getvalue().splitlines()


def test_a_roll_back_shows_what_is_left_at_the_target():
    said = summary(look(5, 7), is_returning=True)
    assert said.startswith("Left at the target: 6 messages. Programs at the target: 2 consumers. ")


class Interrupted:
    """A migration whose broker fails between two looks. error: how."""

    def __init__(self, error):
        self._looks = [look(1), error, error, look(2)]

    def look(self):
        found = self._looks.pop(0)
        if isinstance(found, CtlError):
            raise found
        return found

    def adjust(self, found):
        """There are no links."""


@pytest.mark.parametrize(
    "error", [CtlError("it is away", UNAVAILABLE), CtlError("late", TIMED_OUT), HttpError(503, "")]
)
def test_a_broker_that_is_restarted_is_waited_for(monkeypatch, error):
    monkeypatch.setattr("leveret.mgmt.ctl.migrating.progress.time.sleep", lambda _seconds: None)
    said = []
    found = looks(Interrupted(error), said.append)
    assert [one.left(is_returning=False) for one in (next(found), next(found))] == [1, 2]
    assert said == [f"{error.text}. Trying again ..."]


def test_a_refusal_ends_the_command():
    found = looks(Interrupted(HttpError(401, "not allowed")), print)
    next(found)
    with pytest.raises(HttpError):
        next(found)


@pytest.fixture
def clock(monkeypatch):
    """Time, which passes while something sleeps."""
    now = SimpleNamespace(seconds=0.0)

    def sleep(seconds):
        now.seconds += seconds

    passing = SimpleNamespace(monotonic=lambda: now.seconds, sleep=sleep)
    monkeypatch.setattr("leveret.mgmt.ctl.migrating.progress.time", passing)
    return now


class Linking:
    """A migration whose links move messages. error: of the node, between two looks."""

    is_returning = False

    def __init__(self, error=None):
        self.looks = []
        self._error = error

    def make_room(self, found):
        if self._error:
            raise self._error
        self.looks.append(found)
        return look(*(max(0, one.source.messages - 1) for one in found.queues))


def test_idle_links_make_room_between_two_looks(clock):
    migration, shown_looks = Linking(), []
    pause(migration, look(5, 7), 7, lambda found, _: shown_looks.append(found))
    assert clock.seconds == 7
    assert [one.queues[0].source.messages for one in migration.looks] == [5, 4, 3, 2]
    assert [one.queues[0].source.messages for one in shown_looks] == [4, 3, 2, 1]


def test_the_next_look_comes_when_everything_seems_to_have_moved(clock):
    pause(Linking(), look(3, 2), 100, lambda *_: None)
    assert clock.seconds == 6
    pause(Linking(), look(0, 0), 100, lambda *_: None)
    assert clock.seconds == 106


def test_nothing_makes_room_where_each_queue_has_a_link(clock):
    migration = Linking()
    pause(migration, look(5), 7, print)
    assert (clock.seconds, migration.looks) == (7, [])


def test_a_node_that_is_away_between_two_looks_is_waited_for_by_the_next(clock):
    pause(Linking(CtlError("it is away", UNAVAILABLE)), look(5, 7), 7, print)
    with pytest.raises(HttpError):
        pause(Linking(HttpError(401, "not allowed")), look(5, 7), 7, print)


def test_a_long_import_says_how_far_it_is(clock):
    said = []
    tell = import_progress(said.append)
    for done in (1000, 2000, 3000, 4000):
        clock.seconds += 3
        tell(done, 4000)
    assert said == ["Imported 2,000 of 4,000 objects ..."]


def test_the_queues_with_most_messages_are_shown_as_far_as_there_is_room():
    lines = rendered(look(5, 7, 6), rows_max=2)
    assert lines[0].split("┃")[3].strip() == "at source"
    assert [line.split("│")[1].strip() for line in lines[2:4]] == ["[red]q1", "[red]q2"]
    assert lines[4] == (
        "Left at the source: 18 messages. Programs at the source: 0 consumers, 1 connection. "
        "Links: 1, of which 0 fail"
    )
