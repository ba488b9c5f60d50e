"""The nodes of a cluster: joining one, removing nodes from it, and starting without the others."""

from leveret.mgmt.tools.ctl.command import STOPPED, Session, command
from leveret.mgmt.tools.ctl.errors import bad_argument
from leveret.mgmt.tools.ctl.process import CLUSTER

TYPES = {"disc": "disc", "disk": "disc", "ram": "ram"}


@command("join_cluster", "[--disc|--ram] <existing_cluster_member>", "Makes the node a member of "
         "the cluster of another node; its own data are lost", CLUSTER, "disc", "ram",
         needs=STOPPED)  # fmt: skip
def join_cluster(ctl: Session) -> None:
    """Join the cluster of another node, from the next start_app on."""
    ctl.require_local()
    other = ctl.argument(0)
    ctl.banner(f"Clustering node {ctl.node} with {other}")
    ctl.take_time()
    kind = "ram" if ctl.options.get("ram") else "disc"
    ctl.client.post("node", "join-cluster", body={"node": other, "type": kind})


@command("forget_cluster_node", "<node_to_remove>", "Removes a node that does not run from the "
         "cluster, with the queues that it has", CLUSTER)  # fmt: skip
def forget_cluster_node(ctl: Session) -> None:
    """Remove a node from the cluster."""
    ctl.require_local()
    gone = ctl.argument(0)
    ctl.banner(f"Removing node {gone} from the cluster")
    ctl.client.post("node", "forget-cluster-node", body={"node": gone})


@command("change_cluster_node_type", "<disc|ram>", "Makes the node a disc node or a RAM node of "
         "its cluster", CLUSTER, needs=STOPPED, counts=(1, 1))  # fmt: skip
def change_cluster_node_type(ctl: Session) -> None:
    """Change the type of the node."""
    ctl.require_local()
    kind = TYPES.get(ctl.argument(0))
    if kind is None:
        raise bad_argument("The node type must be either disc or ram.")
    ctl.banner(f"Turning {ctl.node} into a {kind} node")
    ctl.take_time()
    ctl.client.post("node", "change-cluster-node-type", body={"type": kind})


@command("force_boot", "", "Has the node's next start wait for no other node", CLUSTER,
         needs=STOPPED)  # fmt: skip
def force_boot(ctl: Session) -> None:
    """Force the next start."""
    ctl.require_local()
    ctl.banner(f"Forcing boot for Mnesia on node {ctl.node} ...")
    ctl.client.post("node", "force-boot")
