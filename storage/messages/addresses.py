"""One address object for all messages read from disk with the same exchange and routing key.

A run of messages in one record is recognised by the identity of their address object
(segments.py), so messages read from disk should share one too. A full cache is emptied: a second
object for an address only costs memory and makes runs shorter.
"""

from leveret.storage.messages.message import Address

ADDRESSES_MAX = 32_768
"""If more queues than this get messages in turn, each message has an address object of its own."""


class Addresses:
    """A cache of addresses by their encoded form."""

    def __init__(self) -> None:
        self._addresses: dict[bytes, Address] = {}

    def find(self, encoded: bytes) -> Address:
        """The address with these bytes: exchange and routing key as short strings."""
        address = self._addresses.get(encoded)
        if address is None:
            key_at = 1 + encoded[0]
            exchange, routing_key = encoded[1:key_at], encoded[key_at + 1 :]
            address = Address(
                exchange.decode("utf-8", "surrogateescape"),
                routing_key.decode("utf-8", "surrogateescape"),
                encoded,
            )
            if len(self._addresses) >= ADDRESSES_MAX:
                self._addresses.clear()
            self._addresses[encoded] = address
        return address
