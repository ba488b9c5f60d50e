"""What the log says of messages that a link leaves out."""

from types import SimpleNamespace

import pytest

from leveret.broker.moving.federation.unpublishable_messages import (
    REASONS_MAX,
    UnpublishableMessages,
)
from leveret.broker.policies.ack_modes import NO_ACK, ON_CONFIRM


@pytest.mark.parametrize(
    ("ack_mode", "becomes"), [(ON_CONFIRM, "goes back to the upstream"), (NO_ACK, "is lost")]
)
def test_each_reason_is_told_once(caplog, ack_mode, becomes):
    transfer = SimpleNamespace()
    UnpublishableMessages("the link", ack_mode).of(transfer)
    assert transfer.leaves_out
    for reason in ("one", "two", "one"):
        transfer.on_unpublishable(reason)
    begins = f"the link: a message cannot be published here, and {becomes}: "
    assert [one.getMessage() for one in caplog.records] == [begins + "one", begins + "two"]


def test_not_all_of_very_many_reasons_are_told(caplog):
    transfer = SimpleNamespace()
    UnpublishableMessages("the link", ON_CONFIRM).of(transfer)
    for number in range(2 * REASONS_MAX):
        transfer.on_unpublishable(str(number))
    assert len(caplog.records) == REASONS_MAX
