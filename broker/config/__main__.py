"""Print the page of documentation: python -m broker.config > docs/configuration.md."""

import sys

from broker.config.description import describe_settings

sys.stdout.write(describe_settings())
