"""The programs that run commands.

leveretctl has all but those of leveret-plugins, which switches plugins; leveret-upgrade has those
around an upgrade, and leveret-streams those for streams.
"""

from typing import NamedTuple

HELP = "Help"
OF_EVERY_TOOL = ("autocomplete", "help", "version")
OF_PLUGINS = ("directories", "disable", "enable", "is_enabled", "list", "set")
"""Their names say nothing without the program's."""


class Tool(NamedTuple):
    """A program. names: its commands; empty for all. section: the title of their list, if it is not
    that of leveretctl.
    """

    name: str
    names: tuple[str, ...] = ()
    section: str = ""

    def has(self, name: str) -> bool:
        """Whether a command is one of this program's."""
        if not self.names:
            return name not in OF_PLUGINS
        return name in self.names or name in OF_EVERY_TOOL

    def section_of(self, name: str, section: str) -> str:
        """The heading under which a command is listed. section: that in the list of all."""
        return self.section if self.section and name in self.names else section


LEVERETCTL = Tool("leveretctl")
LEVERET_UPGRADE = Tool(
    "leveret-upgrade",
    (
        "await_online_quorum_plus_one", "await_online_synchronized_mirror", "drain", "post_upgrade",
        "revive",
    ),
    "Upgrade",
)  # fmt: skip
LEVERET_STREAMS = Tool(
    "leveret-streams",
    (
        "activate_stream_consumer", "add_replica", "add_super_stream", "copy_stream",
        "delete_replica", "delete_super_stream", "list_stream_connections",
        "list_stream_consumer_groups", "list_stream_consumers", "list_stream_group_consumers",
        "list_stream_publishers", "list_stream_tracking", "reset_offset", "reset_stream_offset",
        "restart_stream", "stream_status",
    ),
    "Streams",
)  # fmt: skip
LEVERET_PLUGINS = Tool("leveret-plugins", OF_PLUGINS)
