"""Messages of AMQP 0-9-1 and 1.0: what each field becomes in the other, and comes back as."""

import pytest
from librt.strings import BytesWriter

from leveret.broker.amqp.content import encode_address
from leveret.broker.amqp.properties import encode_properties
from leveret.broker.amqp10.conversion import Amqp091Message, ConversionRules, to_amqp091
from leveret.broker.amqp10.properties_to_sections import SectionsWriter, address_annotations
from leveret.broker.amqp10.sections import Amqp10Message, data_section, read_message
from leveret.broker.amqp10.values import Value

RULES_3, RULES_4 = ConversionRules(is_4=False), ConversionRules(is_4=True)
EVERY_PROPERTY = {
    "content_type": "text/plain", "content_encoding": "utf-8", "delivery_mode": 1, "priority": 3,
    "correlation_id": "c1", "reply_to": "r1", "expiration": "60000", "message_id": "m1",
    "timestamp": 1_700_000_000, "type": "t1", "user_id": "guest", "app_id": "a1",
}  # fmt: skip
HEADERS = {
    "text": ("S", "x"), "yes": ("t", True), "byte": ("b", -5), "ubyte": ("B", 5),
    "short": ("s", -300), "ushort": ("u", 300), "int": ("I", -70_000), "uint": ("i", 70_000),
    "long": ("l", 5_000_000_000), "double": ("d", 1.5), "time": ("T", 1_700_000_000),
    "void": ("V", None), "x-own": ("S", "y"),
}  # fmt: skip


def as_stored(properties, body=b"body", rules=RULES_4):
    """The sections of a message of AMQP 0-9-1, decoded."""
    writer = BytesWriter()
    annotations = address_annotations(encode_address("e", "k"), rules.is_4)
    SectionsWriter(rules.is_4).write(writer, encode_properties(properties), annotations)
    return read_message(writer.getvalue() + data_section(body))


def there_and_back(properties, body=b"body", rules=RULES_4):
    return to_amqp091(as_stored(properties, body, rules), rules)


def headers_back(headers, rules):
    return there_and_back({"headers": headers}, rules=rules).properties.get("headers", {})


@pytest.mark.parametrize("rules", [RULES_3, RULES_4])
def test_every_property_comes_back(rules):
    back = there_and_back(EVERY_PROPERTY, rules=rules)
    assert back == Amqp091Message("e", "k", EVERY_PROPERTY, b"body")


@pytest.mark.parametrize("rules", [RULES_3, RULES_4])
def test_headers_keep_their_types(rules):
    assert headers_back(HEADERS, rules) == HEADERS


def test_a_message_without_properties():
    assert there_and_back({}, rules=RULES_3).properties == {}
    assert there_and_back({}, rules=RULES_4).properties == {"delivery_mode": 1}


def test_nested_headers_are_kept_as_annotations_since_4():
    nested = {
        "x-table": ("F", {"a": ("I", 1)}), "x-array": ("A", [("I", 1), ("S", "x")]),
        "table": ("F", {"a": ("I", 1)}), "array": ("A", [("I", 1)]), "CC": ("A", [("S", "k2")]),
    }  # fmt: skip
    assert headers_back(nested, RULES_3) == {}
    assert headers_back(nested, RULES_4).keys() == {"x-table", "x-array", "CC"}
    assert headers_back(nested, RULES_4)["x-array"] == nested["x-array"]


def test_binary_headers():
    headers = {"bytes": ("x", b"\xff\0")}
    assert headers_back(headers, RULES_3) == headers
    assert headers_back(headers, RULES_4) == {"bytes": ("S", "\udcff\0")}


@pytest.mark.parametrize("text", ["\udcff", "a\0b", "x" * 5000, "ä" * 3000])
def test_texts_that_are_not_plain_are_binary(text):
    message = as_stored({"headers": {"h": ("S", text)}})
    assert message.application_properties[0][1].kind == "binary"
    assert headers_back({"h": ("S", text)}, RULES_4) == {"h": ("S", text)}


def test_what_1_0_cannot_say_is_null():
    headers = {"decimal": ("D", (1, 15)), "x-decimal": ("D", (1, 15))}
    assert headers_back(headers, RULES_4) == {"x-decimal": ("V", None)}


def test_ids_that_are_uuids():
    urn = "urn:uuid:12345678-1234-1234-1234-1234567890ab"
    message = as_stored({"message_id": urn})
    assert message.properties["message-id"].kind == "uuid"
    assert there_and_back({"message_id": urn}).properties["message_id"] == urn
    assert there_and_back({"message_id": "urn:uuid:x"}).properties["message_id"] == "urn:uuid:x"


def of_client(properties=None, body=b"\x00\x53\x77\xa1\x01v", **parts):
    """A message of a client of AMQP 1.0, as one of 0-9-1."""
    message = Amqp10Message()
    message.properties = properties or {}
    message.body = body
    for name, value in parts.items():
        setattr(message, name, value)
    return to_amqp091(message, RULES_4)


def test_other_bodies_stay_encoded():
    back = of_client()
    properties = {"type": "amqp-1.0", "delivery_mode": 2}
    assert (back.body, back.properties) == (b"\x00\x53\x77\xa1\x01v", properties)


def test_ids_of_other_types():
    assert of_client({"message-id": Value("ulong", 7)}).properties["message_id"] == "7"
    back = of_client(
        {"message-id": Value("binary", b"\1"), "correlation-id": Value("string", "x" * 300)}
    )
    assert back.properties["headers"] == {
        "x-message-id": ("x", b"\1"), "x-correlation-id": ("S", "x" * 300),
    }  # fmt: skip


def test_fields_that_0_9_1_cannot_have_are_dropped():
    back = of_client(
        {
            "to": Value("string", "a"), "subject": Value("string", "s"),
            "user-id": Value("binary", b"\0\xff"), "creation-time": Value("timestamp", -1),
            "content-type": Value("symbol", "x" * 300),
        },
        application_properties=[
            (Value("string", "x" * 300), Value("int", 1)),
            (Value("string", "uuid"), Value("uuid", bytes(16))),
            (Value("string", "large"), Value("ulong", 2**64 - 1)),
        ],
        message_annotations=[
            (Value("symbol", "x-opt"), Value("map", [(Value("symbol", "a"), Value("int", 1))])),
            (Value("symbol", "other"), Value("int", 1)),
        ],
    )  # fmt: skip
    assert back.properties == {
        "type": "amqp-1.0",
        "delivery_mode": 2,
        "headers": {"large": ("l", -1), "x-opt": ("F", {"a": ("I", 1)})},
    }
