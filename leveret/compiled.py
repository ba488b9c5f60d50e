"""Which build of the message path runs: compiled modules, or their sources in pure Python.

A build with a C compiler (setup.py) puts a compiled module beside the source of each module of the
message path, and Python prefers it. `choose_build` has the sources used instead if the variable
LEVERET_PURE is set, which debuggers and profilers of Python need, or if the compiled modules of a
checkout are missing or older than their sources.
"""

import os
import sys
import sysconfig
import warnings
from importlib.machinery import SOURCE_SUFFIXES, FileFinder, SourceFileLoader
from pathlib import Path

PURE_VARIABLE = "LEVERET_PURE"
COMPILED, PURE = "compiled", "pure Python"

PACKAGE = Path(__file__).parent
SUFFIX: str = sysconfig.get_config_var("EXT_SUFFIX")
LIBRARY = PACKAGE / f"message_path__mypyc{SUFFIX}"
"""The library of all compiled modules."""


def build() -> str:
    """`COMPILED` or `PURE`: what this process runs."""
    return COMPILED if LIBRARY.exists() and _find_source not in sys.path_hooks else PURE


def choose_build() -> None:
    """Have the sources used if that is asked for, or if those of a checkout have changed."""
    is_checkout = (PACKAGE.parent / "pyproject.toml").exists()
    # Modules that are compiled later, while this process runs, do not suit the sources it has.
    if os.environ.get(PURE_VARIABLE) or (is_checkout and not LIBRARY.exists()):
        _use_sources()
        return
    changed = _changed_sources() if is_checkout else []
    if changed:
        warnings.warn(
            f"{changed[0]} is newer than the compiled modules, so pure Python is used; "
            "'make compile' compiles it",
            RuntimeWarning,
            stacklevel=2,
        )
        _use_sources()


def _changed_sources() -> list[Path]:
    """The sources of compiled modules that were written after these were compiled."""
    compiled_at = LIBRARY.stat().st_mtime
    compiled = PACKAGE.glob(f"*/**/*{SUFFIX}")
    sources = [path.with_name(path.name.removesuffix(SUFFIX) + ".py") for path in compiled]
    return [path for path in sources if path.exists() and path.stat().st_mtime > compiled_at]


def _use_sources() -> None:
    """Import the modules of this package from their sources only."""
    sys.path_hooks.insert(0, _find_source)
    for path in tuple(sys.path_importer_cache):
        if path.startswith(str(PACKAGE)):
            del sys.path_importer_cache[path]


def _find_source(path: str) -> FileFinder:
    """A path hook (see `sys.path_hooks`). Raises ImportError for other directories."""
    if Path(path) != PACKAGE and PACKAGE not in Path(path).parents:
        raise ImportError(f"{path} is not part of leveret")
    if not os.path.isdir(path):
        raise ImportError(f"{path} is in a zip file, which has sources only")
    return FileFinder(path, (SourceFileLoader, SOURCE_SUFFIXES))
