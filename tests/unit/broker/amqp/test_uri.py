"""AMQP URIs: what they say, and errors that show no password."""

import pytest

from leveret.broker.amqp.uri import (
    AmqpUri,
    TlsOptions,
    UriError,
    parse_uri,
    shown_uri,
    without_credentials,
)


@pytest.mark.parametrize(
    ("uri", "parsed"),
    [
        ("amqp://host", AmqpUri("host")),
        ("AMQP://host:5673", AmqpUri("host", 5673)),
        ("amqp://[::1]:5672", AmqpUri("::1", 5672)),
        ("amqp://[::1]", AmqpUri("::1")),
        ("amqp://anna@host", AmqpUri("host", user="anna")),
        ("amqp://anna:sesame@host", AmqpUri("host", user="anna", password="sesame")),
        ("amqp://a%40b:%3A%C3%BC@host", AmqpUri("host", user="a@b", password=":ü")),
        ("amqp://anna:s@e:same@host", AmqpUri("host", user="anna", password="s@e:same")),
        ("amqp://anna:@host", AmqpUri("host", user="anna", password="")),
        ("amqp://host/", AmqpUri("host", vhost="")),
        ("amqp://host/%2F", AmqpUri("host", vhost="/")),
        ("amqp://host/a%20b", AmqpUri("host", vhost="a b")),
        ("amqp://host/v@x", AmqpUri("host", vhost="v@x")),
        ("amqp://host/v?#fragment", AmqpUri("host", vhost="v")),
        ("amqp://", AmqpUri()),
        ("amqp:///v", AmqpUri(vhost="v")),
        ("amqp://anna:sesame@", AmqpUri(user="anna", password="sesame")),
        ("amqp://host?heartbeat=5&connection_timeout=1500&channel_max=7&frame_max=8192",
         AmqpUri("host", heartbeat_s=5, connection_timeout_ms=1500, channel_max=7,
                 frame_max=8192)),
        ("amqp://host?auth_mechanism=external&auth_mechanism=PLAIN",
         AmqpUri("host", mechanisms=("external", "plain"))),
        ("amqp://host?password=sesame", AmqpUri("host", password="sesame")),
        ("amqp://host?unknown=1&heartbeat", AmqpUri("host")),
        ("amqps://host", AmqpUri("host", tls=TlsOptions())),
        ("amqps://anna:sesame@host?password=of%20the%20key",
         AmqpUri("host", user="anna", password="sesame",
                 tls=TlsOptions(key_password="of the key"))),
        ("amqps://host?cacertfile=%2Fca.pem&certfile=/c.pem&keyfile=/k.pem&verify=verify_peer"
         "&fail_if_no_peer_cert=true&server_name_indication=name&depth=2",
         AmqpUri("host", tls=TlsOptions("/ca.pem", "/c.pem", "/k.pem", "", True, True, "name",
                                        2))),
    ],
)  # fmt: skip
def test_what_a_uri_says(uri, parsed):
    assert parse_uri(uri) == parsed


def test_the_vhost_of_a_uri_without_a_path_may_be_another():
    assert parse_uri("amqp://host", "mine").vhost == "mine"
    assert parse_uri("amqp://host/", "mine").vhost == ""


