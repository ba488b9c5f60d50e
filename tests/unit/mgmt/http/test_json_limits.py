"""What JSON may be converted: how deep, how many values, and how large as a field table."""

import pytest

from leveret.broker.amqp.field_table import NESTING_MAX, encode_table
from leveret.broker.amqp.json_tables import TABLE_BYTES_MAX, json_to_table
from leveret.mgmt.http.json_limits import TOO_DEEP, TOO_LARGE, TOO_MANY, VALUES_MAX, refusal_of


def nested(depth):
    content = []
    for _ in range(depth - 1):
        content = [content]
    return content


def test_lists_may_be_nested_as_deeply_as_in_a_field_table():
    assert refusal_of(nested(NESTING_MAX)) is None
    assert refusal_of(nested(NESTING_MAX + 1)) == TOO_DEEP


@pytest.mark.parametrize("make", [
    lambda count: [0] * count,
    lambda count: {str(number): None for number in range(count)},
    lambda count: {"a": [[1]] * (count // 2)},
], ids=["a list", "an object", "lists of one"])  # fmt: skip
def test_values_are_counted_wherever_they_are(make):
    assert refusal_of(make(VALUES_MAX - 10)) is None
    assert refusal_of(make(VALUES_MAX + 10)) == TOO_MANY


@pytest.mark.parametrize("integer", [10**1000, -(10**1000), 10**4000])
def test_an_integer_has_at_most_1000_digits(integer):
    for content in ([integer], {"a": [{"b": integer}]}):
        assert refusal_of(content) == TOO_LARGE
    assert refusal_of([10**1000 - 1, 1 - 10**1000, True, 1e300]) is None


def test_a_long_text_is_one_value():
    assert refusal_of({"payload": "," * 10 * VALUES_MAX}) is None


def test_counting_ends_when_there_are_too_many():
    class Counted(list):
        looked_at = 0

        def __iter__(self):
            Counted.looked_at += 1
            return super().__iter__()

    assert refusal_of([Counted([1]) for _ in range(3 * VALUES_MAX)]) == TOO_MANY
    assert Counted.looked_at == 0


def test_a_table_fits_in_a_frame_of_128_kilobytes_with_the_other_properties():
    size = TABLE_BYTES_MAX - len(encode_table({"a": ("S", "")}))
    assert json_to_table({"a": "x" * size}) == {"a": ("S", "x" * size)}
    with pytest.raises(ValueError, match=f"at most {TABLE_BYTES_MAX} bytes"):
        json_to_table({"a": "x" * (size + 1)})


def test_a_key_has_at_most_255_bytes():
    assert json_to_table({"k" * 255: 1})
    with pytest.raises(ValueError, match="at most 255 bytes"):
        json_to_table({"a": {"k" * 256: 1}})
