"""The texts for addresses, passwords and rights that are wrong, before anything is changed."""

import pytest

from leveret.mgmt.ctl.client import TIMEOUT_SECONDS, HttpError
from leveret.mgmt.ctl.errors import TIMED_OUT, UNAVAILABLE, CtlError
from leveret.mgmt.ctl.migrating.other_broker import LIST_SECONDS, OtherBroker, checked_management

URL = "http://old:15672"
RIGHTS = {
    "whoami": {"name": "mover", "tags": ["administrator"]},
    "overview": {"rabbitmq_version": "3.10.8", "disable_stats": False},
    "users": [{"vhost": "/", "read": ".*", "write": ".*"}],
}


class KeptApi:
    """Answers from a table, or with its error. Values may be exceptions."""

    timeout_s = 60

    def __init__(self, **answers):
        self.answers = {**RIGHTS, **answers}

    def wait_longer(self, seconds):
        """There is no limit."""

    def request(self, _method, path, *, body=None, query=None):
        found = self.answers[path[0]]
        if isinstance(found, Exception):
            raise found
        if isinstance(found, list) and query:
            return [self._columns(one, query["columns"].split(",")) for one in found]
        return found

    def _columns(self, item, columns):
        """The wanted columns that there are. RabbitMQ's empty object is an empty list."""
        return {name: item[name] for name in columns if name in item} or []


def broker(uri="amqp://mover@old", **answers):
    one = OtherBroker(uri, URL, "secret", 60)
    one.api = KeptApi(**answers)
    return one


def refused(**answers):
    """The text of the error."""
    with pytest.raises(CtlError) as refusal:
        broker(**answers).require_rights()
    return refusal.value.text


@pytest.mark.parametrize(
    "url",
    ["old:15672", "http://", "http://old:x", "http://old:70000", "ftp://old", "http://[::1", "x"],
)
def test_urls_that_are_none(url):
    with pytest.raises(CtlError, match="--management must be a URL such as"):
        checked_management(url)


def test_a_url_with_a_user_is_refused():
    with pytest.raises(CtlError, match="has no user"):
        checked_management("http://mover@old:15672")


def test_a_user_with_all_rights():
    broker().require_rights()
    broker(whoami={"tags": "monitoring,administrator"}).require_rights()


@pytest.mark.parametrize("status", [401, 403])
def test_a_wrong_password_or_a_user_without_a_tag(status):
    said = refused(whoami=HttpError(status, "not authorised"))
    assert "does not let user 'mover' log in to management: check the password" in said


def test_a_password_that_was_changed_later():
    one = broker()
    one.require_rights()
    one.api.answers["consumers"] = HttpError(401, "not authorised")
    with pytest.raises(CtlError, match="check the password"):
        one.queues()


@pytest.mark.parametrize(
    "whoami",
    [HttpError(404, "Not Found"), HttpError(301, "the answer is not JSON"), None, [], {"a": 1}],
)
def test_an_address_at_which_something_else_answers(whoami):
    said = refused(whoami=whoami)
    assert f"{URL} does not answer as RabbitMQ's management does" in said
    assert "rabbitmq-plugins enable rabbitmq_management" in said


def test_advice_is_given_until_the_broker_has_answered():
    away = CtlError("nothing is listening", UNAVAILABLE)
    assert "rabbitmq-plugins enable rabbitmq_management" in refused(whoami=away)
    assert refused(overview=away) == "nothing is listening"
    assert refused(whoami=CtlError("late", TIMED_OUT)) == "late"


@pytest.mark.parametrize(("given", "of_a_list"), [(None, LIST_SECONDS), (5, 5)])
def test_long_lists_may_take_longer_unless_a_time_limit_is_given(given, of_a_list):
    one = OtherBroker("amqp://mover@old", URL, "secret", given)
    other_s = TIMEOUT_SECONDS if given is None else given
    assert [one.patience_s("queues"), one.patience_s("whoami")] == [of_a_list, other_s]


def test_a_certificate_that_is_not_trusted():
    untrusted = CtlError(f"TLS with {URL} fails: self-signed certificate", UNAVAILABLE)
    assert "'?cacertfile=/etc/ca.pem&verify=verify_peer'" in refused(whoami=untrusted)


def test_statistics_that_are_off():
    said = refused(overview={"disable_stats": True})
    assert "it cannot tell what is left there: remove management.disable_stats" in said


def test_names_in_commands_are_those_of_a_shell():
    one = broker(users=[])
    with pytest.raises(CtlError, match="may not read and write in 2 virtual hosts") as refusal:
        one.require_access(["/a b", "it's", "/a b"])
    assert refusal.value.text.splitlines()[-2:] == [
        "    rabbitmqctl set_permissions -p '/a b' mover '.*' '.*' '.*'",
        """    rabbitmqctl set_permissions -p 'it'"'"'s' mover '.*' '.*' '.*'""",
    ]


def test_a_node_that_has_just_started_does_not_know_its_plugins():
    nodes = [{"name": "a", "running": True}, {"name": "b", "enabled_plugins": ["x"]}]
    assert broker(nodes=nodes).plugins() == {"x"}


@pytest.mark.parametrize("vhost", ["/", "/a b", "100%", "ü/é"])
def test_the_uri_of_a_vhost_has_it_encoded(vhost):
    uri = broker("amqp://mover@old:5673?heartbeat=5").uri(vhost)
    assert uri.startswith("amqp://mover:secret@old:5673/")
    assert uri.count("/") == 3
    assert uri.endswith("?heartbeat=5")


def test_certificates_that_cannot_be_read(tmp_path):
    (tmp_path / "ca.pem").write_text("none")
    with pytest.raises(CtlError, match="no authorities can be read from"):
        broker(f"amqps://mover@old?cacertfile={tmp_path}/ca.pem")
