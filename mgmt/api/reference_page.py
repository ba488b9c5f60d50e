"""The page /api/index.html: the routes of the API and what they do, made from their table."""

from html import escape
from itertools import groupby

from leveret.mgmt.api.routes import ApiRoute

_PAGE = """<!DOCTYPE html>
<html lang="en">
<head><meta charset="utf-8"><title>HTTP API</title></head>
<body>
<h1>HTTP API</h1>
<p>All routes are below <code>{prefix}/api</code>. <a href="openapi.json">openapi.json</a> describes
their parameters, bodies and answers.</p>
<table>
<thead><tr><th>Methods</th><th>Path</th><th>What they do</th></tr></thead>
<tbody>
{rows}
</tbody>
</table>
</body>
</html>
"""


def reference_page(routes: list[ApiRoute], prefix: str) -> str:
    """The page as HTML. prefix: the beginning of all paths of the node's pages."""
    open_routes = sorted((one for one in routes if not one.control_only), key=lambda one: one.path)
    rows = [_row(path, list(group)) for path, group in groupby(open_routes, lambda one: one.path)]
    return _PAGE.format(prefix=escape(prefix), rows="\n".join(rows))


def _row(path: str, routes: list[ApiRoute]) -> str:
    methods = "<br>".join(one.method for one in routes)
    tasks = "<br>".join(escape((one.handler.__doc__ or "").partition("\n")[0]) for one in routes)
    return f"<tr><td>{methods}</td><td><code>/api{escape(path)}</code></td><td>{tasks}</td></tr>"
