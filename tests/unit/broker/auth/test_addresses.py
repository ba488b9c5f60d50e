"""What counts as one client's address."""

import pytest

from leveret.broker.auth.addresses import source_of


@pytest.mark.parametrize(
    ("address", "source"),
    [
        ("192.0.2.1", "192.0.2.1"),
        ("::ffff:192.0.2.1", "192.0.2.1"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("::1", "::1"),
        ("fe80::1%eth0", "fe80::1"),
        ("", ""),
    ],
)
def test_what_an_address_is_counted_as(address, source):
    assert source_of(address) == source
