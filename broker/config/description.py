"""The page docs/configuration.md, written from the declarations.

python -m broker.config.description > docs/configuration.md
"""

from broker.config.declaration import Setting
from broker.config.settings import SETTINGS

HEAD = """\
# Configuration

Leveret is configured by a file (`leveret serve --config FILE`, or the variable `LEVERET_CONFIG`),
by environment variables and by flags. A flag goes before a variable, and a variable before the
file. What is set nowhere has its default, which is that of RabbitMQ 3.13.

The file has RabbitMQ's format and RabbitMQ's keys: a `rabbitmq.conf` works as it is.

    # Comments begin with a number sign, on a line of their own or after a value.
    listeners.tcp.default = 5672
    listeners.tcp.local = 127.0.0.1:5673
    heartbeat = 30
    default_pass = 'between quotes, a # is part of the value'
    include conf.d/*.conf
    disk_free_limit.absolute = 2GB

- If a key is there twice, the last one counts.
- `include` reads other files, and a value `$(<secret.txt)` is the content of one; both are relative
  to the file that has them.
- Sizes are bytes or have a unit. KB, MB and GB are powers of 1,000; K, M, G, KiB, MiB and GiB are
  powers of 1,024. For `frame_max`, `initial_frame_max` and `queue_index_embed_msgs_below` KB, MB
  and GB, too, are powers of 1,024, as in RabbitMQ.
- A `$` in a key below stands for a word of your own. Such keys are a family: in a file each has a
  line (`loopback_users.guest = false`), and `loopback_users = none` empties the family. In a
  variable they are one text with commas, `LEVERET_LOOPBACK_USERS=guest,monitor`, or `none`.
- A variable that is empty counts as not set.
- A key that is unknown, or a value that does not fit, stops the start. The message names the file,
  the line, the key and the nearest known one; all problems are shown at once.
- A key that RabbitMQ 3.13 or a plugin of it knows and that is not below has no effect. It is
  accepted, and the start logs a warning that names it.

| Key | Flag, variable | Default | Unit | What it does |
| --- | --- | --- | --- | --- |
"""


def describe_settings() -> str:
    """The text of the page."""
    return HEAD + "".join(map(_row, SETTINGS))


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
