"""docs/reference/analytics-tables.md is the description of the tables in the code."""

from pathlib import Path

from leveret.analytics.tables.description import KEYS, page
from leveret.analytics.tables.tables import TABLES

DOCS = Path(__file__).resolve().parents[2] / "docs" / "reference" / "analytics-tables.md"
MAKE = f"python -m leveret.analytics.tables.description > {DOCS}"


def test_the_page_of_the_tables_is_current():
    assert page() == DOCS.read_text(), f"run: {MAKE}"


def test_each_table_has_its_key():
    assert list(KEYS) == [table.name for table in TABLES]
    for table in TABLES:
        names = {column.name for column in table.columns} | {"date"}
        assert set(KEYS[table.name]) <= names, table.name
