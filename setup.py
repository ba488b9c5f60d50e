"""Builds the message path as compiled modules where there is a compiler, and as Python otherwise.

Everything else about the package is in pyproject.toml. mypyc compiles the modules listed there
(`tool.leveret.compiled`) from the sources as they are; leveret/compiled.py says which build runs.
`make compile` compiles in place. The variable LEVERET_BUILD chooses: `compiled` fails without a
compiler, `pure` compiles nothing.
"""

import io
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tomllib
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

BUILD_VARIABLE = "LEVERET_BUILD"
GROUP = "leveret.message_path"
"""All compiled modules are in one library, leveret/message_path__mypyc."""
LINKED_TOGETHER = ["-fvisibility=hidden", "-fno-semantic-interposition", "-fno-plt"]
"""Compiled modules call each other and their own functions directly, and small ones are inlined:
1 to 14% of a message's time in pairs of runs (docs/reference/performance.md)."""
DEBUGGED = "-g"
"""In CFLAGS it has information for debuggers made, such as the lines of the C sources."""
OPTIMIZED = re.compile(r"-O([0-3])\b")
"""In CFLAGS it has less optimised modules made, in half of the compiler's time without any."""
DESCRIBING = {"egg_info", "dist_info", "sdist"}
"""Commands that need no compiled modules: pip runs two of them before it builds a wheel."""
TARGET = "build/mypyc"
"""Where the C sources are written."""
MODULE_SOURCE = "__native_leveret___"
"""In the names of C sources of modules; the others are mypyc's own."""
JOINED_BYTES = 1_000_000
"""About the size of the files that are compiled if they are not optimised."""


def why_not_compiled() -> str:
    """What this machine lacks to compile extensions of Python; empty if it can."""
    if sys.implementation.name != "cpython":
        return f"{sys.implementation.name} has no extensions of CPython"
    compiler = (os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc").split()[0]
    if shutil.which(compiler) is None:
        return f"there is no C compiler ({compiler})"
    headers = sysconfig.get_path("include")
    if not Path(headers, "Python.h").is_file():
        return f"{headers} has no Python.h: install the headers of Python (in Debian python3-dev)"
    # A compiler may be there without the headers of the C library.
    done = subprocess.run(
        [compiler, "-fsyntax-only", "-I", headers, "-x", "c", "-"],
        input="#include <Python.h>\n", capture_output=True, text=True, check=False,
    )  # fmt: skip
    reason = next(iter(done.stderr.strip().splitlines()), "")
    return f"{compiler} cannot use Python.h: {reason}" if done.returncode else ""


def extensions() -> list[Extension]:
    """The compiled modules; none for a build in pure Python, and where nothing is built."""
    if DESCRIBING.intersection(sys.argv[1:]):
        return []
    wanted = os.environ.get(BUILD_VARIABLE, "")
    if wanted not in ("", "compiled", "pure"):
        sys.exit(f"{BUILD_VARIABLE}={wanted}: expected 'compiled' or 'pure'")
    if wanted == "pure":
        return []
    reason = why_not_compiled()
    if reason:
        if wanted == "compiled":
            sys.exit(f"{BUILD_VARIABLE}=compiled: {reason}")
        print(f"The message path is not compiled, and runs in Python: {reason}", file=sys.stderr)
        return []
    with Path("pyproject.toml").open("rb") as file:
        modules = tomllib.load(file)["tool"]["leveret"]["compiled"]
    sources = [f"{name.replace('.', '/')}.py" for name in modules]
    made = _to_c(["--config-file", "mypyc.ini", *sources])
    for extension in made:
        # mypyc writes the headers of a group whose name has a dot to a folder of their own.
        extension.include_dirs.append(f"{TARGET}/leveret")
        # Its extensions share one list of arguments, so it is replaced and not added to.
        extension.extra_compile_args = [*extension.extra_compile_args, *LINKED_TOGETHER]
        if _opt_level() == "0":
            extension.sources = _joined(extension.sources)
    return made


def _opt_level() -> str:
    return (OPTIMIZED.findall(os.environ.get("CFLAGS", "")) or ["3"])[-1]


def _joined(sources: list[str]) -> list[str]:
    """Write files that include several C sources of modules each; return them and other sources.

    Without optimisation, the compiler spends a quarter of its time on the 2 MB of headers of each.
    Names of all modules differ, since mypyc writes them to one file if it is not told otherwise.
    """
    sizes = {path: Path(path).stat().st_size for path in sources if MODULE_SOURCE in path}
    files: list[list[str]] = [[] for _ in range(-(-sum(sizes.values()) // JOINED_BYTES))]
    for path in sorted(sizes, key=sizes.__getitem__, reverse=True):
        min(files, key=lambda joined: sum(map(sizes.__getitem__, joined))).append(path)
    made = []
    for number, paths in enumerate(files):
        joined = Path(TARGET, f"joined_{number}.c")
        joined.write_text("".join(f'#include "{Path(path).name}"\n' for path in paths))
        made.append(str(joined))
    return [*made, *(path for path in sources if path not in sizes)]


def _to_c(arguments: list[str]) -> list[Extension]:
    """Write the C sources. mypyc's remarks on speed are shown only if it fails."""
    from mypyc.build import mypycify  # noqa: PLC0415, needed for a compiled build only

    printed = io.StringIO()
    flags = os.environ.get("CFLAGS", "")
    # It takes 18% of the compiler's time. Tracebacks, and the names of functions, do not need it.
    debug_level = "1" if DEBUGGED in flags else "0"
    try:
        with redirect_stdout(printed):
            return mypycify(
                arguments, opt_level=_opt_level(), debug_level=debug_level, multi_file=True,
                group_name=GROUP, target_dir=TARGET,
            )  # fmt: skip
    except BaseException:
        print(printed.getvalue(), file=sys.stderr)
        raise


def _counted(made: Iterable[list[str]], count: int) -> Iterator[list[str]]:
    """Show on a terminal how many sources are compiled."""
    for number, paths in enumerate(made, 1):
        if sys.stderr.isatty():
            print(f"\r{number} of {count} files", end="", file=sys.stderr, flush=True)
        yield paths
    if sys.stderr.isatty():
        print(file=sys.stderr)


class ParallelBuild(build_ext):
    """Compiles sources on all processors; setuptools compiles one after another."""

    def build_extension(self, extension: Extension) -> None:
        """Build one library."""
        compile_all = self.compiler.compile

        def compile_each(sources: list[str], **options: Any) -> list[str]:
            with ThreadPoolExecutor(os.cpu_count()) as threads:
                made = threads.map(lambda source: compile_all([source], **options), sources)
                return [path for paths in _counted(made, len(sources)) for path in paths]

        self.compiler.compile = compile_each
        try:
            super().build_extension(extension)
        finally:
            self.compiler.compile = compile_all


setup(ext_modules=extensions(), cmdclass={"build_ext": ParallelBuild})
