"""The header of a message: what is kept beside the properties that consumers get."""

import pytest

from leveret.broker.amqp.content_header import Form, header_with, make_header, read_stored
from leveret.broker.amqp.properties import PERSISTENT, encode_properties

FORM = Form("mqtt", b"\x00\xffproperties")
PROPERTIES = {"content_type": "text", "headers": {"a": ("S", "b")}, "delivery_mode": PERSISTENT}
KINDS = [((), None), (["hidden"], None), ((), FORM), (["hidden"], FORM)]


def facts(header):
    return header.properties, list(header.bcc_keys), header.form, header.kind


@pytest.mark.parametrize("properties", [PROPERTIES, {}])
@pytest.mark.parametrize(("bcc_keys", "form"), KINDS)
def test_what_is_stored_is_read_back(properties, bcc_keys, form):
    header = make_header(properties, bcc_keys, form)
    assert header.raw == encode_properties(properties)
    assert facts(read_stored(header.stored)) == facts(header)


def test_without_more_the_properties_are_stored_as_they_are():
    header = make_header(PROPERTIES)
    assert header.stored is header.raw
    again = read_stored(header.raw)
    assert again.stored is again.raw is header.raw


@pytest.mark.parametrize(("bcc_keys", "form"), KINDS)
def test_a_changed_header_keeps_what_is_not_in_the_properties(bcc_keys, form):
    header = make_header(PROPERTIES, bcc_keys, form)
    changed = header.replace(headers={"c": ("I", 1)}, content_type=None).marked("mark")
    assert changed.properties == {"headers": {"c": ("I", 1)}, "delivery_mode": PERSISTENT}
    assert (list(changed.bcc_keys), changed.form) == (list(bcc_keys), form)
    assert (changed.mark, changed.is_kept, changed.as_persistent().mark) == ("mark", True, None)
    assert facts(read_stored(changed.stored)) == facts(changed)


@pytest.mark.parametrize("field", [("I", 1), ("A", []), ("A", [("S", "mqtt"), ("S", "text")])])
def test_a_header_of_this_name_that_is_no_form_stays(field):
    header = header_with(headers={"x-leveret-form": field})
    assert facts(read_stored(header.stored)) == facts(header)
    assert header.form is None


NO_KEYS = [
    ("I", 1), ("S", "key"), ("V", None), ("A", []), ("A", [("I", 1)]), ("F", {"a": ("I", 1)}),
]  # fmt: skip


@pytest.mark.parametrize("field", NO_KEYS)
def test_a_header_of_this_name_that_is_no_keys_stays(field):
    header = header_with(headers={"x-leveret-BCC": field})
    assert facts(read_stored(header.stored)) == facts(header)
    assert not header.bcc_keys
