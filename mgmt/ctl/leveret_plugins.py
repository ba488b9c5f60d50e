"""The `leveret-plugins` command: rabbitmq-plugins' commands, for scripts that call it.

They are in plugins.py, and leveretctl does not have them.
"""

import sys

from leveret.mgmt.ctl.leveretctl import main
from leveret.mgmt.ctl.tool import LEVERET_PLUGINS


def entry_point() -> None:
    """Entry point of the installed command."""
    sys.exit(main(tool=LEVERET_PLUGINS))


if __name__ == "__main__":
    entry_point()
