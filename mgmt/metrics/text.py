"""Pages of metrics: Prometheus's text format (0.0.4), and OpenMetrics (1.0.0).

All samples of a family have to stand together, so a page is gathered first: single samples as
lines, and objects as tables, with a row for each and a column for each family. Then it is written
out in chunks of a few hundred lines, so that whoever writes can do other work in between: of ten
thousand queues a page has two hundred thousand lines.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from mgmt.metrics.families import COUNTER, UNTYPED, Families, Family

LINES_MAX = 400
"""Of a chunk: a quarter of a millisecond's work."""

Labels = tuple[tuple[str, str], ...]
Value = float | None
Row = Sequence[Value]


class Format(NamedTuple):
    """One of the two formats."""

    content_type: str
    is_open: bool


TEXT = Format("text/plain; version=0.0.4; charset=utf-8", is_open=False)
OPEN_METRICS = Format("application/openmetrics-text; version=1.0.0; charset=utf-8", is_open=True)


def render_labels(labels: Labels) -> str:
    """`{vhost="/",queue="q"}`, or nothing."""
    if not labels:
        return ""
    return "{" + ",".join([f'{name}="{_escaped(value)}"' for name, value in labels]) + "}"


def _escaped(value: str) -> str:
    """Backslashes, line feeds and quotes have to be escaped; what is no text, or a NUL, cannot be.

    Names that differ only in such bytes have to differ here, too, so these are spelled out.
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
        """The lines of the samples, a few hundred at a time."""
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
    """A page that is being gathered. prefix: of every name, unless another is given."""

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix
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
        """Add a sample. labels: rendered. value: None if there is none to be told."""
        gathered = self._of(family, prefix)
        if value is not None:
            gathered.lines.append(f"{gathered.name}{suffix}{labels} {value!r}")

    def add_row(self, families: Families, values: Row, labels: str = "") -> None:
        """Add a sample of each family."""
        for family, value in zip(families, values, strict=True):
            self.add(family, value, labels)

    def add_table(
        self, families: Families, columns: Sequence[int], labels: Sequence[str], rows: Sequence[Row]
    ) -> None:
        """Add objects. columns: of the rows, one for each family; labels: rendered, of the rows."""
        for family, column in zip(families, columns, strict=True):
            self._of(family).tables.append(_Table(labels, rows, column))

    def add_histogram(
        self, family: Family, bounds: Sequence[float], counts: Sequence[int], total: float,
        labels: Labels,
    ) -> None:  # fmt: skip
        """Add a histogram. counts: for each bound, and for what is above; without those below."""
        running = 0
        for bound, count in zip((*map(repr, bounds), "+Inf"), counts, strict=True):
            running += count
            self.add(family, running, render_labels((*labels, ("le", bound))), suffix="_bucket")
        rendered = render_labels(labels)
        self.add(family, running, rendered, suffix="_count")
        self.add(family, total, rendered, suffix="_sum")

    def chunks(self, form: Format) -> Iterator[bytes]:
        """The page, to be written piece by piece."""
        lines: list[str] = []
        for gathered in self._gathered.values():
            lines += _head(gathered, form)
            for piece in gathered.pieces():
                lines += piece
                if len(lines) >= LINES_MAX:
                    yield ("\n".join(lines) + "\n").encode()
                    lines = []
        if form.is_open:
            lines.append("# EOF")
        if lines:
            yield ("\n".join(lines) + "\n").encode()

    def render(self, form: Format = TEXT) -> bytes:
        """The page in one piece."""
        return b"".join(self.chunks(form))


def _head(gathered: _Gathered, form: Format) -> tuple[str, str]:
    name, (_, kind, text) = gathered.name, gathered.family
    text = text.replace("\\", "\\\\").replace("\n", "\\n")
    if form.is_open:
        text = text.replace('"', '\\"')
        if kind == UNTYPED or (kind == COUNTER and not name.endswith("_total")):
            # OpenMetrics knows counters by their ending.
            kind = "unknown"
        elif kind == COUNTER:
            name = name.removesuffix("_total")
    return f"# TYPE {name} {kind}", f"# HELP {name} {text}"
