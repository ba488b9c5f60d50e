"""What a person sees at a terminal while a migration runs."""

import io

from rich.console import Console

from leveret.mgmt.ctl.migrating.links import FORWARD, QueueAtBoth, QueueAtOne
from leveret.mgmt.ctl.migrating.migration import Look
from leveret.mgmt.ctl.migrating.progress import shown


def look(*counts):
    """A look at queues with these numbers of messages at the source."""
    queues = [
        QueueAtBoth(
            ("/", f"[red]q{number}"), QueueAtOne("classic", count, 0), QueueAtOne("quorum", 3, 1)
        )
        for number, count in enumerate(counts)
    ]  # fmt: skip
    place = queues[0].place
    return Look(queues, {place: FORWARD}, {}, {place: {"state": "running"}}, ["program"], 0)


def rendered(one, rows_max):
    console = Console(file=io.StringIO(), width=150)
    console.print(shown(one, False, rows_max))
    return console.file.getvalue().splitlines()


def test_the_queues_with_most_messages_are_shown_as_far_as_there_is_room():
    lines = rendered(look(5, 7, 6), rows_max=2)
    assert lines[0].split("┃")[3].strip() == "at source"
    assert [line.split("│")[1].strip() for line in lines[2:4]] == ["[red]q1", "[red]q2"]
    assert lines[4] == (
        "Left at the source: 18 messages. Programs at the source: 0 consumers, 1 connection. "
        "Links: 1, of which 0 fail"
    )
