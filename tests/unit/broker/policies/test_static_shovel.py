"""Static shovels: what their terms mean, and what is refused."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leveret.broker.erlang.parser import parse_term
from leveret.broker.erlang.terms import Atom, String
from leveret.broker.policies.parameter_validation import ParameterError
from leveret.broker.policies.shovel_parameter import (
    ShovelDeclaration,
    ShovelDefinition,
    ShovelDestination,
    ShovelSource,
)
from leveret.broker.policies.static_shovel import parse_static_shovels

SOURCE = '{uris, ["amqp://one"]}, {queue, <<"q">>}'
DESTINATION = '{uris, ["amqp://two"]}'


def parsed(text):
    return parse_static_shovels(parse_term(text))


def shovel(source=SOURCE, destination=DESTINATION, rest=""):
    """The terms of one shovel."""
    return f"[{{s, [{{source, [{source}]}}, {{destination, [{destination}]}}{rest}]}}]"


def problem(text):
    with pytest.raises(ParameterError) as caught:
        parsed(text)
    return str(caught.value)


def test_the_defaults_are_those_of_rabbitmq_with_confirms():
    assert parsed(shovel()) == (
        {
            "s": ShovelDefinition(
                ShovelSource(("amqp://one",), queue="q", prefetch_count=1000, declarations=()),
                ShovelDestination(("amqp://two",)),
                ack_mode="on-confirm",
                reconnect_delay_s=5,
            )
        },
        [],
    )


def test_a_shovel_may_say_everything():
    text = """[{'My shovel', [
        {source, [{protocol, amqp091}, {uris, ["amqp://one", <<"amqp://other">>]},
            {declarations, [
                'queue.declare',
                {'exchange.declare', [{exchange, <<"x">>}, {type, <<"fanout">>}, durable]},
                {'queue.declare', [{queue, <<"q">>}, {durable, true}, {nowait, true},
                    {arguments, [{<<"x-max-length">>, long, 9}]}]},
                {'queue.bind', [{exchange, <<"x">>}, {queue, <<"q">>}, {queue, <<"later">>}]},
                {'basic.qos', [{prefetch_count, 7}, {global, false}]}]},
            {queue, <<"q">>}, {prefetch_count, 100000}, {delete_after, 'queue-length'},
            {consumer_args, [{<<"x-priority">>, signedint, 3}]}]},
        {destination, [{protocol, amqp091}, {uris, ["amqp://two"]},
            {declarations, [{'queue.declare', [exclusive]}]},
            {publish_properties, [{delivery_mode, 2}, {content_type, <<"text/x">>},
                {headers, [{<<"h">>, longstr, <<"v">>}]}]},
            {publish_fields, [{exchange, <<>>}, {routing_key, <<"k">>}, {mandatory, true}]},
            {add_forward_headers, true}, {add_timestamp_header, true}]},
        {ack_mode, on_publish}, {reconnect_delay, 2.5}]}]"""
    definitions, without_effect = parsed(text)
    assert without_effect == []
    assert definitions["My shovel"] == ShovelDefinition(
        ShovelSource(
            ("amqp://one", "amqp://other"), queue="q", prefetch_count=65535,
            delete_after="queue-length", consumer_arguments={"x-priority": ("I", 3)},
            declarations=(
                ShovelDeclaration("queue.declare", {}),
                ShovelDeclaration("exchange.declare",
                            {"exchange": "x", "exchange_type": "fanout", "durable": True}),
                ShovelDeclaration("queue.declare", {
                    "queue": "q", "durable": True, "arguments": {"x-max-length": ("l", 9)}}),
                ShovelDeclaration("queue.bind", {"exchange": "x", "queue": "q"}),
                ShovelDeclaration("basic.qos", {"prefetch_count": 7, "global_": False}),
            ),
        ),
        ShovelDestination(
            ("amqp://two",), exchange="", exchange_key="k",
            properties={"delivery_mode": 2, "content_type": "text/x",
                        "headers": {"h": ("S", "v")}},
            adds_forward_headers=True, adds_timestamp_header=True,
            declarations=(ShovelDeclaration("queue.declare", {"exclusive": True}),),
        ),
        "on-publish",
        2.5,
    )  # fmt: skip


def test_the_older_format_is_the_same():
    older = """[{s, [
        {sources, [{broker, "amqp://one"}, {declarations, ['queue.declare']}]},
        {destinations, [{brokers, ["amqp://two", "amqp://three"]}]},
        {queue, <<"q">>}, {prefetch_count, 5}, {publish_fields, [{routing_key, <<"k">>}]},
        {publish_properties, [{priority, 3}]}, {add_forward_headers, true},
        {ack_mode, no_ack}, {reconnect_delay, 0}]}]"""
    newer = shovel(
        f"{SOURCE}, {{declarations, ['queue.declare']}}, {{prefetch_count, 5}}",
        '{uris, ["amqp://two", "amqp://three"]}, {publish_fields, [{routing_key, <<"k">>}]}, '
        "{publish_properties, [{priority, 3}]}, {add_forward_headers, true}",
        ", {ack_mode, no_ack}, {reconnect_delay, 0}",
    )
    assert parsed(older) == parsed(newer)


def test_keys_that_are_not_known_are_told():
    text = shovel(f"{SOURCE}, {{prefech_count, 5}}", rest=", {sorce, 1}")
    assert parsed(text).without_effect == [
        "shovel 's': sorce has no effect",
        "the source of shovel 's': prefech_count has no effect",
    ]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("word", "shovels should be a list of pairs of a name and a list "
         "(require_list_of_shovel_configurations), actually was word"),
        ('[{"s", []}]', "a shovel should be a pair of a name, which is an atom, and a list "
         '(require_list_of_shovel_configurations), actually was "s"'),
        ("[[s, []]]", "a shovel should be a pair of a name, which is an atom, and a list "
         '(require_list_of_shovel_configurations), actually was <<"list">>'),
        (shovel()[:-1] + "," + shovel()[1:],
         "shovel 's' is defined twice (duplicate_shovel_definition)"),
        ("[{s, []}]", "shovel 's': source is missing (missing_parameter)"),
        ("[{s, [{source, []}]}]", "shovel 's': destination is missing (missing_parameter)"),
        ("[{s, [{sources, []}]}]", "shovel 's': destinations is missing (missing_parameter)"),
        ("[{s, [{sources, []}, {destinations, []}]}]",
         "the sources of shovel 's': broker is missing (missing_parameter)"),
        ("[{s, [word]}]",
         "shovel 's': word is not a pair of a key and a value (invalid_parameters)"),
        (shovel(rest=", {ack_mode, no_ack}, {ack_mode, no_ack}"),
         "shovel 's': ack_mode is given more than once (duplicate_parameters)"),
        (shovel(rest=", {ack_mode, always}"),
         "shovel 's': ack_mode should be one of no_ack, on_publish, on_confirm, "
         "actually was always"),
        (shovel(rest=", {reconnect_delay, soon}"),
         "shovel 's': reconnect_delay should be a number of seconds, actually was soon"),
        (shovel(f"{SOURCE}, {{delete_after, 5}}", rest=", {ack_mode, no_ack}"),
         "shovel 's': no_ack and a number as delete_after exclude each other"),
        ("[{s, [{source, word}, {destination, []}]}]",
         "the source of shovel 's' should be a list, actually was word"),
    ],
)  # fmt: skip
def test_errors_in_shovels_are_reported(text, told):
    assert problem(text) == told


@pytest.mark.parametrize(
    ("source", "told"),
    [
        ('{queue, <<"q">>}', "uris is missing (missing_parameter)"),
        ('{uris, ["amqp://one"]}', "queue is missing (missing_parameter)"),
        ('{uris, []}, {queue, <<"q">>}', 'uris should be a list of URIs, such as ["amqp://host"]'),
        ('{uris, "amqp://u:sesame@h"}',
         'uris should be a list of URIs, such as ["amqp://host"]'),
        ("{uris, [5]}", 'a URI should be a text, such as "amqp://host"'),
        ('{protocol, amqp10}, {uris, ["amqp://one"]}',
         "protocol should be amqp091, the only one that is supported, actually was amqp10"),
        ('{uris, ["amqp://one"]}, {queue, "q"}',
         'queue should be a binary, such as <<"name">>, actually was "q"'),
        (f"{SOURCE}, {{prefetch_count, -1}}",
         "prefetch_count should be a number from 0, actually was -1"),
        (f"{SOURCE}, {{delete_after, later}}",
         "delete_after should be never, 'queue-length' or a number, actually was later"),
        (f"{SOURCE}, {{consumer_args, [1]}}",
         'consumer_args: a field should be {Name, Type, Value}, such as '
         '{<<"x-max-length">>, long, 9}, actually was 1'),
        (f"{SOURCE}, {{declarations, word}}",
         "declarations should be a list, actually was word"),
        (f"{SOURCE}, {{declarations, ['queue.nope']}}",
         "'queue.nope' is not a declaration; known ones are exchange.declare, exchange.delete, "
         "exchange.bind, exchange.unbind, queue.declare, queue.delete, queue.purge, queue.bind, "
         "queue.unbind, basic.qos"),
        (f"{SOURCE}, {{declarations, [{{'queue.purge', word}}]}}",
         "the fields of 'queue.purge' should be a list, actually was word"),
        (f"{SOURCE}, {{declarations, [{{'queue.purge', [{{nope, 1}}]}}]}}",
         "'queue.purge' has no field nope (unknown_fields); it has queue"),
        (f"{SOURCE}, {{declarations, [{{'queue.purge', [{{queue, name}}]}}]}}",
         "'queue.purge': queue should be a binary, such as <<\"name\">>, actually was name"),
        (f"{SOURCE}, {{declarations, [{{'queue.declare', [{{durable, 1}}]}}]}}",
         "'queue.declare': durable should be true or false, actually was 1"),
        (f"{SOURCE}, {{declarations, [{{'basic.qos', [{{prefetch_count, 65536}}]}}]}}",
         "'basic.qos': prefetch_count should be a number from 0 to 65535, actually was 65536"),
        (f"{SOURCE}, {{declarations, [{{'queue.declare', [{{arguments, word}}]}}]}}",
         "'queue.declare': arguments: a table should be a list, actually was word"),
    ],
)  # fmt: skip
def test_errors_in_a_source_are_reported(source, told):
    assert problem(shovel(source)) == f"the source of shovel 's': {told}"


@pytest.mark.parametrize(
    ("destination", "told"),
    [
        ("{publish_fields, [{nope, 1}]}",
         "publish_fields: nope is not known (unexpected_fields); known are exchange, routing_key, "
         "mandatory, immediate, ticket"),
        ("{publish_fields, [{exchange, x}]}",
         'publish_fields: exchange should be a binary, such as <<"name">>, actually was x'),
        ("{publish_properties, [{delivery_mode, 256}]}",
         "publish_properties: delivery_mode should be a number from 0 to 255, actually was 256"),
        ("{publish_properties, [{type, word}]}",
         "publish_properties: type should be binary, actually was word"),
        ("{publish_properties, [{headers, word}]}",
         "publish_properties: headers: a table should be a list, actually was word"),
        ("{add_forward_headers, 1}",
         "add_forward_headers should be true or false, actually was 1"),
    ],
)  # fmt: skip
def test_errors_in_a_destination_are_reported(destination, told):
    text = shovel(destination=f"{DESTINATION}, {destination}")
    assert problem(text) == f"the destination of shovel 's': {told}"


def test_no_error_shows_a_password():
    assert "sesame" not in problem(shovel('{uris, ["amqp://anna:sesame%zz@h"]}, {queue, <<"q">>}'))
    assert "sesame" not in problem('[{s, [{source, "amqp://anna:sesame@h"}, {destination, []}]}]')


KEYS = st.sampled_from([
    "source", "destination", "sources", "destinations", "uris", "broker", "queue", "declarations",
    "publish_properties", "publish_fields", "headers", "ack_mode", "queue.declare", "arguments",
    "prefetch_count", "delete_after", "reconnect_delay", "protocol", "true", "s",
]).map(Atom)  # fmt: skip
TERMS = st.recursive(
    KEYS | st.text(max_size=3) | st.text(max_size=3).map(String) | st.integers() | st.floats(),
    lambda inner: st.lists(inner) | st.lists(st.tuples(KEYS, inner)) | st.lists(inner).map(tuple),
)


@given(TERMS, TERMS, TERMS)
def test_any_terms_are_shovels_or_an_error(one, source, destination):
    settings = [(Atom("source"), source), (Atom("destination"), destination)]
    for term in (one, [(Atom("s"), one)], [(Atom("s"), settings)]):
        with suppress(ParameterError):
            parse_static_shovels(term)
