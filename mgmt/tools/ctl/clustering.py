"""The nodes of a cluster: joining one."""

from leveret.mgmt.tools.ctl.command import STOPPED, Session, command
from leveret.mgmt.tools.ctl.process import CLUSTER


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
