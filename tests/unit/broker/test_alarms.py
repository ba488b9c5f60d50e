"""Reasons to hold publishers back."""

from broker.alarms import DISK, MEMORY, Alarms


def test_there_are_none_at_first():
    alarms = Alarms()
    assert not alarms.are_in_force
    assert alarms.reason == ""


def test_an_alarm_comes_and_goes():
    alarms = Alarms()
    alarms.set(MEMORY)
    assert alarms.are_in_force
    assert alarms.reason == "low on memory"
    alarms.clear(MEMORY)
    assert not alarms.are_in_force


def test_several_alarms():
    alarms = Alarms()
    alarms.set(MEMORY)
    alarms.set(DISK)
    assert alarms.reason == "low on memory & low on disk"
    alarms.clear(MEMORY)
    assert alarms.are_in_force
    assert alarms.reason == "low on disk"


def test_listeners_hear_of_changes_and_of_nothing_else():
    alarms, heard = Alarms(), []
    alarms.listen(lambda: heard.append(alarms.reason))
    alarms.set(DISK)
    alarms.set(DISK)
    alarms.clear(MEMORY)
    alarms.clear(DISK)
    alarms.clear(DISK)
    assert heard == ["low on disk", ""]