@pytest.mark.parametrize(
    ("uri", "reason"),
    [
        ("http://x", '{{unexpected_uri_scheme,"http"},"http://x"}'),
        ("z", '{{unable_to_parse_uri,no_scheme},"z"}'),
        ("", "{{unable_to_parse_uri,no_scheme},[]}"),
        ("amqp://h:99999", '{{port_out_of_range,99999},"amqp://h:99999"}'),
        ("amqp://h:0", '{{port_out_of_range,0},"amqp://h:0"}'),
        ("amqp://:5672", '{port_requires_host,"amqp://:5672"}'),
        ("amqp://h/a/b", '{{invalid_vhost,"a/b"},"amqp://h/a/b"}'),
        ("amqp://h?heartbeat=x",
         '{{invalid_amqp_params_parameter,heartbeat,"x",[{"heartbeat","x"}],'
         '{not_an_integer,"x"}},"amqp://h?heartbeat=x"}'),
        ("amqp://h?heartbeat=",
         '{{invalid_amqp_params_parameter,heartbeat,[],[{"heartbeat",[]}],'
         '{not_an_integer,[]}},"amqp://h?heartbeat="}'),
        ("amqp://h?port=x",
         '{{invalid_amqp_params_parameter,port,"x",[{"port","x"}],'
         '{parameter_unconfigurable_in_query,port,"x"}},"amqp://h?port=x"}'),
        ("amqps://h?fail_if_no_peer_cert=maybe",
         '{{invalid_ssl_parameter,fail_if_no_peer_cert,"maybe",'
         '[{"fail_if_no_peer_cert","maybe"}],{require_boolean,maybe}},'
         '"amqps://h?fail_if_no_peer_cert=maybe"}'),
        ("amqp://h?auth_mechanism=a:b:c",
         '{{not_mechanism,[a,b,c]},"amqp://h?auth_mechanism=a:b:c"}'),
    ],
)  # fmt: skip
def test_errors_have_rabbitmqs_reasons(uri, reason):
    with pytest.raises(UriError) as error:
        parse_uri(uri)
    assert str(error.value) == f'"{uri}" not a valid URI: {reason}'


@pytest.mark.parametrize(
    "uri",
    ["amqp:host", "amqp:", "amqp://h:", "amqp://h:port", f"amqp://h:{'1' * 5000}", "amqp://[::1",
     "amqp://[::1]x", "amqp://h/%zz", "amqp://h/%2", "amqps://", "amqp://h?auth_mechanism=nonsense",
     "amqp://h?heartbeat=-1", f"amqp://h?heartbeat={'1' * 5000}", "amqps://h?verify=nonsense",
     "amqps://h?depth=x", "amqps://h?cacertfile=%zz"],
)  # fmt: skip
def test_what_cannot_work_is_refused(uri):
    with pytest.raises(UriError, match="not a valid URI"):
        parse_uri(uri)


@pytest.mark.parametrize(
    "uri",
    ["http://anna:sesame@h", "anna:sesame@h", "amqp://anna:sesame%zz@h", "amqp://anna:sesame%@h",
     "amqp://anna:sesame@h/a/b", "amqp://anna:sesame/word@h", "amqp://anna:sesame#word@h",
     "amqp://anna:sesame?word@h", "amqp://sesame:x/y@h", "amqp://anna:x/sesame/y@h",
     "amqp://anna:sesame@h:port",
     "amqp://h?password=sesame&heartbeat=x", "amqp://anna:sesame@h?heartbeat=x",
     "amqps://h?password=sesame%zz", "amqps://h?password=sesame&depth=x",
     "amqps://h?Password=sesame&depth=x"],
)  # fmt: skip
def test_no_error_shows_a_password(uri):
    with pytest.raises(UriError) as error:
        parse_uri(uri)
    for text in (str(error.value), repr(error.value.reason), without_credentials(uri)):
        assert "sesame" not in text
    assert "anna" not in str(error.value)


@pytest.mark.parametrize(
    ("uri", "shown"),
    [
        ("amqp://anna:sesame@host:5672/v?heartbeat=5", "amqp://host:5672/v"),
        ("amqps://anna:se@same@host/%2F?password=sesame", "amqps://host/%2F"),
        ("amqp://anna:sesame@[::1]:5672", "amqp://[::1]:5672"),
        ("amqp://", "amqp://"),
        ("amqp:///v", "amqp:///v"),
        ("amqp://host/v@x", "amqp://host/v@x"),
        ("amqp://anna:sesame/word@host?password=x", "amqp://host"),
        ("nonsense", "nonsense"),
    ],
)
def test_a_uri_for_logs(uri, shown):
    assert without_credentials(uri) == shown


def test_values_do_not_show_their_passwords():
    uri = parse_uri("amqps://anna:sesame@host?password=sesame")
    assert "sesame" not in repr(uri)
    assert (
        shown_uri("amqp://anna:sesame@host?password=sesame&x=1") == "amqp://host?password=...&x=1"
    )
