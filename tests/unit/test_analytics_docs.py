"""docs/operate/analytics.md contains the description of all tables."""

from pathlib import Path

from leveret.analytics.tables.tables import describe_tables

DOCS = Path(__file__).resolve().parents[2] / "docs" / "operate" / "analytics.md"


def test_the_list_of_tables_is_that_of_the_code():
    assert describe_tables() in DOCS.read_text(), f"put describe_tables() into {DOCS}"
