"""Print the page of documentation: python -m leveret.broker.config > docs/configuration.md."""

import sys

from leveret.broker.config.description import describe_settings

sys.stdout.write(describe_settings())
