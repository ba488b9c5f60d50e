"""Every implementation of the backing queue keeps the contract."""

from hypothesis import settings

from tests.storage.backing_contract import implementations
from tests.storage.backing_contract.machine import BackingQueueMachine


def case(implementation, max_examples):
    """A test case for an implementation."""
    machine = type(
        implementation.__name__, (BackingQueueMachine,), {"make_implementation": implementation}
    )
    found = machine.TestCase
    found.settings = settings(
        max_examples=max_examples, stateful_step_count=40, deadline=None, database=None,
        derandomize=True,
    )  # fmt: skip
    return found


TestInMemory = case(implementations.Implementation, 30)
TestPriorityInMemory = case(implementations.PriorityInMemory, 30)
TestTiered = case(implementations.Tiered, 30)
TestDurableTiered = case(implementations.DurableTiered, 30)
TestTieredInSmallBlocks = case(implementations.TieredInSmallBlocks, 50)
TestPriorityTiered = case(implementations.PriorityTiered, 20)
TestUnchanged = case(implementations.Unchanged, 10)
TestMirrored = case(implementations.Mirrored, 20)
TestMirroredOnDisk = case(implementations.MirroredOnDisk, 10)
TestLeadingPriority = case(implementations.LeadingPriority, 15)
TestLeadingWithoutMirrors = case(implementations.LeadingWithoutMirrors, 10)
TestChained = case(implementations.Chained, 30)
