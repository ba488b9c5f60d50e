"""The values of shovels: what is refused, and what they mean."""

import pytest

from leveret.broker.policies.parameter_validation import SECONDS_MAX, ParameterError
from leveret.broker.policies.shovel_parameter import (
    QueueBounds,
    ShovelDefinition,
    ShovelDestination,
    ShovelSource,
    Threshold,
    check_shovel,
    parse_shovel,
)

SOURCE, DESTINATION = "amqp://anna:sesame@from", "amqp://to"
VALID = {"src-uri": SOURCE, "src-queue": "q", "dest-uri": DESTINATION}


def refusal(value):
    with pytest.raises(ParameterError) as error:
        parse_shovel("my", value)
    return str(error.value)


def test_a_shovel_has_rabbitmqs_defaults():
    assert parse_shovel("my", VALID) == ShovelDefinition(
        ShovelSource((SOURCE,), queue="q", exchange_key="", prefetch_count=1000),
        ShovelDestination((DESTINATION,)),
        ack_mode="on-confirm", reconnect_delay_s=5.0,
    )  # fmt: skip


def test_a_shovel_may_say_everything():
    value = {
        "src-protocol": "amqp091", "src-uri": [SOURCE, "amqp://other"], "src-exchange": "x",
        "src-exchange-key": "k", "src-queue-args": {"x-queue-type": "quorum"},
        "src-consumer-args": {"x-priority": 5}, "src-prefetch-count": 7, "prefetch-count": 8,
        "src-delete-after": 100, "delete-after": "never", "dest-protocol": "amqp091",
        "dest-uri": [DESTINATION], "dest-queue": "d", "dest-queue-args": {"x-expires": 9},
        "dest-publish-properties": {"delivery_mode": 2, "type": "t"}, "publish-properties": {},
        "dest-add-forward-headers": True, "add-forward-headers": False,
        "dest-add-timestamp-header": True, "ack-mode": "on-publish", "reconnect-delay": 0.5,
    }  # fmt: skip
    assert parse_shovel("my", value) == ShovelDefinition(
        ShovelSource(
            (SOURCE, "amqp://other"), None, "x", "k", {"x-queue-type": ("S", "quorum")},
            {"x-priority": ("l", 5)}, 7, 100,
        ),
        ShovelDestination(
            (DESTINATION,), "d", None, None, {"x-expires": ("l", 9)},
            {"delivery_mode": 2, "type": "t"}, True, True,
        ),
        "on-publish", 0.5,
    )  # fmt: skip


def test_older_names_of_keys_are_known():
    value = {
        **VALID, "prefetch-count": 8, "delete-after": "queue-length", "add-forward-headers": True,
        "add-timestamp-header": True, "publish-properties": {"app_id": "a"},
    }  # fmt: skip
    shovel = parse_shovel("my", value)
    assert (shovel.source.prefetch_count, shovel.source.delete_after) == (8, "queue-length")
    destination = shovel.destination
    assert destination.adds_forward_headers
    assert destination.adds_timestamp_header
    assert destination.properties == {"app_id": "a"}


@pytest.mark.parametrize(
    ("value", "count", "delay_s"),
    [(-1, 0, 0.0), (1.5, 1, 1.5), (1e300, 65535, SECONDS_MAX), (10**400, 65535, SECONDS_MAX)],
)
def test_numbers_are_brought_into_their_range(value, count, delay_s):
    shovel = parse_shovel("my", {**VALID, "prefetch-count": value, "reconnect-delay": value})
    assert (shovel.source.prefetch_count, shovel.reconnect_delay_s) == (count, delay_s)


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"src-exchange": "x"}, "Cannot specify 'src-exchange' and 'src-queue'"),
        ({"dest-exchange": "x", "dest-queue": "d"},
         "Cannot specify 'dest-exchange' and 'dest-queue'"),
        ({"delete-after": 5, "ack-mode": "no-ack"},
         "Cannot specify 'no-ack' and numerical 'delete-after'"),
        ({"src-queue": None}, "src-queue should be binary, actually was null"),
        ({"src-queue": [97, 98]}, 'src-queue should be binary, actually was "ab"'),
        ({"dest-queue": "d" * 256}, "dest-queue should be less than 255 bytes, actually was 256"),
        ({"ack-mode": "ö"}, 'ack-mode should be one of [<<"no-ack">>,<<"on-publish">>,'
         '<<"on-confirm">>], actually was <<"ö">>'),
        ({"prefetch-count": "5"}, 'prefetch-count should be a number, actually was <<"5">>'),
        ({"prefetch-count": {"b": 1, "a": 2}},
         'prefetch-count should be a number, actually was #{<<"a">> => 2,<<"b">> => 1}'),
        ({"reconnect-delay": True}, "reconnect-delay should be a number, actually was true"),
        ({"src-delete-after": -1}, "src-delete-after should be a number greater than or equal to 0,"
         ' "never" or "queue-length", actually was -1'),
        ({"src-delete-after": True}, "src-delete-after should be a number greater than or equal to"
         ' 0, "never" or "queue-length", actually was true'),
        ({"add-forward-headers": 1}, "add-forward-headers should be boolean, actually was 1"),
        ({"publish-properties": {"delivery_mode": "2"}},
         'delivery_mode should be a number, actually was <<"2">>'),
        ({"publish-properties": {"priority": 256}},
         "priority should be a number from 0 to 255, actually was 256"),
        ({"publish-properties": {"content-type": "x"}},
         'Unrecognised terms [{<<"content-type">>,<<"x">>}] in publish-properties'),
        ({"publish-properties": 5}, "publish-properties not a list 5"),
        ({"src-queue-args": {"x": 1}}, 'Unrecognised terms [{<<"x">>,1}] in src-queue-args'),
        ({"src-queue-args": {"x-expires": None}},
         "src-queue-args should be a field table: null_not_allowed"),
        ({"src-consumer-args": [1]}, "Unrecognised terms [1] in src-consumer-args"),
        ({"src_queue": "x", "foo": [1]},
         'Unrecognised terms [{<<"foo">>,[1]},{<<"src_queue">>,<<"x">>}] in my'),
        ({"src-uri": []}, "src-uri should be list, actually was []"),
        ({"src-uri": [5]}, "src-uri should be binary, actually was 5"),
        ({"src-uri": ["amqp://h", "http://h"]},
         '"http://h" not a valid URI: {{unexpected_uri_scheme,"http"},"http://h"}'),
        ({"src-protocol": "amqp10"}, "src-protocol should be amqp091, since AMQP 1.0 is not "
         'supported, actually was <<"amqp10">>'),
        ({"dest-protocol": 5}, "dest-protocol should be binary, actually was 5"),
    ],
)  # fmt: skip
def test_a_wrong_value_is_refused_with_rabbitmqs_text(changes, text):
    assert refusal({**VALID, **changes}) == text


