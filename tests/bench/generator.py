"""Builds and runs the load generator, and builds the relay.

They are compiled for every run, which takes a second, in a directory that is deleted at the
end. A run is a child process that prints one JSON object; its CPU time is taken from the kernel
when the process ends, in the same way for any generator.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

SOURCE = Path(__file__).with_name("load.c")
RELAY_SOURCE = Path(__file__).with_name("relay.c")
TLS_FLAGS = ["-DWITH_TLS", "-lssl", "-lcrypto"]


class GeneratorFailed(Exception):
    """The load generator could not be built, or ended without a result."""


@dataclass(frozen=True)
class Outcome:
    """The output of a generator, and its CPU time."""

    result: dict[str, Any]
    cpu_seconds: float

    @property
    def cpu_us_per_message(self) -> float:
        """The generator's own cost per message, for sending and receiving it."""
        return self.cpu_seconds * 1e6 / max(1, int(self.result["consumed"]))


def build(source: Path, target: Path) -> Path:
    """Compile a C file and return the program; with TLS if OpenSSL's headers are installed."""
    compiler = shutil.which(os.environ.get("CC", "cc"))
    if compiler is None:
        raise GeneratorFailed("there is no C compiler: install one or name it in CC")
    command = [compiler, "-O2", "-std=gnu11", "-o", str(target), str(source)]
    for flags in (TLS_FLAGS, []):
        done = subprocess.run([*command, *flags], capture_output=True, text=True, check=False)
        if not done.returncode:
            return target
    raise GeneratorFailed(f"{source} does not compile:\n{done.stderr}")


def run(program: Path, arguments: Sequence[str]) -> Outcome:
    """Run a generator to its end."""
    with subprocess.Popen([str(program), *arguments], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        output = process.stdout.read()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise GeneratorFailed(f"{program.name} {' '.join(arguments)}: status {process.returncode}")
    return Outcome(json.loads(output), usage.ru_utime + usage.ru_stime)
