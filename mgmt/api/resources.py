"""Imports all files with routes, which add themselves to `routes.ROUTES`."""

from leveret.mgmt.api import (
    acting,
    authentication,
    clients,
    cluster,
    consumers,
    control,
    definitions,
    discarded,
    exchanges,
    federation,
    health,
    mirrors,
    overview,
    parameters,
    plan,
    queues,
    retrying,
    schema_replication,
    shovels,
    traces,
    users,
    vhosts,
    workbench,
)
from leveret.mgmt.api.description import served

RESOURCES = (
    acting, authentication, clients, cluster, consumers, control, definitions, discarded, exchanges,
    federation, health, mirrors, overview, parameters, plan, queues, retrying, schema_replication,
    shovels, traces, users, served, vhosts, workbench,
)  # fmt: skip
