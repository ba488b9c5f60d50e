"""The pages' own rules: short lines and files, no unused imports, nothing from elsewhere."""

import re
from pathlib import Path

import pytest

DIRECTORY = Path(__file__).parents[3] / "mgmt" / "ui"
SCRIPTS = sorted(DIRECTORY.rglob("*.js"))
LINES_MAX = 500
WIDTH_MAX = 100
IMPORT = re.compile(r"^import \{([^}]*)\}\s*from", re.MULTILINE)
LOADED = re.compile(r"""(?:from|import|src=|url\()\s*["'(]?(https?:)?//""")


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.relative_to(DIRECTORY).as_posix())
def test_a_script_is_short_and_uses_what_it_imports(path):
    text = path.read_text("utf-8")
    lines = text.splitlines()
    assert len(lines) <= LINES_MAX
    assert [line for line in lines if len(line) > WIDTH_MAX] == []
    assert lines[0].startswith("// "), "a script opens with what it does"
    names = [name.strip() for group in IMPORT.findall(text) for name in group.split(",")]
    assert [name for name in names if len(re.findall(rf"\b{name}\b", text)) < 2] == []


def test_nothing_is_loaded_from_another_server():
    texts = {path.name: path.read_text("utf-8") for path in DIRECTORY.rglob("*.[chj]*")}
    assert [name for name, text in texts.items() if LOADED.search(text)] == []
