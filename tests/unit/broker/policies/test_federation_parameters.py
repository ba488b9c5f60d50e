"""The values of federation upstreams and of sets of them."""

import pytest

from leveret.broker.policies.federation_parameters import (
    NUMBER_MAX,
    Upstream,
    UpstreamSet,
    UpstreamSetMember,
    parse_upstream,
    parse_upstream_set,
)
from leveret.broker.policies.parameter_validation import ParameterError

URI = "amqp://anna:sesame@h"


def test_an_upstream_has_rabbitmqs_defaults():
    assert parse_upstream("up", {"uri": URI}) == Upstream(
        "up", (URI,), exchange=None, queue=None, consumer_tag="federation-link-up",
        prefetch_count=1000, reconnect_delay_s=5.0, max_hops=1, expires_ms=None,
        message_ttl_ms=None, trusts_user_id=False, ack_mode="on-confirm", ha_policy=None,
        binds_without_waiting=False, resource_cleanup_mode="default", channel_use_mode="multiple",
    )  # fmt: skip


def test_an_upstream_may_say_everything():
    value = {
        "uri": [URI, "amqp://"], "exchange": "x", "queue": "q", "consumer-tag": "t",
        "prefetch-count": 5, "reconnect-delay": 1, "max-hops": 2, "expires": 1000,
        "message-ttl": 2000, "trust-user-id": True, "ack-mode": "no-ack", "ha-policy": "all",
        "bind-nowait": True, "resource-cleanup-mode": "never", "channel-use-mode": "single",
    }  # fmt: skip
    assert parse_upstream("up", value) == Upstream(
        "up", (URI, "amqp://"), "x", "q", "t", 5, 1.0, 2, 1000, 2000, True, "no-ack", "all", True,
        "never", "single",
    )  # fmt: skip


def test_the_options_of_a_set_replace_those_of_the_upstream():
    found = parse_upstream_set("set", [{"upstream": "up", "exchange": "other"}, {"upstream": "b"}])
    member = UpstreamSetMember("up", {"exchange": "other"})
    assert found == UpstreamSet("set", (member, UpstreamSetMember("b")))
    upstream = parse_upstream("up", {"uri": URI, "exchange": "x", "max-hops": 2}, member.options)
    assert (upstream.exchange, upstream.max_hops) == ("other", 2)


def test_numbers_are_brought_into_their_range():
    value = {"uri": URI, "max-hops": -1, "expires": 10**400, "prefetch-count": 1e300}
    upstream = parse_upstream("up", value)
    assert (upstream.max_hops, upstream.prefetch_count) == (0, 65535)
    assert upstream.expires_ms == NUMBER_MAX


@pytest.mark.parametrize("value", [[], {}])
def test_a_set_may_be_empty(value):
    assert parse_upstream_set("set", value).members == ()


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({}, 'Key "uri" not found in my'),
        (5, "my not a list 5"),
        ({"uri": 5}, "uri should be list, actually was 5"),
        ({"uri": "http://x"},
         '"http://x" not a valid URI: {{unexpected_uri_scheme,"http"},"http://x"}'),
        ({"uri": URI, "foo": 1}, 'Unrecognised terms [{<<"foo">>,1}] in my'),
        ({"uri": URI, "queue-type": "quorum"},
         'Unrecognised terms [{<<"queue-type">>,<<"quorum">>}] in my'),
        ({"uri": URI, "exchange": 5}, "exchange should be binary, actually was 5"),
        ({"uri": URI, "max-hops": "1"}, 'max-hops should be a number, actually was <<"1">>'),
        ({"uri": URI, "trust-user-id": 1}, "trust-user-id should be boolean, actually was 1"),
        ({"uri": URI, "resource-cleanup-mode": "x"}, "resource-cleanup-mode should be one of "
         '[<<"default">>,<<"never">>], actually was <<"x">>'),
    ],
)  # fmt: skip
def test_a_wrong_upstream_is_refused_with_rabbitmqs_text(value, text):
    with pytest.raises(ParameterError) as error:
        parse_upstream("my", value)
    assert str(error.value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ([{}], 'Key "upstream" not found in my'),
        ([{"upstream": "u", "foo": 1}, {}],
         'Unrecognised terms [{<<"foo">>,1}] in my\nKey "upstream" not found in my'),
        ([{"upstream": "u", "uri": URI}],
         'Unrecognised terms [{<<"uri">>,<<"amqp://h">>}] in my'),
        ([1], "my not a list 1"),
        ({"upstream": "u"}, 'my not a list #{<<"upstream">> => <<"u">>}'),
        ("u", 'my not a list <<"u">>'),
    ],
)  # fmt: skip
def test_a_wrong_set_is_refused(value, text):
    with pytest.raises(ParameterError) as error:
        parse_upstream_set("my", value)
    assert str(error.value) == text
