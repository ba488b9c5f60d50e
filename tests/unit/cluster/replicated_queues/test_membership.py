"""What changes of members are refused, without a leader to ask."""

from types import SimpleNamespace

import pytest

from leveret.cluster.replicated_queues.membership import ChangeRefused, QueueMembership
from leveret.cluster.replicated_queues.membership_record import new_record

GROUP = 7
QUEUE = SimpleNamespace(placement=SimpleNamespace(identity=GROUP))
VHOST = SimpleNamespace(queues_named_like=lambda name: {"q": QUEUE})
SERVICES = SimpleNamespace(vhosts={"/": VHOST})


@pytest.mark.parametrize(
    ("member", "reason"),
    [
        (SimpleNamespace(damage="its file is damaged"), "its file is damaged"),
        (
            SimpleNamespace(damage="", is_catching_up=True),
            "lacks messages: .* from its member on b, c",
        ),
        (None, "node a has no member of the queue: they are on b, c"),
    ],
    ids=["damaged", "new", "none"],
)
async def test_a_queue_is_not_recovered_from_a_member_without_its_messages(member, reason):
    record = new_record(("a", "b", "c"))
    declared = SimpleNamespace(
        group=GROUP, queue=QUEUE, record=record if member else record.without("a")
    )
    own = {GROUP: member} if member else {}
    membership = QueueMembership(
        "a", {GROUP: declared}, own, SERVICES, SimpleNamespace(running={"a"})
    )
    with pytest.raises(ChangeRefused, match=reason):
        await membership.keep_only("/", "q")
