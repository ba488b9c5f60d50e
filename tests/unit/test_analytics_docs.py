"""docs/analytics.md describes the tables that there are."""

from pathlib import Path

from analytics.tables import describe_tables

DOCS = Path(__file__).resolve().parents[2] / "docs" / "analytics.md"


def test_the_list_of_tables_is_that_of_the_code():
    assert describe_tables() in DOCS.read_text(), "put describe_tables() into docs/analytics.md"
