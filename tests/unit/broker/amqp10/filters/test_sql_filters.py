"""SQL filter expressions: what they select, which texts are refused and where, and what they cost.

Expected values are RabbitMQ's (rabbit_amqp_filter_sql_unit_SUITE.erl and its documentation).
"""

import random

import pytest

from leveret.broker.amqp10.filters.message_filter import MessageFilter
from leveret.broker.amqp10.filters.sql_parser import parse_sql
from leveret.broker.amqp10.filters.sql_tokens import SqlError
from leveret.broker.amqp10.sections import Amqp10Message, data_section, encode_message
from leveret.broker.amqp10.values import Value

WORDS = [
    "a", "p.subject", "h.priority", "1", "2.5", "'x'", "0xFF", "AND", "OR", "NOT", "=", "<>", "<",
    "(", ")", ",", "+", "-", "*", "/", "%", "LIKE", "IN", "IS", "NULL", "ESCAPE", "UTC", "TRUE",
    "[b]", "'%_'", ".", "'", "[",
]  # fmt: skip
NOW_MS = 1_750_000_000_000


def text(content):
    return Value("string", content)


def encoded(properties=None, header=None, annotations=(), **application_properties):
    message = Amqp10Message()
    message.header = header or {}
    message.has_header = bool(header)
    message.message_annotations = list(annotations)
    message.properties = properties or {}
    message.application_properties = [
        (text(name), value) for name, value in application_properties.items()
    ]
    message.body = data_section(b"body")
    return encode_message(message)


MESSAGE = encoded(
    {
        "message-id": Value("ulong", 12345),
        "user-id": Value("binary", b"Bob"),
        "to": text("/exchanges/e/key"),
        "subject": text("Order 66"),
        "correlation-id": Value("uuid", bytes(range(16))),
        "content-type": Value("symbol", "application/json"),
        "absolute-expiry-time": Value("timestamp", NOW_MS + 1),
        "creation-time": Value("timestamp", NOW_MS - 1000),
        "group-sequence": Value("uint", 9),
    },
    {"priority": Value("ubyte", 7)},
    country=text("UK"),
    city=text("O'Hare_100%"),
    weight=Value("int", -5),
    price=Value("double", 2.5),
    big=Value("ulong", 1 << 63),
    flag=Value("boolean", True),
    off=Value("boolean", False),
    nothing=Value("null", None),
    data=Value("binary", b"\x01\xff"),
    kind=Value("symbol", "sym"),
    emoji=text("😎☀️"),
    items=Value("list", [text("a")]),
)


def selects(sql, message=MESSAGE):
    return MessageFilter([parse_sql(sql, lambda: NOW_MS)]).matches(message, 0, len(message))


@pytest.mark.parametrize(
    "sql",
    [
        "country = 'UK'", 'country = "UK"', "a.country = 'UK'", "[country] = 'UK'",
        "application_properties.country = 'UK'", "country <> 'DE'", "country != 'DE'",
        "city = 'O''Hare_100%'", 'city = "O\'Hare_100%"', "kind = 'sym'", "data = 0x01FF",
        "emoji = '😎☀️'", "emoji LIKE '😎%'", "emoji LIKE '_☀_'",
        "header.priority = 7", "h.priority >= 6.5",
        "properties.message_id = 12345", "p.user_id = 0x426F62", "p.user_id = 'Bob'",
        "p.to LIKE '/exchanges/%'", "p.subject LIKE 'Order%' AND p.subject LIKE '%66'",
        "p.subject LIKE 'O%6'", "p.subject LIKE '%de_ %'", "p.subject LIKE '________'",
        "p.correlation_id = 0x000102030405060708090A0B0C0D0E0F",
        "p.content_type IN ('text/plain', 'application/json')", "p.reply_to IS NULL",
        "p.reply_to IS NULL OR p.reply_to = 'x'", "p.subject IS NOT NULL",
        "p.absolute_expiry_time > UTC()", "p.creation_time < UTC()", "p.group_sequence % 3 = 0",
        "weight = -5", "weight = - 5.0", "weight * -2 = 10", "weight + 1 < -3", "weight % 3 = -2",
        "price / 2 = 1.25", "price >= 2.5", "price < 1.0E1", "price = 25.0E-1", "10 / 4 = 2.5",
        "big > 9223372036854775807", "1 + 2 * 3 = 7", "(1 + 2) * 3 = 9", "8 - 3 - 2 = 3",
        "flag", "NOT off", "flag = TRUE", "off <> TRUE", "flag AND NOT off", "NOT NOT flag",
        "weight NOT IN (1, 2)", "country NOT LIKE 'D%'", "city LIKE '%!_100!%' ESCAPE '!'",
        "weight <= -5", "missing IS NULL", "nothing IS NULL",
        "items IS NULL", "flag OR missing = 1", "TRUE", "off = FALSE",
        "NOT country = 'DE' AND flag", "off AND off OR flag", "(flag = TRUE) = TRUE",
        "country = 'UK' AND\n\tweight < 0", "flag <> 1", "weight <> 'x'", "[not] IS NULL",
        "weight IN (price - 7.5, 1)",
    ],
)  # fmt: skip
def test_expressions_that_select(sql):
    assert selects(sql)


