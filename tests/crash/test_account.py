"""The client program of account.py with fewer messages."""

from tests.crash.account import account


async def test_every_confirmed_message_is_accounted_for(tmp_path):
    outcome = await account(tmp_path / "data", 6_000, 3)
    assert outcome["confirmed"] == 6_000
    assert outcome["confirmed and missing"] == 0
