"""Tables, CSV and JSON in rabbitmqctl's formats."""

import pytest

from leveret.mgmt.ctl import formatters
from leveret.mgmt.ctl.amqp_tables import AmqpTable
from leveret.mgmt.ctl.ip_addresses import IpAddress

ARGUMENTS = AmqpTable(
    [
        ["x-max-length", "signedint", 5],
        ["x-b", "bool", True],
        ["x-s", "longstr", 'a "b"'],
        ["x-t", "table", [["k", "array", [["long", 1], ["longstr", "é"], ["void", "undefined"]]]]],
        ["x-f", "double", 1.5],
    ]
)


def table(*rows, columns=("a", "b")):
    return list(formatters.table_lines(columns, rows))


def test_a_table_has_tabs_and_headers_only_above_rows():
    assert table((1, True), (None, ["x", "y"])) == ["a\tb", "1\ttrue", "\t[x, y]"]
    assert table() == []


def test_what_would_steer_a_terminal_is_shown_as_numbers():
    assert table(("\x1b[2J", "a\tb\nc"), columns=("n", "m"))[1] == "\\033[2J\ta\\tb\\012c"


def test_arguments_are_shown_as_erlang_writes_them():
    assert formatters.cell(ARGUMENTS) == (
        '[{"x-max-length",5},{"x-b",true},{"x-s","a \\"b\\""},'
        '{"x-t",[{"k",[1,"é",undefined]}]},{"x-f",1.5}]'
    )
    assert formatters.cell(AmqpTable()) == "[]"


def test_arguments_in_json_have_types():
    assert formatters.json_text({"arguments": ARGUMENTS}) == (
        '{"arguments":[["x-max-length","signedint",5],["x-b","bool",true],'
        '["x-s","longstr","a \\"b\\""],'
        '["x-t","table",[["k","array",[["long",1],["longstr","é"],["void","undefined"]]]]],'
        '["x-f","double",1.5]]}'
    )


def test_a_tuple_is_a_term_in_tables_and_a_list_in_json():
    protocol = (0, 9, 1)
    assert formatters.cell(protocol) == "{0,9,1}"
    assert list(formatters.json_rows(["p"], [[protocol]])) == ["[", '{"p":[0,9,1]}', "]"]


def test_csv_has_all_in_quotes():
    lines = list(formatters.csv_lines(("a", "b"), [('x "y", z', False)]))
    assert lines == ['"a","b"', '"x ""y"", z","false"']


def test_a_pretty_table_has_lines_around_it():
    lines = list(formatters.pretty_lines(("name", "n"), [("ümläut", 1), ("q", 22)]))
    assert lines[0] == "┌────────┬────┐"
    assert lines[3:] == ["│ ümläut │ 1  │", "├────────┼────┤", "│ q      │ 22 │", "└────────┴────┘"]


def test_amounts_have_four_digits():
    assert formatters.amount(89_288_704, "mb") == "89.2887 mb"
    assert formatters.amount(1024**2, "mib") == "1.0 mib"
    assert formatters.amount(12, "bytes") == "12 bytes"


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        ("127.0.0.1", "[127,0,0,1]"), ("::1", "[0,0,0,0,0,0,0,1]"),
        ("::ffff:127.0.0.1", "[0,0,0,0,0,65535,32512,1]"), ("unknown", '"unknown"'), ("", '""'),
    ],
)  # fmt: skip
def test_an_address_is_a_list_of_numbers_in_json_only(address, shown):
    assert formatters.json_text(IpAddress(address)) == shown
    assert formatters.cell(IpAddress(address)) == address
