"""Requests that pages of other sites make a browser send.

The API sets no cookies, but a browser that was asked for a name and a password remembers them, and
adds them to whatever any page sends here. A page of another origin needs leave to send JSON, or to
PUT or DELETE (CORS, `management.cors.allow_origins`), but none to send a form: a POST of what a
form can be is refused if its Origin is another. Programs send no Origin; the pages here send JSON.
"""

from urllib.parse import urlsplit

from aiohttp import hdrs, web

from broker.config import Config
from mgmt.api.errors import ApiError

FORM_TYPES = ("", "application/x-www-form-urlencoded", "multipart/form-data", "text/plain")
"""What browsers send to other origins without asking first; "" is no type at all."""


def refuse_foreign_form(request: web.Request, config: Config) -> None:
    """Raise 403 for what a page of another origin may have sent unasked."""
    origin = request.headers.get(hdrs.ORIGIN)
    if request.method != "POST" or origin is None:
        return
    sent_type = request.headers.get(hdrs.CONTENT_TYPE, "").partition(";")[0].strip().lower()
    if sent_type not in FORM_TYPES or urlsplit(origin).netloc == request.host:
        return
    if not {"*", origin} & set(config.management_cors_origins):
        reason = f"forms from {origin} are not taken; management.cors.allow_origins lets them in"
        raise ApiError(403, "not_authorised", reason)
