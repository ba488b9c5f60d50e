"""phash2: the numbers are those that Erlang/OTP 25 gives."""

from typing import Any

import pytest

from leveret.broker.amqp.field_table import Field
from leveret.broker.amqp.field_terms import table_term
from leveret.broker.erlang.phash2 import phash2
from leveret.broker.erlang.terms import Atom, String


@pytest.mark.parametrize(
    ("term", "expected"),
    [
        ([], 3468870702),
        ((), 221703996),
        (Atom("a"), 97),
        (Atom("undefined"), 180132084),
        (Atom("ä"), 228),
        (Atom("é€"), 1014476),
        (True, 506293),
        (False, 7111573),
        (0, 3175731469),
        (1, 539485162),
        (-1, 1117813597),
        (255, 715823293),
        (256, 3929335767),
        (2**27 - 1, 4273352567),
        (2**27, 2562491755),
        (-(2**27), 874979335),
        (-(2**27) - 1, 1418916782),
        (2**32, 2108323275),
        (-(2**32) - 1, 2980778612),
        (2**59, 2442888721),
        (2**63, 710941318),
        (-(2**63), 1736826119),
        (2**64 - 1, 321870806),
        (2**64, 2519041713),
        (0.0, 423528920),
        (-0.0, 423528920),
        (1.5, 2023646235),
        (-2.25, 2254282282),
        (1.0e300, 387524106),
        (b"", 147926629),
        ("a", 1589197455),
        (b"elevenbytes", 2322354142),
        (b"twelve bytes", 93359736),
        (b"more than twelve bytes, two blocks", 1859248473),
        ("ä", 4241643326),
        (String("abc"), 519996486),
        (String("abcd"), 1752753207),
        (String("abcde"), 2487089008),
        ([1, 2, Atom("a"), 3], 1247858882),
        ([256], 1684221134),
        ([Atom("a")], 1634476877),
        ((Atom("a"),), 2853905094),
        ((Atom("a"), Atom("b")), 1980325998),
        ([[]], 499070068),
        ([()], 4050867804),
        (("a", Atom("longstr"), "b"), 1607069062),
    ],
)
def test_a_term_has_the_hash_that_erlang_gives(term: Any, expected: int) -> None:
    assert phash2(term) == expected


@pytest.mark.parametrize(
    ("field", "expected"),
    [
        (("S", "b"), 673430984),
        (("I", 1), 2926729778),
        (("I", -5), 3168892464),
        (("I", -(2**31)), 3969942591),
        (("t", True), 1802062121),
        (("t", False), 2371499032),
        (("V", None), 972185960),
        (("d", 1.5), 3398307074),
        (("f", -0.25), 260843645),
        (("T", 1_700_000_000), 3135102134),
        (("l", 5_000_000_000), 2342884039),
        (("L", -(2**63)), 3568775212),
        (("s", -3), 2590746757),
        (("b", -7), 836905815),
        (("i", 2**32 - 1), 1744502433),
        (("u", 65535), 1381014948),
        (("B", 200), 3777025267),
        (("D", (2, 314)), 2016928084),
        (("x", b"\x00\xff\x80"), 1847037175),
        (("F", {}), 605878053),
        (("F", {"b": ("S", "c"), "d": ("I", 2)}), 1513992685),
        (("A", []), 2387373417),
        (("A", [("S", "c"), ("I", 2), ("A", [("t", True)])]), 2906894172),
    ],
)
def test_a_table_with_a_field_of_each_type_has_the_hash_that_erlang_gives(
    field: Field, expected: int
) -> None:
    assert phash2(table_term({"a": field})) == expected


def test_a_term_is_hashed_at_any_depth() -> None:
    term: Any = []
    for _ in range(5_000):
        term = [term]
    assert phash2(term) == 3919932524


def test_a_map_is_refused() -> None:
    with pytest.raises(TypeError, match="phash2 of dict"):
        phash2([{}])
