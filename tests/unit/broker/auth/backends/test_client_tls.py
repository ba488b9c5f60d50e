"""Log lines about the TLS settings of backends' servers."""

import pytest

from leveret.broker.auth.backends.client_tls import shown_address


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("https://users.example.com:8443/auth/user", "https://users.example.com:8443/auth/user"),
        ("https://node:xyzzy@users.example.com/user", "https://users.example.com/user"),
        ("https://users.example.com/user?key=xyzzy#part", "https://users.example.com/user"),
        ("http://a:b@c@[::1]:80/", "http://[::1]:80/"),
    ],
)
def test_an_address_is_shown_without_its_secrets(url, shown):
    assert shown_address(url) == shown
