"""The `leveret` command and the options of its subcommands, whose work is in other modules."""

import os
import sys
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer

from leveret import __version__
from leveret.broker.auth.backends.chain import BackendError
from leveret.broker.config import ConfigError, SettingError, explain, explain_key, load_config
from leveret.broker.config.loader import CONFIG_FILE_VARIABLE, SETTINGS_BY_FLAG
from leveret.broker.config.setting_error import described
from leveret.cluster.discovery.discovery import DiscoveryError
from leveret.cluster.membership_changes import ClusterError
from leveret.compiled import build
from leveret.mgmt.cli import store
from leveret.mgmt.cli.serve import serve as run_server
from leveret.mgmt.cli.subcommands import DESCRIPTIONS, run_subcommand
from leveret.storage.data_directory import DataDirectoryError, DataDirectoryInUse
from leveret.storage.disk import StoreError
from leveret.storage.metadata import MetadataError

EXIT_BAD_CONFIGURATION = 2
EXIT_CANNOT_START = 1

app = typer.Typer(
    help="Leveret, an AMQP 0-9-1 broker that is compatible with RabbitMQ.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.add_typer(store.app, name="store")


def _show_version(is_wanted: bool) -> None:
    if is_wanted:
        typer.echo(f"{__version__} ({build()})")
        raise typer.Exit


@app.callback()
def main(
    version: Annotated[
        bool,
        typer.Option(
            "--version", help="Print the version and exit.", callback=_show_version, is_eager=True
        ),
    ] = False,
) -> None:
    """Leveret, an AMQP 0-9-1 broker that is compatible with RabbitMQ."""


def _option(flag: str, metavar: str | None = None) -> Any:
    """An option whose help is that of its setting, with the default and the variable."""
    setting = SETTINGS_BY_FLAG[flag]
    text = f"{setting.purpose} (default: {setting.default_text}; variable: {setting.variable})"
    return typer.Option(help=text, metavar=metavar)


@app.command()
def serve(
    config: Annotated[
        Path | None,
        typer.Option(
            help="The configuration file, in the format of rabbitmq.conf. "
            f"(default: none; variable: {CONFIG_FILE_VARIABLE})"
        ),
    ] = None,
    data_dir: Annotated[Path | None, _option("data_dir")] = None,
    node: Annotated[str | None, _option("node")] = None,
    bind: Annotated[str | None, _option("bind", "ADDRESS")] = None,
    port: Annotated[str | None, _option("port", "PORT")] = None,
    management_port: Annotated[str | None, _option("management_port", "PORT")] = None,
    prometheus_port: Annotated[str | None, _option("prometheus_port", "PORT")] = None,
    cluster_port: Annotated[str | None, _option("cluster_port", "PORT")] = None,
) -> None:
    """Run a broker until SIGTERM or SIGINT."""
    flags: dict[str, object] = {
        "data_dir": data_dir,
        "node": node,
        "bind": bind,
        "port": port,
        "management_port": management_port,
        "prometheus_port": prometheus_port,
        "cluster_port": cluster_port,
    }
    try:
        settings = load_config(config, os.environ, flags)
    except ConfigError as error:
        _give_up(str(error), EXIT_BAD_CONFIGURATION)
    try:
        run_server(settings)
    except SettingError as error:
        _give_up(explain(settings, error), EXIT_BAD_CONFIGURATION)
    except BackendError as error:
        _give_up(explain_key(settings, str(error)), EXIT_BAD_CONFIGURATION)
    except (DataDirectoryInUse, MetadataError, StoreError, ClusterError, DiscoveryError) as error:
        _give_up(str(error), EXIT_CANNOT_START)
    except DataDirectoryError as error:
        _give_up(explain(settings, SettingError("data_dir", str(error))), EXIT_BAD_CONFIGURATION)
    except OSError as error:
        _give_up(described(error), EXIT_CANNOT_START)


def _add_subcommand(name: str, description: str) -> None:
    """List a program of its own in the help, and run it with whatever options it gets."""

    @app.command(
        name=name,
        help=description,
        context_settings={"allow_extra_args": True, "ignore_unknown_options": True},
        add_help_option=False,
    )
    def run(context: typer.Context) -> None:
        sys.exit(run_subcommand(name, context.args))


for _name, _description in DESCRIPTIONS.items():
    _add_subcommand(_name, _description)


@app.command(name="version")
def show_version() -> None:
    """Print Leveret's version."""
    typer.echo(__version__)


def _give_up(reason: str, status: int) -> NoReturn:
    typer.echo(f"leveret: {reason}", err=True)
    sys.exit(status)


if __name__ == "__main__":
    app()
