"""The notation of RabbitMQ's error texts."""

import pytest

from broker.amqp.erlang_terms import (
    FIELD_TYPE_NAMES,
    format_binary,
    format_snippet,
    format_text,
)


@pytest.mark.parametrize(
    ("data", "term"),
    [
        (b"", "<<>>"),
        (b"abc", '<<"abc">>'),
        (b"a b~", '<<"a b~">>'),
        (b'say "hi"\\', r'<<"say \"hi\"\\">>'),
        (b"\n\r\t\v\b\f\x1b", r'<<"\n\r\t\v\b\f\e">>'),
        (b"\0", "<<0>>"),
        (b"abc\0", "<<97,98,99,0>>"),
        (b"\x7f", "<<127>>"),
        (b"\xff\xfe", "<<255,254>>"),
    ],
)
def test_binaries(data, term):
    assert format_binary(data) == term


@pytest.mark.parametrize(
    ("text", "term"),
    [("queue", '<<"queue">>'), ("", "<<>>"), ("été", '<<"été"/utf8>>'), ("\0", "<<0>>")],
)
def test_texts(text, term):
    assert format_text(text) == term


def test_payloads_are_shown_up_to_16_octets():
    assert format_snippet(b"") == "all octets = <<>>"
    assert format_snippet(b"A" * 16) == f'all octets = <<"{"A" * 16}">>'
    assert format_snippet(b"A" * 17) == f'first 16 octets = <<"{"A" * 16}">>'
    assert format_snippet(b"A" * 16 + b"\0") == f'first 16 octets = <<"{"A" * 16}">>'


def test_field_types_have_their_long_names():
    assert FIELD_TYPE_NAMES["S"] == "longstr"
    assert FIELD_TYPE_NAMES["I"] == "signedint"
    assert FIELD_TYPE_NAMES["t"] == "bool"
    assert set(FIELD_TYPE_NAMES) == set("SIDTFAbBdflLstxViu")
