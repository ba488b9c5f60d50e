"""Field tables as JSON: what readers without AMQP's types see."""

import pytest

from leveret.broker.amqp.json_form import field_to_json, table_to_json, typed_table


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ((1, 15), 1.5),
        ((0, 2), 2.0),
        ((2, 1), 0.01),
        ((0, 2**32 - 1), 4294967295.0),
        ((255, 7), 7e-255),
    ],
)
def test_a_decimal_is_the_number_that_it_stands_for(value, shown):
    assert field_to_json(("D", value)) == shown


def test_decimals_are_numbers_in_tables_and_arrays_too():
    table = {"t": ("F", {"x": ("D", (2, 325))}), "l": ("A", [("D", (1, 15))])}
    assert table_to_json(table) == {"t": {"x": 3.25}, "l": [1.5]}
    assert typed_table({"d": ("D", (1, 15))}) == [["d", "decimal", 1.5]]
