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
VERSIONS = ("1.31", kubernetes_validate.latest_version())
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


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("manifest", MANIFESTS, ids=lambda manifest: manifest["kind"])
def test_every_field_is_one_of_the_api(manifest, version):
    kubernetes_validate.validate(manifest, version, strict=True)


def test_a_field_that_the_api_does_not_have_is_found():
    wrong = {**SET, "spec": {**SET["spec"], "replica": 3}}
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(wrong, VERSIONS[0], strict=True)


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
    assert mounts == {"/var/lib/leveret", "/etc/leveret", "/tmp"}
    assert all(path in text for path in mounts)


def test_the_pod_is_allowed_where_pods_are_restricted():
    """The standard "restricted" of Kubernetes for pods; the root file system is read-only, too."""
    assert POD["securityContext"]["runAsNonRoot"]
    assert POD["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert CONTAINER["securityContext"] == {
        "allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]},
        "readOnlyRootFilesystem": True,
    }  # fmt: skip


def test_a_majority_of_the_nodes_is_left_when_pods_are_evicted():
    (budget,) = of_kind("PodDisruptionBudget")
    replicas = SET["spec"]["replicas"]
    assert replicas - budget["spec"]["maxUnavailable"] > replicas / 2


def test_volumes_that_are_mounted_exist():
    claims = {one["metadata"]["name"] for one in SET["spec"]["volumeClaimTemplates"]}
    volumes = {one["name"] for one in POD["volumes"]}
    assert {mount["name"] for mount in CONTAINER["volumeMounts"]} == claims | volumes


def test_a_node_is_ready_when_its_port_for_clients_is_open():
    for probe in ("startupProbe", "readinessProbe"):
        assert CONTAINER[probe]["tcpSocket"] == {"port": "amqp"}
    # As long as a node waits for others (mnesia_table_loading_retry_limit and _timeout).
    startup = CONTAINER["startupProbe"]
    assert startup["periodSeconds"] * startup["failureThreshold"] >= 10 * 30


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
