"""The `leveret-streams` command: rabbitmq-streams' commands, for scripts that call it.

They are leveretctl's commands of the same names.
"""

import sys

from leveret.mgmt.ctl.leveretctl import main
from leveret.mgmt.ctl.tool import LEVERET_STREAMS


def entry_point() -> None:
    """Entry point of the installed command."""
    sys.exit(main(tool=LEVERET_STREAMS))


if __name__ == "__main__":
    entry_point()
