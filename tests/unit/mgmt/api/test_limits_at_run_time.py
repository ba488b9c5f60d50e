"""The limits of memory and disk that leveretctl sets read sizes as the configuration file does."""

from types import SimpleNamespace

import pytest

from leveret.broker.config import Config
from leveret.mgmt.api.control import _amount


async def amount(compat, body):
    async def read():
        return body

    node = SimpleNamespace(config=Config(compat=compat))
    return await _amount(SimpleNamespace(body=read, node=node))


@pytest.mark.parametrize(
    ("compat", "text", "limit"),
    [
        ("3.12", "2G", 2 * 1024**3), ("4.x", "2G", 2 * 10**9), ("3.12", "2TB", 2 * 10**12),
        ("4.x", "2TB", 2 * 10**12), ("3.12", "1Ti", 1024**4), ("4.x", "1Ti", 1024**4),
    ],
)  # fmt: skip
async def test_a_size_means_what_it_means_in_the_file(compat, text, limit):
    assert await amount(compat, {"absolute": text}) == ("absolute", limit)


async def test_a_share_has_no_unit():
    assert await amount("4.x", {"relative": 0.4}) == ("relative", 0.4)
