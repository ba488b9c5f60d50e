"""Which queues are linked, and in which direction."""

from leveret.mgmt.ctl.migrating.links import (
    BACKWARD,
    FORWARD,
    NAME_BYTES_MAX,
    QueueAtBoth,
    QueueAtOne,
    direction_of,
    is_links,
    link_name,
    link_value,
    wanted_links,
)


def queue(name="q", source=(0, 0), target=(0, 0), kind="classic", **facts):
    """source, target: messages and consumers at each broker."""
    there = None if target is None else QueueAtOne(kind, *target)
    return QueueAtBoth(("/", name), QueueAtOne(kind, *source, **facts), there)


def direction(one, is_returning=False):
    return direction_of(one, is_returning=is_returning)


def test_messages_follow_the_consumers():
    assert direction(queue()) == FORWARD
    assert direction(queue(source=(5, 1))) == BACKWARD
    assert direction(queue(source=(5, 1), target=(0, 1))) == FORWARD
    assert direction(queue(source=(5, 0), target=(0, 1))) == FORWARD


def test_all_messages_go_back_in_a_roll_back():
    assert direction(queue(target=(5, 1)), is_returning=True) == BACKWARD


def test_streams_are_copied_and_not_copied_back():
    stream = queue(source=(9, 1), target=(4, 0), kind="stream")
    assert direction(stream) == FORWARD
    assert direction(stream, is_returning=True) == ""
    assert stream.left(is_returning=False) == 5


def test_queues_that_no_link_may_consume():
    assert direction(queue(is_owned=True)) == ""
    assert direction(queue(is_auto_delete=True)) == ""
    assert direction(queue(target=None)) == ""
    assert direction(queue("amq.gen-1")) == ""
    assert direction(queue(kind="rabbit_mqtt_qos0_queue")) == ""


def test_what_is_left_in_queues_without_a_link_counts_too():
    assert queue(source=(3, 1), is_auto_delete=True).left(is_returning=False) == 3
    assert queue(source=(3, 1), is_owned=True).left(is_returning=False) == 0
    assert queue(source=(None, 0)).left(is_returning=False) is None


def test_queues_with_messages_are_linked_first_and_keep_their_links():
    queues = [queue("empty"), queue("more", (7, 0)), queue("some", (1, 0)), queue("new", (2, 0))]
    now = {("/", "some"): FORWARD, ("/", "empty"): FORWARD}
    assert set(wanted_links(queues, now, set(), 2, is_returning=False)) == {
        ("/", "some"),
        ("/", "more"),
    }
    assert len(wanted_links(queues, now, set(), 9, is_returning=False)) == 4


def test_links_that_fail_do_not_keep_others_waiting():
    queues = [queue("refused", (7, 0)), queue("waiting", (1, 0))]
    now, failing = {("/", "refused"): FORWARD}, {("/", "refused")}
    assert list(wanted_links(queues, now, failing, 1, is_returning=False)) == [("/", "waiting")]
    assert len(wanted_links(queues, now, failing, 2, is_returning=False)) == 2


def test_fifty_thousand_queues_have_no_more_links_than_allowed():
    queues = [queue(f"q{number}", (number % 7, 0)) for number in range(50_000)]
    links = wanted_links(queues, {}, set(), 500, is_returning=False)
    assert len(links) == 500
    assert all(queues[int(name[1:])].source.messages for _, name in links)


def test_a_link_waits_for_queues_that_others_declare_and_confirms():
    value = link_value("q", BACKWARD, "amqp://old/v", "amqp:///v", is_stream=False)
    assert (value["src-uri"], value["dest-uri"]) == ("amqp:///v", "amqp://old/v")
    assert value["src-predeclared"] is value["dest-predeclared"] is True
    assert value["ack-mode"] == "on-confirm"


def test_consumers_of_links_are_told_from_those_of_programs():
    for is_stream in (True, False):
        value = link_value("q", FORWARD, "amqp://old", "amqp:///", is_stream=is_stream)
        arguments, prefetch_count = value["src-consumer-args"], value["src-prefetch-count"]
        assert is_links({"arguments": arguments, "prefetch_count": prefetch_count})
    for arguments in ({}, [], {"x-priority": 1}, {"x-stream-offset": "first"}):
        assert not is_links({"arguments": arguments, "prefetch_count": 1000})


def test_the_longest_name_of_a_queue_has_a_link():
    names = {link_name("q" * NAME_BYTES_MAX), link_name("ü" * 127)}
    assert all(len(name.encode()) <= NAME_BYTES_MAX for name in names)
