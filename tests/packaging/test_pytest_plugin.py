"""The pytest plugin, which every test run of an environment loads, costs nothing if unused."""

import os
import subprocess
import sys

from tests.patience import PATIENCE_SECONDS

CONFTEST = """
import sys

def pytest_sessionfinish(session):
    print("\\nimported:", *sys.modules)
"""
SLOW = ("asyncio", "leveret.broker", "leveret.storage", "leveret.testing", "uvloop")


def run_pytest(directory, *options):
    """Run pytest in a directory with Leveret's plugin only; returns its output."""
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "leveret.pytest_plugin", *options],
        env={**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTEST_ADDOPTS": ""},
        cwd=directory, capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False,
    ).stdout  # fmt: skip


def modules_imported(directory, *options):
    """Return the modules that a run of pytest in a directory imports."""
    (directory / "conftest.py").write_text(CONFTEST)
    output = run_pytest(directory, *options)
    [line] = [line for line in output.splitlines() if line.startswith("imported:")]
    return set(line.split())


def test_collecting_an_empty_project_does_not_import_the_broker(tmp_path):
    imported = modules_imported(tmp_path, "--collect-only")
    assert "leveret.pytest_plugin" in imported
    assert not imported.intersection(SLOW)


def test_a_test_that_uses_a_fixture_imports_it(tmp_path):
    (tmp_path / "test_url.py").write_text("def test_url(amqp_url): assert amqp_url")
    assert modules_imported(tmp_path) >= {"leveret.broker", "leveret.testing"}


def test_the_fixtures_are_listed(tmp_path):
    listed = run_pytest(tmp_path, "--fixtures")
    for name in ("broker", "url", "virtual_clock_broker", "stream_broker"):
        assert f"amqp_{name} -- " in listed
    for name in ("broker_options", "session_broker"):
        assert f"amqp_{name} [session scope] -- " in listed
    assert "async_amqp" not in listed, "they need pytest-asyncio, which is not loaded here"


def test_the_fixtures_for_asyncio_are_listed_where_pytest_asyncio_is_used(tmp_path):
    listed = run_pytest(tmp_path, "-p", "pytest_asyncio.plugin", "--fixtures")
    for name in (
        "async_amqp_broker",
        "async_amqp_virtual_clock_broker",
        "async_amqp_stream_broker",
    ):
        assert f"{name} -- " in listed
