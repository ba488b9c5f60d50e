"""The page docs/operate/configuration.md, written from the declarations.

python -m leveret.broker.config > docs/operate/configuration.md
"""

from textwrap import fill

from leveret.broker.config.advanced import TAKEN
from leveret.broker.config.declaration import Setting
from leveret.broker.config.settings import SETTINGS

HEAD = """\
# Configuration

Leveret is configured by a file (`leveret serve --config FILE`, or the variable `LEVERET_CONFIG`),
by environment variables and by flags. A flag takes precedence over a variable, and a variable over
the file and RabbitMQ's [advanced.config](#advancedconfig). The defaults are those of RabbitMQ 3.13;
[compatibility.md](../reference/compatibility.md) says which version of RabbitMQ is meant where.

The file has RabbitMQ's format and RabbitMQ's keys: a `rabbitmq.conf` works unchanged.

    # A comment begins with a number sign, at the start of a line or after a value.
    listeners.tcp.default = 5672
    listeners.tcp.local = 127.0.0.1:5673
    heartbeat = 30
    default_pass = 'within quotes, a # is part of the value'
    include conf.d/*.conf
    disk_free_limit.absolute = 2GB

- If a key occurs twice, the last value is used.
- `include` reads other files, and a value `$(<secret.txt)` is the content of a file; both paths are
  relative to the file that contains them.
- `$(key)` in a value is the value of that key in the files (`log.dir = $(data_dir)/log`), or if no
  file has the key, of the environment variable with this name (`default_pass = $(MQ_PASS)`). An
  unknown key and a circular reference stop the start. The content of a file is used unchanged.
- Sizes are bytes or have a unit. KB, MB, GB, TB and PB are powers of 1,000; Ki, Mi, Gi, Ti, Pi,
  KiB and so on are powers of 1,024. K, M, G, T and P alone are powers of 1,024, as in RabbitMQ
  3.12; with `compat = 4.x` they are powers of 1,000, as in RabbitMQ since 3.13. For `frame_max`,
  `initial_frame_max` and `queue_index_embed_msgs_below`, KB, MB and so on are powers of 1,024, too,
  as in RabbitMQ.
- A word that begins with `$` in a key below stands for any word. Such keys are a family: in a file
  each has a line (`loopback_users.guest = false`), and `loopback_users = none` empties the family.
  A variable has all of them, separated by commas: `LEVERET_LOOPBACK_USERS=guest,monitor`, or
  `none`. A comma within brackets or double quotes belongs to a value.
- The file `enabled_plugins` enables plugins ([plugins.md](../reference/plugins.md)). It is the one
  that the variable `LEVERET_ENABLED_PLUGINS_FILE` or `RABBITMQ_ENABLED_PLUGINS_FILE` names, or the
  one beside the configuration file, or without a configuration file the one in the data directory.
- An empty variable is ignored.
- An unknown key or an invalid value stops the start. The message names the file, the line, the key
  and the most similar known key; all problems are shown at once.
- A key of RabbitMQ 3.13 or its plugins that is not listed below has no effect. It is accepted, and
  a warning at startup names it. With `compat = 4.x` this is true for the keys of RabbitMQ 4.0 to
  4.3, too, except for a few that limit access (`auth_oauth2.require_exp`, `auth_ldap.queries.tags`,
  `http_dispatch.auth_backends`, `ssl_options.crl_sources`): they stop the start.
- TLS versions before 1.2 are left out with a warning if 1.2 or 1.3 is there, too.
- A mistake that shows only when the setting is used, such as a port that is taken or a file that is
  missing, also stops the start with one line that names the setting's place, and exit code 2.
- A variable that begins with `LEVERET_` and belongs to no setting stops the start. Those that
  Kubernetes sets for a service called `leveret` are ignored.

## advanced.config

RabbitMQ keeps some settings in a second file of Erlang terms, `advanced.config`. Leveret reads the
one beside its configuration file, or the one that the variable `LEVERET_ADVANCED_CONFIG` names:

    [{rabbit, [{heartbeat, 30}]},
     {rabbitmq_shovel, [{shovels, [...]}]}].

Of `rabbitmq_shovel` the static shovels are read ([shovels.md](shovels.md#static-shovels)). Of
`rabbit` these settings are read if they are numbers or words, and replace those of the
configuration file:
@@TAKEN@@. Others,
and other applications, have no effect; a warning at startup names them. A file that is not a list
of Erlang terms, or is larger than 1 MiB, stops the start with the line and the column.
"""
TABLE = """
## {title}

| Key | Flag, variable | Default | Unit | What it does |
| --- | --- | --- | --- | --- |
"""
LINE_CHARACTERS = 98
LISTENER_FIELDS = ("listeners", "tls_listeners", "port", "bind", "tls_port", "tls_bind")
LISTENERS, NODE = "Listeners", "The node and the protocol"
SECTIONS = {
    "tcp": "TCP",
    "tls": "TLS",
    "authentication": "Logins",
    "auth_cache": "Cache of logins",
    "auth_http": "Logins by HTTP",
    "ldap": "Logins by LDAP",
    "oauth2": "Logins by OAuth 2",
    "memory": "Memory",
    "disk": "Disk",
    "management": "Management",
    "prometheus": "Metrics",
    "stomp": "STOMP",
    "web_mqtt": "MQTT over WebSockets",
    "web_stomp": "STOMP over WebSockets",
    "stream": "The stream protocol",
    "retained": "Retained messages of MQTT",
    "mqtt": "MQTT",
    "amqp10": "AMQP 1.0",
    "interceptors": "Annotations of messages",
    "log": "Log",
    "tracing": "Traces",
    "cluster": "Links between nodes",
    "cluster_formation": "Cluster formation",
}
"""The titles of the sections of `Config`."""


def describe_settings() -> str:
    """The text of the page."""
    rows: dict[str, list[str]] = {title: [] for title in (LISTENERS, NODE, *SECTIONS.values())}
    for setting in SETTINGS:
        rows[_title_of(setting)].append(_row(setting))
    tables = (TABLE.format(title=title) + "".join(found) for title, found in rows.items())
    return HEAD.replace("@@TAKEN@@", _taken()) + "".join(tables)


def _taken() -> str:
    """The keys of advanced.config that are read, in lines."""
    return fill(", ".join(f"`{key}`" for key in sorted(TAKEN)), LINE_CHARACTERS)


def _title_of(setting: Setting) -> str:
    section, _, field = setting.attribute.partition(".")
    if (field or section) in LISTENER_FIELDS:
        return LISTENERS
    return SECTIONS[section] if field else NODE


def _row(setting: Setting) -> str:
    keys = ", or ".join(f"`{key}`" for key in setting.keys) or "no key"
    flag = f"`--{setting.flag.replace('_', '-')}`, " if setting.flag else ""
    cells = (
        keys,
        f"{flag}`{setting.variable}`",
        setting.default_text,
        setting.kind.unit,
        setting.purpose,
    )
    return f"| {' | '.join(cells)} |\n"
