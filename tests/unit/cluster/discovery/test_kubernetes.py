"""Nodes among the endpoints of a Kubernetes service, and the event of a start."""

import re
import socket
import ssl

import pytest

from leveret.broker.config.formation_settings import KubernetesSettings
from leveret.broker.config.setting_error import SettingError
from leveret.cluster.discovery.discovery import DiscoveryError
from leveret.cluster.discovery.kubernetes import Kubernetes
from leveret.cluster.discovery.node_names import NodeNames
from tests.feature.certificate_authority import CertificateAuthority
from tests.unit.cluster.discovery.json_server import Answer, JsonServer

ENDPOINTS = "GET /api/v1/namespaces/burrow/endpoints/rabbitmq"
EVENTS = "POST /api/v1/namespaces/burrow/events"


def endpoint(number):
    """An address as the API server lists it."""
    name = f"rabbitmq-{number}"
    target = {"kind": "Pod", "namespace": "burrow", "name": name, "uid": "db4ae12b"}
    return {
        "ip": f"10.0.0.{number}", "hostname": name, "nodeName": "worker", "targetRef": target
    }  # fmt: skip


def endpoints(ready=(), not_ready=()):
    subset = {"ports": [{"name": "amqp", "port": 5672, "protocol": "TCP"}]}
    if ready:
        subset["addresses"] = [endpoint(number) for number in ready]
    if not_ready:
        subset["notReadyAddresses"] = [endpoint(number) for number in not_ready]
    return Answer({"kind": "Endpoints", "apiVersion": "v1", "subsets": [subset]})


@pytest.fixture
async def server():
    async with JsonServer().running() as server:
        yield server


@pytest.fixture
def account(tmp_path):
    """The files of a service account."""
    (tmp_path / "token").write_text("t0ken\n")
    (tmp_path / "namespace").write_text("burrow\n")
    return {"token_path": tmp_path / "token", "namespace_path": tmp_path / "namespace"}


@pytest.fixture
async def make(server, account):
    """Makes backends, given settings."""
    made = []

    def make_one(own="rabbit@10.0.0.1", **settings):
        given = {"scheme": "http", **server.host_and_port, **account, **settings}
        made.append(Kubernetes(KubernetesSettings(**given), NodeNames(own)))
        return made[-1]

    yield make_one
    for one in made:
        await one.close()


async def listed(kubernetes):
    return [node.name for node in (await kubernetes.list_nodes()).nodes]


async def test_nodes_are_the_addresses_of_pods_ready_or_not(server, make):
    server.answers[ENDPOINTS] = endpoints(ready=[1], not_ready=[2, 3])
    assert await listed(make()) == ["rabbit@10.0.0.1", "rabbit@10.0.0.2", "rabbit@10.0.0.3"]
    assert server.asked[0].headers["Authorization"] == "Bearer t0ken"


async def test_nodes_are_the_names_of_pods_with_the_suffix(server, make):
    server.answers[ENDPOINTS] = endpoints(not_ready=[1, 2])
    suffix = ".rabbitmq.burrow.svc.cluster.local"
    own = f"rabbit@rabbitmq-1{suffix}"
    kubernetes = make(own, address_type="hostname", hostname_suffix=suffix)
    assert await listed(kubernetes) == [own, f"rabbit@rabbitmq-2{suffix}"]


@pytest.fixture
async def tls_server(tmp_path):
    """The API server as pods see it; and the file of the authority that has signed for it."""
    authority = CertificateAuthority(tmp_path, "cluster")
    identity = authority.issue("api", names=["127.0.0.1"])
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(identity.certfile, identity.keyfile)
    async with JsonServer().running(context) as server:
        yield server, authority.certfile


async def test_the_token_goes_to_the_api_server_over_tls(tls_server, make):
    server, authority = tls_server
    server.answers[ENDPOINTS] = endpoints(ready=[1], not_ready=[2])
    kubernetes = make(scheme="https", cert_path=authority, **server.host_and_port)
    assert await listed(kubernetes) == ["rabbit@10.0.0.1", "rabbit@10.0.0.2"]
    await kubernetes.registration.register()
    assert server.lines == [ENDPOINTS, EVENTS]
    assert {asked.headers["Authorization"] for asked in server.asked} == {"Bearer t0ken"}


