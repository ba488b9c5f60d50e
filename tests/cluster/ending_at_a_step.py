"""The program `leveret` that is killed, or loses its links, at a named step of a conversion.

The name of the step is in the file AT_STEP of the data directory, after `kill`, `cut` or `isolate`,
when the node gets to the step; the file is removed then, so that the next conversion goes on. A
node that is isolated gets no links until it is started again.
"""

import inspect
import os
import signal
import sys
from functools import wraps
from pathlib import Path

from leveret.broker.declarations.decided_replacements import DECIDED_REPLACEMENT
from leveret.broker.declarations.values import PutParameter
from leveret.broker.registry.objects.parameters import DeclaredParameters
from leveret.cluster.links.handshake_connection import HandshakeConnection
from leveret.cluster.quorum.conversion import conversion
from leveret.cluster.quorum.conversion.conversion import Conversion
from leveret.cluster.quorum.conversion.directions import ToClassic, ToQuorum
from leveret.cluster.quorum.conversion.node_holds import NodeHold, NodeHolds
from leveret.cluster.rpc.rpc import Rpc
from leveret.mgmt.cli import entry

AT_STEP = "at_step"
BEFORE_DECISION = ("declared", "held", "copied")
AFTER_DECISION = ("decided", "replaced")
MEMBER_STEPS = ("holds", "follows")
RPCS = []
ISOLATED = []


def option(name):
    """The value of an option of the program."""
    return sys.argv[sys.argv.index(name) + 1]


def reached(step):
    """The node has got to a step."""
    path = Path(option("--data-dir")) / AT_STEP
    if not path.exists() or path.read_text().split()[1] != step:
        return
    action = path.read_text().split()[0]
    path.unlink()
    if action == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if action == "isolate":
        ISOLATED.append(step)
    for peer in [peer for rpc in RPCS for peer in rpc._peers.values()]:
        peer.drop(f"a test has cut it when {step}")


def after(owner, name, step):
    """A method of a class ends with a step."""
    method = getattr(owner, name)
    if inspect.iscoroutinefunction(method):

        @wraps(method)
        async def run(*arguments):
            result = await method(*arguments)
            reached(step)
            return result
    else:

        @wraps(method)
        def run(*arguments):
            result = method(*arguments)
            reached(step)
            return result

    setattr(owner, name, run)


def before(owner, name, step, is_step=lambda *arguments: True):
    """A method of a class begins with a step, if it is one for its arguments."""
    method = getattr(owner, name)

    @wraps(method)
    def run(*arguments):
        if is_step(*arguments):
            reached(step)
        return method(*arguments)

    setattr(owner, name, run)


def is_home(hold):
    """Whether a hold is that of the node that converts the queue."""
    return hold.queue.placement.node == option("--node")


def isolated(connection, transport):
    """Nobody can link to an isolated node."""
    if ISOLATED:
        transport.abort()


def is_decision(it):
    """Whether a declaration decides the end of a conversion."""
    return isinstance(it, PutParameter) and it.component == DECIDED_REPLACEMENT


def main():
    """Run the program."""
    before(Rpc, "__init__", "", lambda rpc, _: RPCS.append(rpc))
    before(HandshakeConnection, "connection_made", "", isolated)
    after(Conversion, "_declare_successor", "declared")
    for direction in (ToClassic, ToQuorum):
        after(direction, "left", "held")
    after(Conversion, "_copy", "copied")
    before(DeclaredParameters, "apply", "deciding", lambda _, it: is_decision(it))
    before(conversion, "carrying_out", "decided")
    before(NodeHold, "successor", "replaced", is_home)
    after(NodeHolds, "_fence", "holds")
    before(NodeHold, "successor", "follows", lambda hold: not is_home(hold))
    return entry.main()
