"""The manifests in docker/kubernetes/ fit the API, each other, and the settings of a node."""

from pathlib import Path

import kubernetes_validate
import pytest
import yaml
from typer.testing import CliRunner

from leveret.broker.config import load_config
from leveret.cluster.links.configured_links import port_of
from leveret.mgmt.cli.application import app
from leveret.mgmt.ctl.index import MODULES

ROOT = Path(__file__).resolve().parents[2]
MANIFESTS = list(yaml.safe_load_all((ROOT / "docker" / "kubernetes" / "leveret.yaml").read_text()))
VERSION = "1.31"
LABELS = {"app": "leveret"}


def of_kind(kind):
    return [manifest for manifest in MANIFESTS if manifest["kind"] == kind]


(SET,) = of_kind("StatefulSet")
POD = SET["spec"]["template"]["spec"]
(CONTAINER,) = POD["containers"]
PORTS = {port["name"]: port["containerPort"] for port in CONTAINER["ports"]}


def config_of(tmp_path):
    """The settings of a node, as it would load them."""
    (found,) = of_kind("ConfigMap")
    path = tmp_path / "rabbitmq.conf"
    path.write_text(found["data"]["rabbitmq.conf"])
    values = {one["name"]: one.get("value", "a secret of the test") for one in CONTAINER["env"]}
    return load_config(path, {name: values[name] for name in values if name != "POD_NAME"}, {})


@pytest.mark.parametrize("manifest", MANIFESTS, ids=lambda manifest: manifest["kind"])
def test_every_field_is_one_of_the_api(manifest):
    kubernetes_validate.validate(manifest, VERSION, strict=True)


def test_a_field_that_the_api_does_not_have_is_found():
    wrong = {**SET, "spec": {**SET["spec"], "replica": 3}}
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(wrong, VERSION, strict=True)


def test_services_budget_and_set_have_the_same_pods():
    assert SET["spec"]["template"]["metadata"]["labels"] == LABELS
    assert SET["spec"]["selector"]["matchLabels"] == LABELS
    assert all(service["spec"]["selector"] == LABELS for service in of_kind("Service"))
    (budget,) = of_kind("PodDisruptionBudget")
    assert budget["spec"]["selector"]["matchLabels"] == LABELS
    (account,) = of_kind("ServiceAccount")
    assert account["metadata"]["name"] == POD["serviceAccountName"]


def test_the_nodes_find_each_other_behind_the_headless_service(tmp_path):
    config = config_of(tmp_path)
    (headless,) = [one for one in of_kind("Service") if one["spec"].get("clusterIP") == "None"]
    name = headless["metadata"]["name"]
    assert headless["spec"]["publishNotReadyAddresses"]
    assert SET["spec"]["serviceName"] == name
    assert config.cluster_formation.kubernetes.service_name == name
    suffix = config.cluster_formation.kubernetes.hostname_suffix
    assert config.node_name == f"leveret@$(POD_NAME){suffix}"
    assert suffix == f".{name}.default.svc.cluster.local"
    (role,) = of_kind("Role")
    verbs = {rule["resources"][0]: rule["verbs"] for rule in role["rules"]}
    assert verbs == {"endpoints": ["get"], "events": ["create"]}


def test_the_ports_are_those_of_the_node(tmp_path):
    config = config_of(tmp_path)
    assert {
        "amqp": config.tcp.listeners[0].port, "management": config.management.port,
        "metrics": config.prometheus.port, "cluster": port_of(config),
    } == PORTS  # fmt: skip
    for service in of_kind("Service"):
        for port in service["spec"]["ports"]:
            assert port["port"] == PORTS[port["name"]]


def test_the_user_of_the_pod_and_its_directories_are_those_of_the_image():
    text = "".join((ROOT / "docker" / name).read_text() for name in ("Dockerfile", "collect"))
    assert f"--uid {POD['securityContext']['runAsUser']} " in text
    mounts = {mount["mountPath"] for mount in CONTAINER["volumeMounts"]}
    assert mounts == {"/var/lib/leveret", "/etc/leveret"}
    assert all(path in text for path in mounts)


def test_commands_are_commands_of_leveret():
    assert CliRunner().invoke(app, [*CONTAINER["args"], "--help"]).exit_code == 0
    known = {name for names in MODULES.values() for name in names}
    for command in (
        CONTAINER["livenessProbe"]["exec"]["command"],
        CONTAINER["lifecycle"]["preStop"]["exec"]["command"],
    ):
        program, *arguments = command
        assert program == "leveretctl"
        assert known.intersection(arguments)
