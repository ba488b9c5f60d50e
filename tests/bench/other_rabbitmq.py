"""Another version of RabbitMQ, in the directory tree of another system, for rows of clusters.

The variable BENCH_RABBITMQ_ROOT names the root, for example of Debian 13 with RabbitMQ 4.0:

    debootstrap --variant=minbase --include=ca-certificates trixie ROOT
    ln -s /bin/false ROOT/usr/sbin/policy-rc.d          # so that the package starts no broker
    mount --bind /proc ROOT/proc; mount --bind /dev ROOT/dev
    chroot ROOT apt-get -o APT::Sandbox::User=root update
    chroot ROOT apt-get install -y --no-install-recommends rabbitmq-server

Its nodes run in this root as root, with directories below ROOT/srv, which are removed at the end.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

VARIABLE = "BENCH_RABBITMQ_ROOT"
NAME = "rabbitmq-4"
PROGRAM = Path("/usr/lib/rabbitmq/bin/rabbitmq-server")
"""Not the wrapper in /usr/sbin, which changes the user."""
PATHS = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def root_of_other() -> Path | None:
    """The root that the variable names; None if it is not set."""
    named = os.environ.get(VARIABLE, "")
    return Path(named).resolve() if named else None


def moved(root: Path, home: Path, environment: dict[str, str]) -> tuple[list[str], dict[str, str]]:
    """The command and environment of a node whose home is below another root.

    Its files refer to each other as seen from there. Mirrors do not exist from RabbitMQ 4.0 on.
    """
    inside = {name: value.replace(str(root), "") for name, value in environment.items()}
    inside["PATH"] = PATHS
    config = home / "rabbitmq.conf"
    config.write_text(config.read_text().replace(str(root), ""))
    definitions = home / "definitions.json"
    found = json.loads(definitions.read_text())
    found["policies"] = [one for one in found["policies"] if "ha-mode" not in one["definition"]]
    definitions.write_text(json.dumps(found))
    words = [f"{name}={value}" for name, value in inside.items()]
    return ["chroot", str(root), "env", "-i", *words, str(PROGRAM)], dict(os.environ)