@pytest.mark.parametrize(
    "sql",
    [
        "country = 'uk'", "country = 5", "weight = '5'", "flag = 1", "flag > FALSE",
        "country > 5", "missing = 1", "missing <> 1", "NOT missing = 1", "nothing = 1",
        "missing", "NOT missing", "5", "'TRUE'", "NOT 5", "NOT NOT 5", "NOT NOT NOT 5",
        "missing AND flag", "flag AND missing", "off OR missing", "missing OR off",
        "NOT (missing AND flag)", "missing IN (1)", "missing NOT IN (1)", "missing LIKE '%'",
        "missing NOT LIKE '%'", "weight LIKE '%'", "weight / 0 = 1", "weight / 0 <> 1",
        "weight % 0 = 1", "price % 2 = 0.5", "+country = 'UK'", "-flag = 1",
        "country + 'x' = 'UKx'",
        "data LIKE '_%'", "city LIKE 'o%'", "country LIKE 'U'", "p.subject LIKE 'Order 66_'",
        "p.subject LIKE 'Order 6%66'", "country = 'UK' AND NOT flag", "items = 'a'",
    ],
)  # fmt: skip
def test_expressions_that_do_not_select(sql):
    assert not selects(sql)


@pytest.mark.parametrize(
    ("sql", "position", "reason"),
    [
        ("", 1, "a value is expected instead of end"),
        ("country =", 10, "a value is expected instead of end"),
        ("country = 'UK", 11, "\"'\" begins nothing"),
        ("a = 1 and b = 2", 7, "the word and is reserved"),
        ("LOWER(a) = 'x'", 1, "the word LOWER is reserved"),
        ("a = INF", 5, "the word INF is reserved"),
        ("header.durable = TRUE", 1, "filters cannot refer to header.durable"),
        ("a = 1 AND m.x = 1", 11, "filters cannot refer to m.x"),
        ("properties.colour = 1", 1, "filters cannot refer to properties.colour"),
        ("a = b = c", 7, "AND, OR, or the end is expected instead of ="),
        ("a b", 3, "AND, OR, or the end is expected instead of identifier 'b'"),
        ("(a = 1", 7, ") is expected instead of end"),
        ("a + 1 IS NULL", 7, "only an identifier can be before IS"),
        ("(a) IS NULL", 5, "only an identifier can be before IS"),
        ("a IS 1", 6, "NULL is expected instead of integer 1"),
        ("a NOT = 1", 7, "LIKE or IN is expected instead of ="),
        ("a LIKE b", 8, "a pattern in quotes is expected"),
        ("a LIKE 'x' ESCAPE '!!'", 19, "ESCAPE takes one character"),
        ("a LIKE 'x!' ESCAPE '!'", 8, "it ends with the escape character"),
        ("a LIKE 'x\x01'", 8, "control character"),
        ("[a\x01] = 1", 1, "control character"),
        ("a IN ()", 7, "a value is expected instead of )"),
        ("a IN (1", 8, ", or ) is expected"),
        ("--1 = 1", 2, "a value is expected instead of -"),
        ("UTC = 1", 5, "( is expected instead of ="),
        ("a = 1.", 6, "'.' begins nothing"),
        ("a = 0xab", 6, "AND, OR, or the end is expected instead of identifier 'xab'"),
        ("a = 1.0E999", 5, "too large"),
        ("a; b", 2, "';' begins nothing"),
        ("a = '\udcff'", 6, "not UTF-8"),
        ("a" * 4097, 4097, "4097 characters; 4096 are allowed"),
        ("a " * 201, 401, "more than 200 tokens"),
        ("(" * 61 + "a" + ")" * 61, 61, "nested more than 60 deep"),
    ],
)  # fmt: skip
def test_texts_that_are_refused(sql, position, reason):
    with pytest.raises(SqlError) as refused:
        parse_sql(sql, lambda: 0)
    assert refused.value.position == position
    assert reason in str(refused.value)


def test_the_largest_expressions_are_taken():
    assert selects("(" * 60 + "flag" + ")" * 60)
    assert selects("NOT " * 198 + "flag")
    assert selects(" AND ".join(["flag"] * 100))
    assert selects("weight < " + "9" * 4000)
    assert not selects("weight * 1.5 > " + "9" * 4000)


def test_a_priority_is_4_without_one_and_may_be_an_annotation():
    assert selects("h.priority = 4", encoded())
    stored = [(Value("symbol", "x-basic-priority"), Value("ubyte", 2))]
    assert selects("h.priority = 2", encoded(annotations=stored))


@pytest.mark.parametrize(
    "data", [b"", b"plain text", b"\0S", b"\0Sp\xd0\0\0\0", b"\0St\xc1\x05\x09"]
)
def test_bytes_that_are_no_message_have_no_fields(data):
    assert selects("p.subject IS NULL AND country IS NULL AND h.priority = 4", data)


def test_a_pattern_takes_time_that_grows_with_its_size_only():
    """A matcher that goes back would not end."""
    message = encoded(long=text("a" * 20_000))
    assert not selects("long LIKE '" + "%a" * 1500 + "%b'", message)
    assert not selects("long LIKE '" + "%a_" * 1000 + "%b'", message)


def test_damaged_messages_and_texts_raise_nothing_else():
    chance = random.Random(33)
    for _ in range(3000):
        sql = " ".join(chance.choices(WORDS, k=chance.randrange(1, 15)))
        try:
            condition = parse_sql(sql, lambda: 0)
        except SqlError:
            continue
        data = bytearray(MESSAGE)
        for _ in range(chance.randrange(6)):
            data[chance.randrange(len(data))] = chance.randrange(256)
        damaged = bytes(data[: chance.randrange(len(data)) or None])
        assert MessageFilter([condition]).matches(damaged, 0, len(damaged)) in (True, False)
