"""The list of all scenarios."""

from tests.mgmt.recorder.asks_access import ACCESS
from tests.mgmt.recorder.asks_declaring import DECLARING
from tests.mgmt.recorder.asks_federation import FEDERATION
from tests.mgmt.recorder.asks_links import LINK_PARAMETERS
from tests.mgmt.recorder.asks_listing import LISTING
from tests.mgmt.recorder.asks_messages import MESSAGES
from tests.mgmt.recorder.asks_node import NODE
from tests.mgmt.recorder.asks_policies import POLICIES
from tests.mgmt.recorder.scenario import Scenario

SCENARIOS: tuple[Scenario, ...] = (
    *DECLARING, *MESSAGES, *POLICIES, *LINK_PARAMETERS, *FEDERATION, *ACCESS, *NODE, *LISTING,
)  # fmt: skip
