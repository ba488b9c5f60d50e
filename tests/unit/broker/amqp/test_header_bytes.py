"""Headers that are changed as bytes: the same as if the properties were decoded and encoded."""

from hypothesis import given, settings
from hypothesis import strategies as st

from leveret.broker.amqp.field_table import (
    decode_field,
    encode_field,
    encode_short_string,
)
from leveret.broker.amqp.header_bytes import HeaderBytes, NewFields, field_places, replace_fields
from leveret.broker.amqp.properties import decode_properties, encode_properties

NAMES = ("a", "CC", "x-death", "x-first-death-queue", "é")
texts = st.text(st.characters(codec="utf-8"), max_size=8)
fields = st.recursive(
    st.one_of(
        st.tuples(st.just("S"), texts),
        st.tuples(st.just("l"), st.integers(-(2**63), 2**63 - 1)),
        st.tuples(st.just("t"), st.booleans()),
        st.just(("V", None)),
        st.tuples(st.just("x"), st.binary(max_size=8)),
        st.tuples(st.just("D"), st.tuples(st.integers(0, 255), st.integers(0, 2**32 - 1))),
    ),
    lambda inner: st.one_of(
        st.tuples(st.just("A"), st.lists(inner, max_size=3)),
        st.tuples(st.just("F"), st.dictionaries(texts, inner, max_size=3)),
    ),
    max_leaves=5,
)
headers = st.dictionaries(st.sampled_from(NAMES), fields, max_size=4)
properties = st.fixed_dictionaries(
    {},
    optional={
        "content_type": texts, "content_encoding": texts, "headers": headers,
        "delivery_mode": st.integers(0, 255), "priority": st.integers(0, 255),
        "correlation_id": texts, "reply_to": texts, "expiration": texts, "message_id": texts,
        "timestamp": st.integers(0, 2**64 - 1), "type": texts, "user_id": texts, "app_id": texts,
        "cluster_id": texts,
    },
)  # fmt: skip


@settings(max_examples=100, deadline=None)
@given(properties, st.dictionaries(st.sampled_from(NAMES), st.none() | fields, max_size=3))
def test_changed_fields_are_those_of_a_table_that_is_decoded_changed_and_encoded(before, changes):
    found = HeaderBytes(encode_properties(before))
    names = frozenset(encode_short_string(name) for name in changes)
    values = {
        encode_short_string(name): b"" if field is None else encode_field(field)
        for name, field in changes.items()
    }
    changed = replace_fields(found.fields, field_places(found.fields, names), values)
    wanted = {**before.get("headers", {}), **changes}
    wanted = {name: field for name, field in wanted.items() if field is not None}
    after = decode_properties(found.with_fields(changed))
    others = {name: value for name, value in before.items() if name != "expiration"}
    assert after == {**others, "headers": wanted}
    assert list(after["headers"]) == list(wanted)
    text = before.get("expiration")
    assert found.expiration == (None if text is None else text.encode())


def test_of_several_fields_with_one_name_the_first_is_found():
    first, second = (encode_short_string("a") + encode_field(("S", text)) for text in ("1", "2"))
    places = field_places(first + second, frozenset([encode_short_string("a")]))
    ((_, letter_at, end),) = places.values()
    assert decode_field((first + second)[letter_at:end]) == ("S", "1")


@settings(max_examples=100, deadline=None)
@given(properties, headers)
def test_new_fields_are_behind_the_others_unless_a_message_has_one_of_their_names(before, new):
    fields = b"".join(encode_short_string(name) + encode_field(new[name]) for name in new)
    raw = NewFields(new).added(encode_properties(before), fields)
    present = before.get("headers", {})
    if present.keys() & new.keys():
        assert raw is None
        return
    after = decode_properties(raw)
    assert after == {**before, "headers": {**present, **new}}
    assert list(after["headers"]) == [*present, *new]
