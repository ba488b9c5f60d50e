"""IP addresses in listings: text in tables, and in JSON the numbers of an Erlang address."""

import ipaddress
from typing import Any


class IpAddress(str):
    """An address, or a name where there is none."""

    __slots__ = ()

    def numbers(self) -> Any:
        """Four bytes, or eight numbers of 16 bits; the text if it is not an IP address."""
        try:
            packed = ipaddress.ip_address(self.partition("%")[0]).packed
        except ValueError:
            return str(self)
        if len(packed) == ipaddress.IPV4LENGTH // 8:
            return list(packed)
        pairs = zip(packed[::2], packed[1::2], strict=True)
        return [high << 8 | low for high, low in pairs]
