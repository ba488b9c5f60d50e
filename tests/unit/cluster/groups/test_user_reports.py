"""What users of quorum queues report (repository rabbitmq-server), and the tests of it here.

2505, 11918, 12141: one old message keeps all log files after it
test_group_log: a file that is kept for one entry is punched; below
5257, 6447, 3445: commands without messages fill the log              below
12366: a queue that was declared again leads with its old log
raft/test_elections: messages_of_a_queue_that_was_deleted_and_declared_again_are_dropped
12403: messages are lost while nodes flap                             sim/quorum_scenario, jepsen
15473: messages stay unacknowledged after an election, and nobody has them
sim/quorum_scenario: in the end, each client holds what the queue says that it holds
2774: a message that cannot be applied leaves no leader               test_unusable_members
2421, 2420: consumers of a dead node are still counted
machine/test_clients: what_was_with_a_dead_node_comes_again_with_its_count
2390: one of two nodes has no leader, and nothing says why
raft/test_elections: one_of_two_members_is_no_majority_and_names_the_missing_one
1782, 1883, 3671, 14589: publishes are not confirmed, or doubled, when the leader changes
test_clients_without_a_leader: publishes_are_sent_again_to_the_next_leader; sim/quorum_scenario
"""

from leveret.storage.group_log.kept_files import kept_numbers
from tests.patience import until
from tests.unit.cluster.groups.grouped_nodes import NAMES, Client, GroupedNodes

FILE_BYTES = 40_000


async def test_commands_without_messages_do_not_fill_the_disk(tmp_path):
    """Such as those of consumers that come and go at an empty queue."""
    async with GroupedNodes(tmp_path, FILE_BYTES) as nodes:
        await nodes.create([1])
        client = Client(nodes.by_name[NAMES[0]], 1)
        while any(node.groups.members[1].raft.state.log.base_index < 6_000 for node in nodes):
            for _ in range(300):
                client.settle(0)
            await until(lambda: client.is_done)
        for node in nodes:
            await until(lambda node=node: node.files.files[0].number > 1)
            directory = tmp_path / node.name / "quorum"
            await until(lambda disk=node.disk, path=directory: not kept_numbers(disk, path))
