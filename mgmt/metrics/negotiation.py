"""What a scraper says that it takes: which format, and whether it may be compressed.

RabbitMQ has the text format only, and so have we for everybody who does not put OpenMetrics first,
as Prometheus does.
"""

from mgmt.metrics.text import OPEN_METRICS, TEXT, Format


def choose_format(accept: str) -> Format:
    """The format for a header `Accept`; OpenMetrics if it is preferred to all of text."""
    weights = _weights(accept)
    text_weight = max(weights.get(name, 0.0) for name in ("text/plain", "text/*"))
    open_weight = weights.get("application/openmetrics-text", 0.0)
    return OPEN_METRICS if open_weight > 0 and open_weight >= text_weight else TEXT


def takes_gzip(accept_encoding: str) -> bool:
    """Whether a header `Accept-Encoding` allows it by name."""
    return _weights(accept_encoding).get("gzip", 0.0) > 0


def _weights(header: str) -> dict[str, float]:
    """The highest weight of each thing in a header, without its other parameters."""
    weights: dict[str, float] = {}
    for item in header.split(","):
        name, *parameters = (part.strip().lower() for part in item.split(";"))
        weight = 1.0
        for parameter in parameters:
            if parameter.startswith("q="):
                weight = _number(parameter[2:])
        weights[name] = max(weight, weights.get(name, 0.0))
    return weights


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return 0.0