def test_all_that_is_wrong_is_told_in_rabbitmqs_order():
    value = {"src-uri": "z", "ack-mode": "x", "reconnect-delay": "y", "foo": 1, "dest-queue": "d"}
    assert refusal(value).split("\n") == [
        "Must specify 'src-exchange' or 'src-queue'",
        'Unrecognised terms [{<<"foo">>,1}] in my',
        'Key "dest-uri" not found in my',
        '"z" not a valid URI: {{unable_to_parse_uri,no_scheme},"z"}',
        'ack-mode should be one of [<<"no-ack">>,<<"on-publish">>,<<"on-confirm">>], actually was '
        '<<"x">>',
        'reconnect-delay should be a number, actually was <<"y">>',
    ]


@pytest.mark.parametrize("value", [5, "text", None, True])
def test_a_value_that_is_no_object_is_refused(value):
    assert refusal(value).startswith("my not a list ")


def test_the_vhosts_of_the_node_itself_may_be_asked_about():
    value = {**VALID, "src-uri": ["amqp://other/a", "amqp:///b"]}
    with pytest.raises(ParameterError, match="^not to b$"):
        check_shovel("my", value, lambda vhost: [f"not to {vhost}"])
    check_shovel("my", value)


@pytest.mark.parametrize(
    "changes",
    [{"src-uri": "http://anna:sesame@h"}, {"src_uri": "amqp://anna:sesame@h"},
     {"src-uri": {"a": ["amqp://anna:sesame@h"]}},
     {"dest-uri": "amqps://h?password=sesame&depth=x"}],
)  # fmt: skip
def test_no_text_shows_a_password(changes):
    assert "sesame" not in refusal({**VALID, **changes})


def test_a_definition_does_not_show_its_uris():
    assert "sesame" not in repr(parse_shovel("my", VALID))


def test_a_threshold_has_a_queue_and_bounds():
    value = {"queue": "q", "start": {"messages-above": 9}, "stop": {"bytes-below": 5}}
    threshold = parse_shovel("s", VALID | {"threshold": value}).threshold
    assert threshold == Threshold("q", QueueBounds(messages_above=9), QueueBounds(bytes_below=5))


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({"start": {}, "stop": {}}, 'Key "queue" not found in threshold'),
        ({"queue": "q", "start": {}, "stop": {}}, "start should have one of messages-above"),
        ({"queue": "q", "start": {"above": 1}}, "Unrecognised terms"),
        ({"queue": "q", "start": {"messages-above": "x"}}, "messages-above should be a number"),
    ],
)
def test_a_threshold_that_makes_no_sense_is_refused(value, text):
    assert text in refusal(VALID | {"threshold": value})


def test_one_of_the_bounds_is_enough():
    bounds = QueueBounds(messages_above=10, bytes_above=1000)
    assert bounds.are_passed(11, 0)
    assert bounds.are_passed(0, 1001)
    assert not bounds.are_passed(10, 1000)
    assert QueueBounds(messages_below=5).are_passed(4, 0)
    assert not QueueBounds(bytes_below=5).are_passed(0, 5)
