"""What fails once is flaky; what fails twice, or a run that is not whole, fails the run."""

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from tests.parts import options, read_parts

ROOT = Path(__file__).resolve().parents[1]
HEAD = """
import os
import signal
from pathlib import Path

import pytest


def is_first(name):
    path = Path(f"seen-{name}")
    was_seen = path.exists()
    path.touch()
    return not was_seen
"""


@pytest.fixture
def run(tmp_path):
    """Runs tests of these texts; returns the exit code, the output and the file of flaky tests."""

    def run_texts(*texts, arguments=("-n", "1"), files=None):
        (tmp_path / "pytest.ini").write_text("[pytest]\n")
        files = files or {f"test_{number}.py": text for number, text in enumerate(texts)}
        for name, text in files.items():
            (tmp_path / name).parent.mkdir(exist_ok=True)
            (tmp_path / name).write_text(HEAD + textwrap.dedent(text))
        # Plugins that these tests do not need take a second to import.
        environment = {
            **os.environ, "PYTHONPATH": str(ROOT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
            "PYTEST_PLUGINS": "xdist.plugin",
        }  # fmt: skip
        done = subprocess.run(
            [sys.executable, "-m", "tests.run", "--flaky", "out/flaky.txt", *arguments],
            cwd=tmp_path, env=environment, capture_output=True, text=True, check=False,
        )  # fmt: skip
        flaky = tmp_path / "out" / "flaky.txt"
        return done.returncode, done.stdout, flaky.read_text() if flaky.exists() else ""

    return run_texts


def test_what_passes_alone_is_flaky(run):
    code, output, flaky = run(
        """
        def test_before():
            pass

        def test_once():
            print("it runs")
            assert not is_first("once"), "not this time"

        @pytest.fixture
        def one():
            yield 1
            assert not is_first("fixture"), "not at its end"

        @pytest.mark.parametrize("value", ["a b::c[/]"])
        def test_fixture(one, value):
            pass

        def test_crash():
            if is_first("crash"):
                os.kill(os.getpid(), signal.SIGKILL)
        """
    )
    assert code == 0
    assert "not this time" in flaky
    assert "after test_0.py::test_before" in flaky
    assert "not at its end" in flaky
    assert "crashed while running 'test_0.py::test_crash'" in flaky
    assert flaky.count("\nit runs\n") == 2
    assert [line.split()[1] for line in output.splitlines() if line.startswith("FLAKY ")] == [
        "test_0.py::test_once:", "test_0.py::test_fixture[a", "test_0.py::test_crash:",
    ]  # fmt: skip


def test_what_fails_again_fails_the_run(run):
    code, output, flaky = run(
        """
        def test_once():
            assert not is_first("once")

        def test_always():
            assert False, "never"

        def test_crash():
            os._exit(0)

        def test_skips_later():
            assert not is_first("skips")
            pytest.skip("not alone")
        """
    )
    assert code == 1
    assert "test_once" in flaky
    assert flaky.count("FLAKY") == 1
    assert output.splitlines()[-3:] == [
        "FAILED test_0.py::test_always: in the run and alone",
        "FAILED test_0.py::test_crash: in the run and alone",
        "FAILED test_0.py::test_skips_later: in the run and alone",
    ]


def test_a_run_that_passes_is_over(run):
    code, output, flaky = run("def test_passes(): pass")
    assert (code, flaky) == (0, "")
    assert "1 passed" in output.splitlines()[-1]


FAILS_ONCE = "def test_once(): assert not is_first('once')\n"


@pytest.mark.parametrize(
    ("texts", "arguments"),
    [
        ((FAILS_ONCE, "import nothing_of_this_name"), ("-n", "1")),
        ((FAILS_ONCE, "def test_end(): raise KeyboardInterrupt"), ()),
        ((FAILS_ONCE, "def test_end(): pytest.exit('it is over')"), ()),
        ((FAILS_ONCE, "def test_more(): pass"), ("-x",)),
        (
            (FAILS_ONCE, "def test_crash(): os._exit(1)", "def test_more(): pass"),
            ("-n", "1", "--max-worker-restart", "0"),
        ),
        (("pass",), ()),
        ((FAILS_ONCE, "@pytest.mark.parametrize('n', range(90))\ndef test(n): assert 0"), ()),
        ((FAILS_ONCE,), ("--no-such-option",)),
    ],
    ids=["import", "interrupt", "exit", "first-failure", "crashes", "no-test", "many", "usage"],
)
def test_a_run_that_is_not_whole_is_not_mended_by_another(run, texts, arguments):
    code, output, flaky = run(*texts, arguments=arguments)
    assert code != 0
    assert "it is run again alone" not in output
    assert flaky == ""


PARTS = """
[slow]
workers = 1
paths = ["slow", "others/test_slow.py"]

[others]
workers = 2
paths = ["."]
"""


# Each writes down its process, and fails if another one runs it, too.
RUNS = """
@pytest.mark.parametrize("number", range({count}))
def test(number):
    with open(f"{{__name__}}-{{number}}.ran", "x") as file:
        file.write(str(os.getppid()))
"""


@pytest.fixture
def run_parts(run, tmp_path):
    """Runs files of tests in the parts above; returns what `run` does."""

    def run_files(files, *arguments):
        (tmp_path / "parts.toml").write_text(PARTS)
        files = {"others/test_slow.py": RUNS.format(count=1), **files}
        return run(files=files, arguments=("--parts", "parts.toml", *arguments))

    return run_files


def summary(output):
    """For each part its exit code and how many tests failed."""
    lines = output.splitlines()
    (first,) = (at for at, line in enumerate(lines) if line.startswith("part "))
    return {line.split()[0]: line.split()[-2:] for line in lines[first + 1 : first + 3]}


def test_each_test_runs_once_in_its_part(run_parts, tmp_path):
    code, output, _ = run_parts({
        "slow/test_one.py": RUNS.format(count=2), "others/test_two.py": RUNS.format(count=3),
        "new/test_three.py": RUNS.format(count=4), "test_four.py": RUNS.format(count=1),
    })  # fmt: skip
    assert code == 0
    assert summary(output) == {"slow": ["0", "OK"], "others": ["0", "OK"]}
    assert "3 passed" in output
    assert "8 passed" in output
    processes = {path.name: path.read_text() for path in tmp_path.glob("*.ran")}
    assert len(processes) == 11
    slow = {by for name, by in processes.items() if "one" in name or "slow" in name}
    others = {by for name, by in processes.items() if "one" not in name and "slow" not in name}
    assert len(slow) == len(others) == 1
    assert slow != others


def test_failures_of_all_parts_are_run_again_when_all_have_ended(run_parts):
    code, output, flaky = run_parts({
        "slow/test_one.py": FAILS_ONCE, "test_two.py": FAILS_ONCE.replace("'once'", "'two'"),
        "test_three.py": "def test_always(): assert False",
    })  # fmt: skip
    assert code == 1
    assert summary(output) == {"slow": ["1", "TESTS_FAILED"], "others": ["2", "TESTS_FAILED"]}
    assert output.index("part ") < output.index("it is run again alone (1 of 3)")
    assert flaky.count("FLAKY: ") == 2
    assert output.splitlines()[-1] == "FAILED test_three.py::test_always: in the run and alone"


@pytest.mark.parametrize(
    ("text", "ended"),
    [("import nothing_of_this_name", "INTERRUPTED"), ("os._exit(9)", "9"),
     ("os.abort()", "INTERNAL_ERROR"),
     ("def test_end(): pytest.exit('it is over')", "INTERRUPTED")],
    ids=["import", "end", "abort", "exit"],
)  # fmt: skip
def test_a_part_that_is_not_whole_is_not_mended_by_another(run_parts, text, ended):
    code, output, flaky = run_parts(
        {"slow/test_one.py": text, "test_two.py": FAILS_ONCE}, "-n", "0"
    )
    assert code != 0
    assert summary(output) == {"slow": ["0", ended], "others": ["1", "TESTS_FAILED"]}
    assert "it is run again alone" not in output
    assert flaky == ""
    assert ("the process of this part was ended by SIGABRT" in output) == ("abort" in text)


def test_a_part_without_tests_to_run_says_nothing(run_parts):
    files = {"slow/test_one.py": FAILS_ONCE, "test_two.py": "def test_two(): pass"}
    assert run_parts(files, "-k", "two")[0] == 0
    assert run_parts(files, "-k", "three")[0] == pytest.ExitCode.NO_TESTS_COLLECTED


@pytest.mark.parametrize("name", ["parts.toml", "pure_parts.toml"])
def test_the_paths_of_parts_exist(name):
    for part in read_parts(ROOT / "tests" / name):
        assert [path for path in part.paths if not (ROOT / path).exists()] == []


def test_each_file_of_tests_is_in_one_part():
    parts = read_parts(ROOT / "tests" / "parts.toml")
    ignored = [one for part in parts for one in options(part, parts) if one.startswith("--ignore")]
    (rest,) = (part for part in parts if "tests" in part.paths)
    assert {path for part in parts if part is not rest for path in part.paths} == {
        one.removeprefix("--ignore=") for one in ignored
    }
