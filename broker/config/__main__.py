"""Print a page: python -m leveret.broker.config > docs/operate/configuration.md."""

import sys

from leveret.broker.config.description import describe_settings

sys.stdout.write(describe_settings())
