"""Options: of the command line, of the configuration file, and their defaults."""

from __future__ import annotations

import argparse
import configparser
import sys
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import unquote, urlsplit

from .errors import wrong_usage
from .formats import FORMATS

VERSION = "3.10.8 (Leveret)"
"""The version of RabbitMQ's program with which it is compatible."""
CONFIG = ".rabbitmqadmin.conf"


class ConfigOption(NamedTuple):
    """An option, which is also a key of the configuration file. default: None if there is none."""

    flags: tuple[str, ...]
    help: str
    default: Any = None
    is_flag: bool = False


SETTINGS = {
    "config": ConfigOption(("-c", "--config"), f"the configuration file (default: ~/{CONFIG})"),
    "node": ConfigOption(("-N", "--node"), "the section of the configuration file", "default"),
    "hostname": ConfigOption(("-H", "--host"), "the host of the API", "localhost"),
    "port": ConfigOption(("-P", "--port"), "its port", "15672"),
    "path_prefix": ConfigOption(("--path-prefix",), "what comes before /api in its paths", ""),
    "vhost": ConfigOption(("-V", "--vhost"), "the virtual host (default: all for lists, else /)"),
    "username": ConfigOption(("-u", "--username"), "the user", "guest"),
    "password": ConfigOption(("-p", "--password"), "its password", "guest"),
    "base_uri": ConfigOption(("-U", "--base-uri"), "host, port, user and password as a URI"),
    "quiet": ConfigOption(("-q", "--quiet"), "print results only", False, is_flag=True),
    "ssl": ConfigOption(("-s", "--ssl"), "use HTTPS", False, is_flag=True),
    "ssl_key_file": ConfigOption(("--ssl-key-file",), "the key of the client's certificate"),
    "ssl_cert_file": ConfigOption(("--ssl-cert-file",), "the client's certificate"),
    "ssl_ca_cert_file": ConfigOption(("--ssl-ca-cert-file",), "the authorities that are trusted"),
    "ssl_disable_hostname_verification": ConfigOption(
        ("--ssl-disable-hostname-verification",), "take a certificate of another host", False,
        is_flag=True),
    "ssl_insecure": ConfigOption(
        ("-k", "--ssl-insecure"), "take any certificate", False, is_flag=True),
    "request_timeout": ConfigOption(("-t", "--request-timeout"), "how many seconds to wait", 120),
    "format": ConfigOption(("-f", "--format"), "how lists are printed: FORMATS", "table"),
    "sort": ConfigOption(("-S", "--sort"), "the column by which a list is sorted"),
    "sort_reverse": ConfigOption(("-R", "--sort-reverse"), "sort it the other way round", False,
                            is_flag=True),
    "depth": ConfigOption(("-d", "--depth"), "how deep tables in objects are shown", 1),
}  # fmt: skip


def parse(words: list[str]) -> tuple[argparse.Namespace, list[str]]:
    """Return the options, completed from the configuration file, and the other words."""
    parser = argparse.ArgumentParser(
        prog="rabbitmqadmin", usage="rabbitmqadmin [options] subcommand",
        epilog="'help subcommands' lists the commands, 'help config' explains the configuration "
        "file.", add_help=False,
    )  # fmt: skip
    parser.add_argument("-h", "--help", action="store_true", help="show this help and exit")
    for name, one in SETTINGS.items():
        shown = one.help.replace("FORMATS", ", ".join(FORMATS))
        if one.default not in (None, False, ""):
            shown += f" (default: {one.default})"
        kind: dict[str, Any] = {"action": "store_true"} if one.is_flag else {"metavar": "VALUE"}
        parser.add_argument(*one.flags, dest=name, default=None, help=shown, **kind)
    parser.add_argument("--bash-completion", action="store_true", help="print a script for bash")
    parser.add_argument("--version", action="version", version=f"rabbitmqadmin {VERSION}")
    parser.add_argument("words", nargs="*", help=argparse.SUPPRESS)
    options = parser.parse_intermixed_args(words)
    if options.help or options.words == ["help"]:
        parser.print_help()
        sys.exit(0)
    _complete(options)
    return options, options.words or [""]


def _complete(options: argparse.Namespace) -> None:
    """Take options that the command line lacks from the file, and the rest from the defaults."""
    options.declare_vhost = None
    node = SETTINGS["node"].default if options.node is None else options.node
    for name, value in _read_config(options.config, node).items():
        if getattr(options, name, None) is None:
            setattr(options, name, value == "True" if value in ("True", "False") else value)
    for name, one in SETTINGS.items():
        if getattr(options, name) is None:
            setattr(options, name, one.default)
    if options.base_uri:
        _take_uri(options, options.base_uri)
    try:
        options.request_timeout, options.depth = int(options.request_timeout), int(options.depth)
        options.port = int(options.port)
    except ValueError as error:
        raise wrong_usage(f"the port, the timeout and the depth are numbers: {error}") from None


def _read_config(given: str | None, node: str) -> dict[str, str]:
    """Return a section of the configuration file."""
    path = Path(given) if given else Path.home() / CONFIG
    if not path.is_file():
        if given:
            raise wrong_usage(f"Could not read config file '{given}'")
        return {}
    parser = configparser.RawConfigParser(inline_comment_prefixes=("#",))
    try:
        parser.read(path)
        return dict(parser.items(node))
    except configparser.NoSectionError:
        if node == SETTINGS["node"].default:
            return {}
        raise wrong_usage(f"Could not read section '{node}' in config file '{path}'") from None
    except configparser.Error as error:
        raise wrong_usage(f"Could not read config file '{path}': {error}") from None


def _take_uri(options: argparse.Namespace, uri: str) -> None:
    parts = urlsplit(uri)
    for name in ("hostname", "port", "username", "password"):
        value = getattr(parts, name)
        if value is not None:
            setattr(options, name, unquote(value) if isinstance(value, str) else value)
    options.ssl = options.ssl or parts.scheme == "https"
    if parts.path not in ("", "/"):
        sys.stderr.write("WARNING: the path of --base-uri is ignored: use --path-prefix\n")
