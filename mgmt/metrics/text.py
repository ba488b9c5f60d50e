"""Pages of metrics: Prometheus's text format (0.0.4), and OpenMetrics (1.0.0).

All samples of a family must be adjacent, so a page is collected first: single samples as
lines, and objects as tables, with a row for each and a column for each family. Then it is written
in chunks of a few hundred lines, so that the node can do other work in between: the page of ten
thousand queues has more than three hundred thousand lines. prometheus-client writes the end of a
page, with the families of the runtime (runtime.py), which are few.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4
from prometheus_client.exposition import generate_latest as generate_text
from prometheus_client.openmetrics.exposition import CONTENT_TYPE_LATEST
from prometheus_client.openmetrics.exposition import generate_latest as generate_open

from leveret.mgmt.metrics.families import COUNTER, UNTYPED, Families, Family

LINES_MAX = 400
"""Lines of a chunk: it takes about a quarter of a millisecond."""

Labels = tuple[tuple[str, str], ...]
Value = float | None
Row = Sequence[Value]


class Format(NamedTuple):
    """One of the two formats. generate: the library's page of a registry, with the format's end."""

    content_type: str
    is_open: bool
    generate: Callable[[CollectorRegistry], bytes]


TEXT = Format(CONTENT_TYPE_PLAIN_0_0_4, False, generate_text)
OPEN_METRICS = Format(CONTENT_TYPE_LATEST, True, generate_open)


def render_labels(labels: Labels) -> str:
    """`{vhost="/",queue="q"}`, or nothing."""
    if not labels:
        return ""
    return "{" + ",".join([f'{name}="{_escaped(value)}"' for name, value in labels]) + "}"


def _escaped(value: str) -> str:
    r"""The value of a label, escaped.

    The formats escape backslashes, line feeds and quotes. Bytes that are not UTF-8 and NUL have no
    escape: they become `\\xff`, so that two names that differ in them still differ.
    """
    if value.isascii() and value.isprintable() and "\\" not in value and '"' not in value:
        return value
    try:
        value.encode()
    except UnicodeEncodeError:
        value = value.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
    value = value.replace("\0", "\\x00")
    return value.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')


class _Table(NamedTuple):
    labels: Sequence[str]
    rows: Sequence[Row]
    column: int


class _Gathered:
    """The samples of one family."""

    __slots__ = ("family", "lines", "name", "tables")

    def __init__(self, name: str, family: Family) -> None:
        self.name = name
        self.family = family
        self.lines: list[str] = []
        self.tables: list[_Table] = []

    def pieces(self) -> Iterator[list[str]]:
        """The lines of the samples, in lists of a few hundred."""
        yield self.lines
        name = self.name
        for labels, rows, column in self.tables:
            for start in range(0, len(rows), LINES_MAX):
                end = start + LINES_MAX
                yield [
                    f"{name}{label} {row[column]!r}"
                    for label, row in zip(labels[start:end], rows[start:end], strict=True)
                    if row[column] is not None
                ]


class Exposition:
    """A page that is being collected.

    prefix: precedes every name, unless another one is given. runtime: families that the library
    writes at the end of the page.
    """

    def __init__(self, prefix: str, runtime: CollectorRegistry | None = None) -> None:
        self._prefix = prefix
        self._runtime = CollectorRegistry() if runtime is None else runtime
        self._gathered: dict[str, _Gathered] = {}

    def _of(self, family: Family, prefix: str | None = None) -> _Gathered:
        name = (self._prefix if prefix is None else prefix) + family.name
        gathered = self._gathered.get(name)
        if gathered is None:
            gathered = self._gathered[name] = _Gathered(name, family)
        return gathered

    def add(
        self,
        family: Family,
        value: Value,
        labels: str = "",
        *,
        prefix: str | None = None,
        suffix: str = "",
    ) -> None:
        """Add a sample. labels: rendered. value: None if the family has no sample."""
        gathered = self._of(family, prefix)
        if value is not None:
            gathered.lines.append(f"{gathered.name}{suffix}{labels} {value!r}")

    def add_row(self, families: Families, values: Row, labels: str = "") -> None:
        """Add a sample to each family."""
        for family, value in zip(families, values, strict=True):
            self.add(family, value, labels)

    def add_table(
        self, families: Families, columns: Sequence[int], labels: Sequence[str], rows: Sequence[Row]
    ) -> None:
        """Add objects. columns: each family's column in the rows. labels: each row's, rendered."""
        for family, column in zip(families, columns, strict=True):
            self._of(family).tables.append(_Table(labels, rows, column))

    def add_histogram(
        self, family: Family, bounds: Sequence[float], counts: Sequence[int], total: float,
        labels: Labels,
    ) -> None:  # fmt: skip
        """Add a histogram. counts: not cumulative; one for each bound, and one for values above."""
        running = 0
        for bound, count in zip((*map(repr, bounds), "+Inf"), counts, strict=True):
            running += count
            self.add(family, running, render_labels((*labels, ("le", bound))), suffix="_bucket")
        rendered = render_labels(labels)
        self.add(family, running, rendered, suffix="_count")
        self.add(family, total, rendered, suffix="_sum")

    def chunks(self, form: Format) -> Iterator[bytes]:
        """The page without its ending, in chunks of about `LINES_MAX` lines."""
        lines: list[str] = []
        for gathered in self._gathered.values():
            lines += _head(gathered, form)
            for piece in gathered.pieces():
                lines += piece
                if len(lines) >= LINES_MAX:
                    yield ("\n".join(lines) + "\n").encode()
                    lines = []
        if lines:
            yield ("\n".join(lines) + "\n").encode()

    def ending(self, form: Format) -> bytes:
        """The families of the runtime, and the end of an OpenMetrics page. May run in a thread."""
        return form.generate(self._runtime)

    def render(self, form: Format = TEXT) -> bytes:
        """The page in one piece."""
        return b"".join(self.chunks(form)) + self.ending(form)


def _head(gathered: _Gathered, form: Format) -> tuple[str, str]:
    name, (_, kind, text) = gathered.name, gathered.family
    text = text.replace("\\", "\\\\").replace("\n", "\\n")
    if form.is_open:
        text = text.replace('"', '\\"')
        if kind == UNTYPED or (kind == COUNTER and not name.endswith("_total")):
            # In OpenMetrics the name of a counter has to end with `_total`.
            kind = "unknown"
        elif kind == COUNTER:
            name = name.removesuffix("_total")
    return f"# TYPE {name} {kind}", f"# HELP {name} {text}"
