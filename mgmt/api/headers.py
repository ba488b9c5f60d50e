"""Headers of every answer: security headers for browsers, and CORS."""

from aiohttp import web

from leveret.broker.config import Config
from leveret.mgmt.api_names import LEFT_OUT

CONTENT_SECURITY_POLICY = (
    "default-src 'self'; img-src 'self' data:; style-src 'self' 'unsafe-inline'; "
    "object-src 'none'; frame-ancestors 'none'; base-uri 'self'; form-action 'self'"
)

NODES_LEFT_OUT: web.RequestKey[set[str]] = web.RequestKey("nodes_left_out", set)
"""The key of a request under which the names of the nodes for `LEFT_OUT` are stored."""


class ConfiguredHeaders:
    """The headers that a configuration sets."""

    def __init__(self, config: Config) -> None:
        self._origins = config.management.cors_origins
        self._cors_age_s = config.management.cors_max_age_s
        self._fixed = {
            "Content-Security-Policy": config.management.csp or CONTENT_SECURITY_POLICY,
            "X-Content-Type-Options": "nosniff",
            "X-Frame-Options": "DENY",
            "Referrer-Policy": "no-referrer",
        }
        if config.management.hsts:
            self._fixed["Strict-Transport-Security"] = config.management.hsts

    def add(self, request: web.Request, response: web.StreamResponse) -> None:
        """Add the headers to an answer."""
        for name, value in self._fixed.items():
            response.headers.setdefault(name, value)
        response.headers["Vary"] = "accept, accept-encoding, origin"
        left_out = request.get(NODES_LEFT_OUT)
        if left_out:
            response.headers[LEFT_OUT] = ", ".join(sorted(left_out))
        origin = request.headers.get("Origin")
        if origin is None or not ("*" in self._origins or origin in self._origins):
            return
        response.headers["Access-Control-Allow-Origin"] = origin
        response.headers["Access-Control-Allow-Credentials"] = "true"
        response.headers["Access-Control-Expose-Headers"] = f"Location, {LEFT_OUT}"
        if request.method == "OPTIONS":
            response.headers["Access-Control-Allow-Headers"] = (
                "Authorization, Content-Type, X-Reason"
            )
            response.headers["Access-Control-Allow-Methods"] = "GET, HEAD, PUT, POST, DELETE"
            response.headers["Access-Control-Max-Age"] = str(self._cors_age_s)

    async def add_to_page(self, request: web.Request, response: web.StreamResponse) -> None:
        """Add the headers to a file of the pages."""
        if "Content-Security-Policy" not in response.headers:
            self.add(request, response)
            response.headers.setdefault("Cache-Control", "no-cache")
