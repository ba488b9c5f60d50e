"""Processor time of a group of three members in memory, for each entry that is proposed.

    python -m tests.bench.raft_steps [--batches 3000]

Messages are handed over as values; nothing is encoded, and nothing is written.
"""

from time import process_time

import typer

from leveret.cluster.raft.configuration import Configuration
from leveret.cluster.raft.entry_log import Stored
from leveret.cluster.raft.outputs import Send
from leveret.cluster.raft.raft_member import RaftMember

NAMES = ("a", "b", "c")
PAYLOAD = b"x" * 1024


class Group:
    """Three members whose disks and links are immediate."""

    def __init__(self) -> None:
        configuration = Configuration(NAMES)
        self.now = 1
        self.members = {
            name: RaftMember(0, name, Stored(configuration), lambda: 0.5) for name in NAMES
        }
        for name in NAMES:
            for other in NAMES:
                if other != name:
                    self.members[name].link_up(other, self.now)
        self.round(NAMES)
        self.now += 1
        self.members["a"].wake(self.now)
        self.round(NAMES)
        if self.members["a"].leading is None:
            raise RuntimeError("the first member does not lead")

    def round(self, names: tuple[str, ...]) -> None:
        """Do all that is due: members that have got something end their rounds."""
        members = self.members
        due = list(names)
        while due:
            name = due.pop(0)
            member = members[name]
            writes = member.state.writes
            for output in member.take_outputs():
                if isinstance(output, Send):
                    members[output.to].received(name, output.message, self.now)
                    if output.to not in due:
                        due.append(output.to)
            if member.state.writes > writes or member.state.synced_writes < member.state.writes:
                member.synced(member.state.writes, self.now)
                due.append(name)


def measured(batch: int, count: int = 3000) -> float:
    """Microseconds for each entry, of all three members."""
    group = Group()
    payloads = [PAYLOAD] * batch
    leader = group.members["a"]
    start = process_time()
    for _ in range(count):
        leader.propose(payloads[:])
        group.round(("a",))
        group.now += 1
    spent = process_time() - start
    if leader.state.commit < count * batch:
        raise RuntimeError("not all is committed")
    return spent / count / batch * 1e6


def main(batches: int = 3000) -> None:
    """Measure batches of several sizes."""
    print("interpreted" if hasattr(RaftMember.propose, "__code__") else "compiled")
    for batch in (1, 10, 100):
        best = min(measured(batch, batches) for _ in range(3))
        print(f"{batch:4} entries at a time: {best:6.2f} microseconds each, {1e6 / best:,.0f}/s")


if __name__ == "__main__":
    typer.run(main)
