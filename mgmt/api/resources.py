"""Imports all files with routes, which add themselves to `routes.ROUTES`."""

from leveret.mgmt.api import (
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
from leveret.mgmt.api.description import served

RESOURCES = (
    authentication, clients, control, definitions, exchanges, health, overview, parameters, plan,
    queues, traces, users, served, vhosts, workbench,
)  # fmt: skip
