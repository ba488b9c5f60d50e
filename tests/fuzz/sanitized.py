"""Runs tests.fuzz.run on a compiled build with the address sanitizer, where the compiler has it.

    python -m tests.fuzz.sanitized --frames 1000000 --records 1000000

The sources are copied to build/fuzz/checkout and compiled there, again only if one has changed.
Python's own memory comes from malloc, so that the sanitizer sees a read beyond the end of any
object. Without a sanitizer the compiled build runs as it is.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
DIRECTORY = ROOT / "build" / "fuzz"
CHECKOUT = DIRECTORY / "checkout"
FILES = ("setup.py", "mypyc.ini", "pyproject.toml", "README.md", "LICENSE", "leveret", "tests")
FLAGS = "-fsanitize=address -fno-omit-frame-pointer -g1"


def sanitizer() -> str | None:
    """The path of the sanitizer's library; None if this compiler has none."""
    compiler = os.environ.get("CC", "cc")
    if shutil.which(compiler) is None:
        sys.exit(f"there is no compiler {compiler!r}: the modules cannot be compiled")
    asked = [compiler, "-print-file-name=libasan.so"]
    path = subprocess.run(asked, capture_output=True, text=True, check=True).stdout.strip()
    return path if Path(path).is_absolute() else None


def copy_sources() -> None:
    """Copy what has changed. A copy keeps the time of its source, which compiling looks at."""
    folders = [path.name for path in (ROOT / "leveret").iterdir() if path.is_symlink()]
    for link in (CHECKOUT / "leveret").glob("*"):
        if link.is_symlink():
            link.unlink()
    ignored = shutil.ignore_patterns("__pycache__", "*.so")
    for name in (*FILES, *folders):
        source, copy = ROOT / name, CHECKOUT / name
        if source.is_dir():
            shutil.copytree(source, copy, symlinks=True, ignore=ignored, dirs_exist_ok=True)
        else:
            shutil.copy2(source, copy)


def main() -> None:
    """Compile, and become tests.fuzz.run with the same arguments."""
    CHECKOUT.mkdir(parents=True, exist_ok=True)
    copy_sources()
    library = sanitizer()
    flags = {"CFLAGS": FLAGS, "LDFLAGS": FLAGS} if library else {}
    environment = {**os.environ, "LEVERET_BUILD": "compiled", **flags}
    compiling = [sys.executable, "setup.py", "--quiet", "build_ext", "--inplace"]
    subprocess.run(compiling, cwd=CHECKOUT, env=environment, check=True)
    watching = {
        "LD_PRELOAD": library, "PYTHONMALLOC": "malloc",
        "ASAN_OPTIONS": "detect_leaks=0:abort_on_error=1",
    } if library else {}  # fmt: skip
    environment = {**os.environ, **watching, "PYTHONPATH": str(CHECKOUT), "PYTHONFAULTHANDLER": "1"}
    environment.pop("LEVERET_PURE", None)
    os.chdir(CHECKOUT)
    run = [sys.executable, "-m", "tests.fuzz.run", f"--directory={DIRECTORY}", *sys.argv[1:]]
    os.execve(sys.executable, run, environment)


if __name__ == "__main__":
    main()
