"""`leveret serve`: its options, and its message about a node that cannot start.

It is started without typer and rich: they would take a fifth of the time until a node is ready, and
8 MB of its memory (docs/reference/performance.md).
"""

import argparse
import os
import sys
from pathlib import Path
from typing import NoReturn

from leveret.broker.auth.backends.chain import BackendError
from leveret.broker.config import ConfigError, SettingError, explain, explain_key, load_config
from leveret.broker.config.known_settings import OWN
from leveret.broker.config.loader import CONFIG_FILE_VARIABLE
from leveret.broker.config.setting_error import described
from leveret.broker.node.broker import RestoreError
from leveret.cluster.discovery.discovery import DiscoveryError
from leveret.cluster.membership.membership_changes import ClusterError
from leveret.mgmt.cli.serve import serve
from leveret.storage.disk.data_directory import DataDirectoryError, DataDirectoryInUse
from leveret.storage.disk.disk import StoreError
from leveret.storage.metadata.metadata import MetadataError

EXIT_BAD_CONFIGURATION = 2
EXIT_CANNOT_START = 1

FLAGS = {
    "data_dir": "DIRECTORY", "node": "NAME", "bind": "ADDRESS", "port": "PORT",
    "management_port": "PORT", "prometheus_port": "PORT", "cluster_port": "PORT",
    "plugins": "NAMES",
}  # fmt: skip
"""The options that are settings, and the types of their values."""


def main(arguments: list[str]) -> int:
    """Run a broker until SIGTERM or SIGINT; the exit code."""
    options = read_options(arguments)
    flags = {name: getattr(options, name) for name in FLAGS}
    try:
        settings = load_config(options.config, os.environ, flags)
    except ConfigError as error:
        _give_up(str(error), EXIT_BAD_CONFIGURATION)
    try:
        serve(settings)
    except SettingError as error:
        _give_up(explain(settings, error), EXIT_BAD_CONFIGURATION)
    except BackendError as error:
        _give_up(explain_key(settings, str(error)), EXIT_BAD_CONFIGURATION)
    except (
        DataDirectoryInUse, MetadataError, StoreError, RestoreError, ClusterError, DiscoveryError,
    ) as error:  # fmt: skip
        _give_up(str(error), EXIT_CANNOT_START)
    except DataDirectoryError as error:
        _give_up(explain(settings, SettingError("data_dir", str(error))), EXIT_BAD_CONFIGURATION)
    except OSError as error:
        _give_up(described(error), EXIT_CANNOT_START)
    return 0


def read_options(arguments: list[str]) -> argparse.Namespace:
    """Parse the command line. Ends the process if it is wrong, with exit code 2."""
    parser = argparse.ArgumentParser(
        prog="leveret serve", description="Run a broker until SIGTERM or SIGINT.",
        allow_abbrev=False,
    )  # fmt: skip
    parser.add_argument(
        "--config", type=Path, metavar="FILE",
        help="The configuration file, in the format of rabbitmq.conf. "
        f"(default: none; variable: {CONFIG_FILE_VARIABLE})",
    )  # fmt: skip
    for name, metavar in FLAGS.items():
        setting = OWN.by_flag[name]
        text = f"{setting.purpose} (default: {setting.default_text}; variable: {setting.variable})"
        parser.add_argument(
            f"--{name.replace('_', '-')}", metavar=metavar, help=text.replace("%", "%%")
        )
    return parser.parse_args(arguments)


def _give_up(reason: str, status: int) -> NoReturn:
    sys.stderr.write(f"leveret: {reason}\n")
    sys.exit(status)
