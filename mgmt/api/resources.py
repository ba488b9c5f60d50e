"""All files with routes: to import this is to have them in `routes.ROUTES`."""

from mgmt.api import (
    authentication,
    clients,
    control,
    definitions,
    exchanges,
    health,
    overview,
    parameters,
    plan,
    queues,
    traces,
    users,
    vhosts,
    workbench,
)
from mgmt.api.description import served

RESOURCES = (
    authentication, clients, control, definitions, exchanges, health, overview, parameters, plan,
    queues, traces, users, served, vhosts, workbench,
)  # fmt: skip
