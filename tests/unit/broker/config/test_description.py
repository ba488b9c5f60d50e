"""The documentation page that is generated from the declarations."""

from pathlib import Path

from leveret.broker.config import describe_settings

DOCUMENTATION = Path(__file__).parents[4] / "docs" / "operate" / "configuration.md"


def test_the_page_is_fresh() -> None:
    assert DOCUMENTATION.read_text() == describe_settings(), (
        "run: python -m leveret.broker.config > docs/operate/configuration.md"
    )


def test_no_cell_breaks_its_row() -> None:
    rows = [line for line in describe_settings().splitlines() if line.startswith("|")]
    assert {row.count("|") for row in rows} == {6}