async def test_a_server_that_another_authority_has_signed_for_gets_no_token(
    tls_server, make, tmp_path
):
    server, _ = tls_server
    other = CertificateAuthority(tmp_path, "other")
    kubernetes = make(scheme="https", cert_path=other.certfile, **server.host_and_port)
    with pytest.raises(DiscoveryError, match="check cluster_formation.k8s.host, port, scheme and"):
        await kubernetes.list_nodes()
    assert server.asked == []


async def test_the_token_is_read_for_each_request(server, make, account):
    server.answers[ENDPOINTS] = endpoints(ready=[1])
    kubernetes = make()
    await kubernetes.list_nodes()
    account["token_path"].write_text("another")
    await kubernetes.list_nodes()
    assert [asked.headers["Authorization"][7:] for asked in server.asked] == ["t0ken", "another"]


@pytest.mark.parametrize("answer", [endpoints(ready=[2]), Answer({"kind": "Endpoints"})])
async def test_a_list_without_the_node_itself_is_an_error(server, make, answer):
    server.answers[ENDPOINTS] = answer
    with pytest.raises(DiscoveryError, match=r"and not this node, rabbit@10\.0\.0\.1: compare the"):
        await make().list_nodes()


async def test_pods_without_host_names_are_an_error_that_says_what_they_need(server, make):
    nameless = {"subsets": [{"addresses": [{"ip": "10.0.0.1"}]}]}
    server.answers[ENDPOINTS] = Answer(nameless)
    with pytest.raises(DiscoveryError, match="10.0.0.1 of rabbitmq has no hostname: make the serv"):
        await make(address_type="hostname").list_nodes()


@pytest.mark.parametrize(
    ("status", "said", "advice"),
    [
        (403, 'endpoints "rabbitmq" is forbidden', "needs a role with the verb get for endpoints"),
        (404, 'endpoints "rabbitmq" not found', "check cluster_formation.k8s.service_name"),
        (500, "etcdserver: request timed out", "look at the log of the API server of Kubernetes"),
    ],
)
async def test_a_refusal_is_told_with_what_to_do(server, make, status, said, advice):
    server.answers[ENDPOINTS] = Answer({"kind": "Status", "message": said}, status)
    with pytest.raises(DiscoveryError, match=f"status {status} .*{advice}") as error:
        await make().list_nodes()
    assert said in str(error.value).replace("\\", "")


@pytest.mark.parametrize("content", [None, "", "two\nlines", "\0"])
async def test_a_token_that_cannot_be_read_names_its_file(make, account, content):
    if content is None:
        account["token_path"].unlink()
    else:
        account["token_path"].write_text(content)
    with pytest.raises(DiscoveryError, match=r"token cannot be read: .*k8s\.token_path"):
        await make().list_nodes()


def test_authorities_that_cannot_be_read_are_a_mistake_of_their_setting(tmp_path):
    settings = KubernetesSettings(cert_path=tmp_path / "ca.crt")
    with pytest.raises(SettingError, match="no authorities can be read from") as error:
        Kubernetes(settings, NodeNames("rabbit@one"))
    assert error.value.attribute == "cluster_formation.kubernetes.cert_path"


async def test_a_start_is_an_event(server, make):
    server.answers[EVENTS] = Answer({"kind": "Event"}, 201)
    await make().registration.register()
    event = server.asked[0].body
    host = socket.gethostname()
    assert re.fullmatch(rf"{re.escape(host)}\.\d+", event["metadata"]["name"])
    assert event["metadata"]["namespace"] == "burrow"
    assert (event["type"], event["reason"], event["count"]) == ("Normal", "Created", 1)
    assert event["message"] == "Node rabbit@10.0.0.1 is registered"
    assert event["involvedObject"]["name"] == host
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", event["lastTimestamp"])


async def test_an_event_that_is_refused_is_a_warning(server, make, caplog):
    server.answers[EVENTS] = Answer({"message": 'events is forbidden: User "x" cannot create'}, 403)
    await make().registration.register()
    assert "failed to post an event of the start to Kubernetes: POST" in caplog.text
    assert "t0ken" not in caplog.text
