"""Alarms that block publishers."""

from leveret.broker.resources.alarms import DISK, MEMORY, Alarms


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


def test_the_reasons_are_in_the_order_in_which_they_came():
    alarms = Alarms()
    alarms.set(DISK)
    alarms.set(MEMORY)
    assert alarms.reason == "low on disk & low on memory"
    alarms.clear(DISK)
    alarms.set(DISK)
    assert alarms.reason == "low on memory & low on disk"


def test_an_alarm_is_in_force_while_any_source_raises_it():
    alarms, heard = Alarms(), []
    alarms.listen(lambda: heard.append(alarms.reason))
    alarms.set(DISK, "monitor")
    alarms.set(DISK, "store")
    alarms.clear(DISK, "monitor")
    assert alarms.reason == "low on disk"
    alarms.clear(DISK, "somebody else")
    assert alarms.are_in_force
    alarms.clear(DISK, "store")
    assert heard == ["low on disk", ""]


def test_raising_an_alarm_twice_needs_one_clearing():
    alarms = Alarms()
    alarms.set(DISK, "store")
    alarms.set(DISK, "store")
    alarms.clear(DISK, "store")
    assert not alarms.are_in_force
