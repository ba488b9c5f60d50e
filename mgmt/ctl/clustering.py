"""The nodes of a cluster: joining one, removing nodes from it, and starting without the others."""

import subprocess
import sys

from leveret.mgmt.ctl.client import data_directory
from leveret.mgmt.ctl.command import STOPPED, CommandRun, command
from leveret.mgmt.ctl.errors import SOFTWARE, USAGE, bad_argument, failure
from leveret.mgmt.ctl.process import CLUSTER

TYPES = {"disc": "disc", "disk": "disc", "ram": "ram"}


@command("join_cluster", "[--disc|--ram] <existing_cluster_member>", "Makes the node a member of "
         "the cluster of another node; its own data is deleted", CLUSTER, "disc", "ram",
         needs=STOPPED)  # fmt: skip
def join_cluster(ctl: CommandRun) -> None:
    """Join the cluster of another node, from the next start_app on."""
    ctl.require_local()
    is_ram = bool(ctl.options.get("ram"))
    if is_ram and ctl.options.get("disc"):
        raise bad_argument("The node type must be either disc or ram.")
    other = with_host(ctl.argument(0), ctl.node)
    ctl.banner(f"Clustering node {ctl.node} with {other}")
    ctl.take_time()
    kind = "ram" if is_ram else "disc"
    ctl.client.post("node", "join-cluster", body={"node": other, "type": kind})


def with_host(name: str, own: str) -> str:
    """The address of a node; one that is named without a host is on that of this node."""
    if "@" in name or not name:
        return name
    short, colon, port = name.partition(":")
    return f"{short}@{own.partition('@')[2]}{colon}{port}"


@command("forget_cluster_node", "[--offline] <existing_cluster_member_node>", "Removes a node "
         "that is not running from the cluster, with the queues that only it has", CLUSTER,
         "offline")  # fmt: skip
def forget_cluster_node(ctl: CommandRun) -> None:
    """Remove a node from the cluster: by a running node, or in the files of a stopped one."""
    ctl.require_local()
    gone = ctl.argument(0)
    if ctl.options.get("offline"):
        ctl.offline_banner(
            f"Removing node {gone} from the cluster. Warning: quorum queues cannot be shrunk in "
            "offline mode"
        )
        change_files(ctl, "forget", gone)
        return
    ctl.banner(f"Removing node {gone} from the cluster")
    ctl.client.post("node", "forget-cluster-node", body={"node": gone})


def change_files(ctl: CommandRun, what: str, *arguments: str) -> None:
    """Change the membership in the files of a node whose process has ended. Raises CtlError.

    The files are the node's business: a program of the node does it.
    """
    directory = data_directory(ctl.options)
    own = str(ctl.options.get("node") or "")
    done = subprocess.run(
        [sys.executable, "-m", "leveret.mgmt.cli.membership", what, directory, own, *arguments],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode:
        code = USAGE if done.returncode == USAGE else SOFTWARE
        raise failure(done.stderr.strip(), code)
    if ctl.formatter == "json":
        ctl.facts({"result": "ok", "node": own}, ())


@command("rename_cluster_node", "<oldnode1> <newnode1> [<oldnode2> <newnode2> ...]", "Renames "
         "nodes in the files of a stopped node, whose own new name is --node", CLUSTER,
         counts=(2, None))  # fmt: skip
def rename_cluster_node(ctl: CommandRun) -> None:
    """Rename nodes of the cluster, this one among them, in its files."""
    ctl.require_local()
    names = ctl.arguments
    if len(names) % 2:
        raise bad_argument("Argument list should contain even number of nodes")
    if len(set(names[::2])) < len(names) // 2:
        raise bad_argument("A node is given two new names")
    pairs = zip(names[::2], names[1::2], strict=True)
    ctl.offline_banner("Renaming cluster nodes: \n " + "".join(f"{a} -> {b} \n" for a, b in pairs))
    change_files(ctl, "rename", *names)


@command("update_cluster_nodes", "<seed_node>", "Takes over the list of known cluster members from "
         "another node, for the next start", CLUSTER, needs=STOPPED)  # fmt: skip
def update_cluster_nodes(ctl: CommandRun) -> None:
    """Take the list of the cluster's members from a running node."""
    ctl.require_local()
    seed = ctl.argument(0)
    ctl.banner(f"Will seed {ctl.node} from {seed} on next start")
    ctl.take_time()
    ctl.client.post("node", "update-cluster-nodes", body={"node": seed})


@command("change_cluster_node_type", "<disc|ram>", "Makes the node a disc node or a RAM node of "
         "its cluster", CLUSTER, needs=STOPPED, counts=(1, 1))  # fmt: skip
def change_cluster_node_type(ctl: CommandRun) -> None:
    """Change the type of the node."""
    ctl.require_local()
    kind = TYPES.get(ctl.argument(0))
    if kind is None:
        raise bad_argument("The node type must be either disc or ram.")
    ctl.banner(f"Turning {ctl.node} into a {kind} node")
    ctl.take_time()
    ctl.client.post("node", "change-cluster-node-type", body={"type": kind})


@command("force_boot", "", "Makes the next start of the node wait for no other node", CLUSTER,
         needs=STOPPED)  # fmt: skip
def force_boot(ctl: CommandRun) -> None:
    """Force the next start."""
    ctl.require_local()
    ctl.banner(f"Forcing boot for Mnesia on node {ctl.node} ...")
    ctl.client.post("node", "force-boot")
