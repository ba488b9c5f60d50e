"""Pages of help, and the completion of bash."""

from __future__ import annotations

from collections.abc import Iterable

from .objects import FORMS, GET, LISTS, PUBLISH, SHOWN

USAGE = "Usage\n=====\n  rabbitmqadmin [options] subcommand\n"
CONFIG_HELP = (
    USAGE
    + """
Configuration File
==================

  Options may be in ~/.rabbitmqadmin.conf, or the file that --config names. --node
  chooses the section; the one called default is used without it. Options of the
  command line come before those of the file.

Example
=======

  [default]
  hostname = localhost
  port = 15672
  username = anna
  password = secret

  [production]
  hostname = rabbit.example.com
  port = 15671
  ssl = True
  ssl_ca_cert_file = /etc/ssl/ca.pem
  username = anna
  password = secret
  vhost = orders          # for all commands
  declare_vhost = orders  # for all but lists

  rabbitmqadmin --node production list queues
"""
)
COMPLETION = """# Completes rabbitmqadmin's words: source it, or put it into /etc/bash_completion.d.
_rabbitmqadmin() {
    local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]}
    case $before in
KINDS
        export|import) COMPREPLY=($(compgen -f -- "$word")) ;;
        help) COMPREPLY=($(compgen -W "subcommands config" -- "$word")) ;;
        -V|--vhost)
            COMPREPLY=($(compgen -W "$(rabbitmqadmin -q -f bash list vhosts)" -- "$word")) ;;
        -u|--username)
            COMPREPLY=($(compgen -W "$(rabbitmqadmin -q -f bash list users)" -- "$word")) ;;
        *) COMPREPLY=($(compgen -W "COMMANDS" -- "$word")) ;;
    esac
}
complete -F _rabbitmqadmin rabbitmqadmin"""


def subcommands() -> str:
    """Return the list of commands."""
    shown = [f"  list {kind} [<column>...]" for kind in LISTS]
    shown += [f"  show {kind} [<column>...]" for kind in SHOWN]
    changes = [
        f"  {verb} {kind} {form.usage()}" for verb, forms in FORMS.items()
        for kind, form in forms.items()
    ]  # fmt: skip
    parts = (
        ("Display", shown),
        ("Object Manipulation", changes),
        ("Broker Definitions", ["  export <file>", "  import <file>"]),
        ("Publishing and Consuming", [
            f"  publish {PUBLISH.usage()}", f"  get {GET.usage()}", "",
            "  publish without a payload reads it from standard input. get with a payload_file",
            "  writes the payload of one message to that file.",
        ]),
    )  # fmt: skip
    pages = (f"\n{title}\n{'=' * len(title)}\n\n" + "\n".join(of) + "\n" for title, of in parts)
    return USAGE + "".join(pages)


def bash_completion() -> str:
    """Return a script for bash."""
    kinds: dict[str, Iterable[str]] = {"list": LISTS, "show": SHOWN, **FORMS}
    words = "\n".join(
        f'        {verb}) COMPREPLY=($(compgen -W "{" ".join(names)}" -- "$word")) ;;'
        for verb, names in kinds.items()
    )
    commands = " ".join((*kinds, "publish", "get", "export", "import", "help"))
    return COMPLETION.replace("KINDS", words).replace("COMMANDS", commands)
