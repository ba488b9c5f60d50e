"""How messages to one address are put together in runs."""

import pytest

from leveret.broker.amqp.properties import PropertiesError, encode_properties
from leveret.broker.protocols.amqp091.channel.publish_runs import HEADER_WORK, RUN_WORK, Runs
from leveret.broker.runtime.turns import WORK_MAX
from leveret.broker.sessions.targets import PublishTarget
from leveret.storage.messages.message import Address
from tests.turns_by_hand import TurnsByHand

ADDRESS = Address("", "q", b"\0\1q")
NO_LIMIT = 1 << 40


def runs(*properties, bodies=None, bytes_max=NO_LIMIT):
    """The runs that messages with these properties make."""
    raw = [one if isinstance(one, bytes) else encode_properties(one) for one in properties]
    bodies = bodies or [b"%d" % number for number in range(len(raw))]
    found = Runs(
        PublishTarget(ADDRESS, is_mandatory=False), raw, bodies, sum(map(len, bodies)), bytes_max
    )
    yield from iter(found.take, None)


def bodies_of(found):
    return [[message.body for message in run.messages] for run in found]


def test_messages_of_one_kind_are_one_run():
    (run,) = runs({"message_id": "1", "delivery_mode": 1}, {"timestamp": 2}, {"headers": {}}, {})
    assert [message.body for message in run.messages] == [b"0", b"1", b"2", b"3"]
    assert [message.header.properties for message in run.messages] == [
        {"delivery_mode": 1, "message_id": "1"}, {"timestamp": 2}, {"headers": {}}, {},
    ]  # fmt: skip
    assert {message.address.encoded for message in run.messages} == {ADDRESS.encoded}
    assert run.body_bytes == 4


@pytest.mark.parametrize(
    "other", [{"delivery_mode": 2}, {"priority": 0}, {"priority": 3, "type": "b"}]
)
def test_a_run_is_cut_where_the_kind_changes(other):
    found = list(runs({}, {"type": "a"}, other, other, {}))
    assert bodies_of(found) == [[b"0", b"1"], [b"2", b"3"], [b"4"]]
    assert [run.body_bytes for run in found] == [2, 2, 1]


def test_a_message_that_needs_care_is_a_run_by_itself():
    care = {"expiration": "in a while"}
    assert bodies_of(runs({}, care, care, {}, {})) == [[b"0"], [b"1"], [b"2"], [b"3", b"4"]]


def test_messages_that_expire_are_a_run_by_themselves():
    soon, later = {"expiration": "5"}, {"expiration": "50"}
    assert bodies_of(runs({}, soon, later, soon, {})) == [[b"0"], [b"1", b"2", b"3"], [b"4"]]


def test_the_same_properties_in_the_next_read_are_the_same_header():
    target, raw = PublishTarget(ADDRESS, is_mandatory=False), encode_properties({"message_id": "1"})
    first, second = [
        Runs(target, [bytes(bytearray(raw))], [b""], 0, NO_LIMIT).take() for _ in range(2)
    ]
    assert first.messages[0].header is second.messages[0].header


def test_the_same_properties_are_one_header():
    raw = encode_properties({"message_id": "1"})
    (run,) = runs(raw, raw, {"message_id": "2"})
    first, second, third = [message.header for message in run.messages]
    assert first is second is not third


def test_large_messages_come_one_by_one():
    found = runs({}, {}, {}, bodies=[b"1234", b"12", b"123"], bytes_max=8)
    assert bodies_of(found) == [[b"1234"], [b"12"], [b"123"]]


def test_what_comes_before_malformed_properties_is_published():
    found = runs({}, {}, b"\x80\0\5abc", {})
    assert bodies_of([next(found)]) == [[b"0", b"1"]]
    with pytest.raises(PropertiesError):
        next(found)


def test_a_run_that_is_put_back_is_the_next():
    found = Runs(
        PublishTarget(ADDRESS, is_mandatory=False), [b"\0\0"] * 2, [b"a", b"b"], 2, NO_LIMIT
    )
    run = found.take()
    found.put_back(run)
    assert found.take() is run
    assert found.take() is None


def test_the_work_of_a_run_is_that_of_its_properties_and_messages_once():
    turns = TurnsByHand()
    target = PublishTarget(ADDRESS, is_mandatory=False)
    found = Runs(target, [b"\0\0"] * 3, [b"a", b"b", b"c"], 3, NO_LIMIT)
    run = found.take()
    assert found.take_work(run, turns, 10) == 3
    assert WORK_MAX - turns.work_left == HEADER_WORK + RUN_WORK + 3 * 10
    found.put_back(run)
    found.take_work(found.take(), turns, 10)
    assert WORK_MAX - turns.work_left == HEADER_WORK + 2 * (RUN_WORK + 3 * 10)
