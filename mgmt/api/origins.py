"""Protection against requests that pages of other sites cause a browser to send.

The API takes no login from a cookie, but a browser remembers a name and a password that its user
entered, and adds them to requests of all pages. To send JSON, PUT or DELETE, a page of another
origin needs permission (CORS, `management.cors.allow_origins`); to send a form it needs none. So a
POST with the content type of a form is refused if its Origin is foreign. Programs send no Origin,
and the pages of this node send JSON.
"""

from urllib.parse import urlsplit

from aiohttp import hdrs, web

from leveret.broker.config import Config
from leveret.mgmt.api.errors import ApiError

FORM_TYPES = ("", "application/x-www-form-urlencoded", "multipart/form-data", "text/plain")
"""Content types that browsers send to other origins without asking; "" is a missing type."""


def refuse_foreign_form(request: web.Request, config: Config) -> None:
    """Raise 403 for a request that a page of another origin may have sent without permission."""
    origin = request.headers.get(hdrs.ORIGIN)
    if request.method != "POST" or origin is None:
        return
    sent_type = request.headers.get(hdrs.CONTENT_TYPE, "").partition(";")[0].strip().lower()
    if sent_type not in FORM_TYPES or _host_of(origin) == request.host:
        return
    if not {"*", origin} & set(config.management.cors_origins):
        reason = f"forms from {origin} are not taken; management.cors.allow_origins lets them in"
        raise ApiError(403, "not_authorised", reason)


def _host_of(origin: str) -> str | None:
    """The host and the port of an origin; None if it is not a URL."""
    try:
        return urlsplit(origin).netloc
    except ValueError:
        return None
