"""Which build runs: compiled modules, or their sources."""

import os
import subprocess
import sys
import warnings

import pytest

from leveret import compiled
from tests.patience import PATIENCE_SECONDS


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A checkout with one compiled module, which was compiled after its source was written."""
    directory = tmp_path / "leveret"
    (directory / "part").mkdir(parents=True)
    (tmp_path / "pyproject.toml").touch()
    library = directory / f"library{compiled.SUFFIX}"
    for path in (directory / "part/module.py", library, module_of(directory)):
        path.touch()
    at(directory / "part/module.py", 1000)
    at(library, 2000)
    monkeypatch.setattr(compiled, "PACKAGE", directory)
    monkeypatch.setattr(compiled, "LIBRARY", library)
    monkeypatch.setattr(sys, "path_hooks", [])
    monkeypatch.delenv(compiled.PURE_VARIABLE, raising=False)
    return directory


def module_of(directory):
    return directory / f"part/module{compiled.SUFFIX}"


def at(path, seconds):
    os.utime(path, (seconds, seconds))


def choose():
    """Choose the build; returns it, and the warnings."""
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        compiled.choose_build()
    return compiled.build(), [str(one.message) for one in found]


def test_compiled_modules_are_used_where_they_are(package):
    assert choose() == (compiled.COMPILED, [])
    assert sys.path_hooks == []


def test_without_a_library_it_is_pure_python(package):
    compiled.LIBRARY.unlink()
    assert choose() == (compiled.PURE, [])


def test_modules_that_are_compiled_while_it_runs_are_not_used(package):
    compiled.LIBRARY.unlink()
    choose()
    compiled.LIBRARY.touch()
    assert compiled.build() == compiled.PURE
    (hook,) = sys.path_hooks
    assert hook(str(package / "part")).find_spec("module").origin == str(package / "part/module.py")


def test_the_variable_has_the_sources_used(package, monkeypatch):
    monkeypatch.setenv(compiled.PURE_VARIABLE, "1")
    assert choose() == (compiled.PURE, [])
    (hook,) = sys.path_hooks
    found = hook(str(package / "part")).find_spec("module")
    assert found.origin == str(package / "part/module.py")
    with pytest.raises(ImportError, match="not part of leveret"):
        hook(str(package.parent))
    with pytest.raises(ImportError, match="zip file, which has sources only"):
        hook(str(package / "leveret.zip/leveret"))


def test_a_source_that_is_newer_than_the_library_has_the_sources_used(package):
    at(package / "part/module.py", 3000)
    build, (warning,) = choose()
    assert build == compiled.PURE
    assert "part/module.py is newer than the compiled modules" in warning
    assert "'make compile' compiles it" in warning


def test_a_newer_source_that_is_not_compiled_does_not_matter(package):
    (package / "part/other.py").touch()
    assert choose() == (compiled.COMPILED, [])


def test_times_do_not_matter_where_the_package_is_installed(package):
    """A wheel's files have the time of their installation, in any order."""
    (package.parent / "pyproject.toml").unlink()
    at(package / "part/module.py", 3000)
    assert choose() == (compiled.COMPILED, [])


PRINTED = "from leveret import compiled; from leveret.broker.amqp import frames;"
PRINTED += "print(compiled.build(), frames.__file__)"


@pytest.mark.parametrize("chosen", ["", "1"])
def test_a_child_process_runs_the_build_that_its_environment_names(chosen):
    environment = {**os.environ, compiled.PURE_VARIABLE: chosen}
    output = subprocess.run(
        [sys.executable, "-c", PRINTED], env=environment, check=True,
        capture_output=True, text=True, timeout=PATIENCE_SECONDS,
    ).stdout  # fmt: skip
    is_pure = chosen or not compiled.LIBRARY.exists() or compiled._changed_sources()
    build, suffix = (compiled.PURE, ".py") if is_pure else (compiled.COMPILED, compiled.SUFFIX)
    assert output.startswith(build)
    assert output.rstrip().endswith(f"frames{suffix}")
