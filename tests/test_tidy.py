"""Code rules that no linter checks: sizes, docstrings, leftovers."""

import ast
import re
import subprocess
import tomllib
from importlib import metadata
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("leveret", "broker", "storage", "cluster", "mgmt", "analytics")
FOLDERS = PACKAGES[1:]
PAGES = sorted((ROOT / "docs").glob("*.md"))
PRINTING = ("mgmt", "analytics")
LINE_MAX, FILE_LINES_MAX, FUNCTION_LINES_MAX = 100, 500, 70

# Written so that this file does not contain what it forbids.
LEFTOVERS = re.compile(r"T[O]DO|F[I]XME|X[X]X")
MACHINE_PATHS = re.compile(r"(?<![\w}])/w[o]rk/|/t[m]p/w|/h[o]me/[a-z]")
IMPORT_OF_A_FOLDER = re.compile(rf"^\s*(from|import) ({'|'.join(FOLDERS)})\b")
TIME_LIMIT = re.compile(
    r"assert .*\b(monotonic|perf_counter|process_time|thread_time)\(\)(?!.*(deadline|PATIENCE))"
)
PACKED = {".whl", ".gz", ".bz2", ".xz", ".zip", ".tar", ".deb", ".jar", ".so", ".pyc"}
LINTER_REMARK = re.compile(r"  # noqa.*")


def tracked():
    """Return the Python files in the repository, or all files if it is not a repository."""
    folders = (*PACKAGES, "tests")
    patterns = [f"{folder}/*.py" for folder in folders]
    try:
        command = ["git", "ls-files", "--", *patterns]
        listing = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
        names = listing.stdout.splitlines()
    except (OSError, subprocess.CalledProcessError):
        names = []
    if not names:
        found = (path for folder in folders for path in (ROOT / folder).rglob("*.py"))
        names = [path.relative_to(ROOT).as_posix() for path in found]
    return sorted(name for name in names if (ROOT / name).exists())


def every_tracked():
    """Return all files of the repository, or those beside this project's if it is not one."""
    command = ["git", "ls-files"]
    listing = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    names = listing.stdout.splitlines() or [path.name for path in ROOT.iterdir() if path.is_file()]
    return [ROOT / name for name in names if (ROOT / name).is_file()]


FILES = tracked()
OURS = [name for name in FILES if name.startswith(PACKAGES)]
every_file = pytest.mark.parametrize("name", FILES)


def lines_of(name):
    """Return numbered lines."""
    return list(enumerate((ROOT / name).read_text(encoding="utf-8").splitlines(), 1))


def found_in(name, pattern):
    """Return the lines that match, for the message."""
    return [f"{name}:{number}: {line}" for number, line in lines_of(name) if pattern.search(line)]


def test_no_archive_or_program_is_in_the_repository():
    assert [path.name for path in every_tracked() if path.suffix in PACKED] == []


def test_there_are_files():
    assert "broker/amqp/frames.py" in FILES
    assert len(OURS) > 50


@every_file
def test_lines_are_short(name):
    long = [
        f"{name}:{number}"
        for number, line in lines_of(name)
        if len(LINTER_REMARK.sub("", line)) > LINE_MAX
    ]
    assert not long, f"longer than {LINE_MAX} characters: {', '.join(long)}"


@every_file
def test_files_are_short(name):
    assert len(lines_of(name)) <= FILE_LINES_MAX, f"{name} has more than {FILE_LINES_MAX} lines"


@every_file
def test_functions_are_short(name):
    long = [
        f"{name}:{node.lineno}: {node.name}"
        for node in ast.walk(ast.parse((ROOT / name).read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and (node.end_lineno or 0) - node.lineno + 1 > FUNCTION_LINES_MAX
    ]
    assert not long, f"longer than {FUNCTION_LINES_MAX} lines: {', '.join(long)}"


@every_file
def test_every_module_says_what_it_is(name):
    assert ast.get_docstring(ast.parse((ROOT / name).read_text(encoding="utf-8"))), name


@every_file
def test_nothing_is_left_for_later(name):
    assert not found_in(name, LEFTOVERS)


@every_file
def test_no_test_fails_for_being_slow(name):
    """Tests wait for conditions, as long as tests/patience.py says. Speed is for tests/bench."""
    assert found_in(name, TIME_LIMIT) == []


@every_file
def test_no_file_knows_the_machine_it_was_written_on(name):
    assert not found_in(name, MACHINE_PATHS)


def imported_names(name):
    """Return the modules that a file imports, with line numbers."""
    for node in ast.walk(ast.parse((ROOT / name).read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level:
            yield node.lineno, node.module or ""


@every_file
def test_everything_is_imported_as_leveret(name):
    """A module that is imported under two names exists twice."""
    wrong = [
        f"{name}:{number}: {module}"
        for number, module in imported_names(name)
        if module.partition(".")[0] in FOLDERS
    ]
    assert not wrong, f"import it from leveret: {', '.join(wrong)}"


@pytest.mark.parametrize("name", ["README.md", *(f"docs/{path.name}" for path in PAGES)])
def test_the_documents_import_leveret(name):
    assert not found_in(name, IMPORT_OF_A_FOLDER)


@pytest.mark.parametrize("name", [name for name in OURS if not name.startswith(PRINTING)])
def test_the_broker_logs_and_does_not_print(name):
    calls = [
        f"{name}:{node.lineno}"
        for node in ast.walk(ast.parse((ROOT / name).read_text(encoding="utf-8")))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id == "print"
    ]
    assert not calls, ", ".join(calls)


def test_lower_bounds_of_dependencies_are_of_the_major_versions_that_are_tested():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    untested = []
    for requirement in project["dependencies"]:
        name, bound = re.fullmatch(r"([\w-]+)>=([\d.]+)", requirement).groups()
        installed = metadata.version(name)
        numbers, lowest = ([int(part) for part in re.findall(r"\d+", one)] for one in
                           (installed, bound))  # fmt: skip
        if numbers < lowest or numbers[0] != lowest[0]:
            untested.append(f"{requirement}, tested with {installed}")
    assert untested == []
