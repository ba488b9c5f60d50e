"""The format and compression of a page, chosen by the headers of the scraper's request.

RabbitMQ has the text format only. Here it is the default, and OpenMetrics is for scrapers that
prefer it, as Prometheus does.
"""

from leveret.mgmt.metrics.text import OPEN_METRICS, TEXT, Format


def choose_format(accept: str) -> Format:
    """The format for a header `Accept`: OpenMetrics if no type of text is preferred to it."""
    weights = _weights(accept)
    text_weight = max(weights.get(name, 0.0) for name in ("text/plain", "text/*"))
    open_weight = weights.get("application/openmetrics-text", 0.0)
    return OPEN_METRICS if open_weight > 0 and open_weight >= text_weight else TEXT


def takes_gzip(accept_encoding: str) -> bool:
    """Whether a header `Accept-Encoding` names gzip, with a weight above 0."""
    return _weights(accept_encoding).get("gzip", 0.0) > 0


def _weights(header: str) -> dict[str, float]:
    """The highest weight of each item of a header; other parameters are ignored."""
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
