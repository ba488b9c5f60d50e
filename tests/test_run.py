"""What fails once is flaky; what fails twice, or a run that is not whole, fails the run."""

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

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

    def run_texts(*texts, arguments=("-n", "1")):
        (tmp_path / "pytest.ini").write_text("[pytest]\n")
        for number, text in enumerate(texts):
            (tmp_path / f"test_{number}.py").write_text(HEAD + textwrap.dedent(text))
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
