"""A plugin for Leveret: an exchange type that compares the first word of the routing key."""

from leveret.broker.plugins.plugin import Plugin

PLUGIN = Plugin(
    name="first_word",
    description="Exchange type x-first-word",
    version="1.0",
    interface=1,
    exchange_types={"x-first-word": "first_word.exchange_type:FirstWord"},
)
