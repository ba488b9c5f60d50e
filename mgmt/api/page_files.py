"""The files of the management pages, of which a browser asks for few when it loads a page again.

The first page refers to the other files below `ui/VERSION/`. The version follows from what is in
the files, so a browser may keep them for good: after an upgrade the first page, which it asks for
each time, has another version. ES modules import each other by relative addresses, and get the
version with these.

The files are read once, when the first page is requested first, and kept in memory: what is on disk
may be replaced by other files while the node runs, and these do not get this version. A request for
another version comes from a page of another node, or of the time before an upgrade. It gets the
file that is on disk, and the browser does not keep it.
"""

import asyncio
import hashlib
import mimetypes
from pathlib import Path
from typing import NamedTuple

from aiohttp import hdrs, web

UI_DIRECTORY = Path(__file__).parent.parent / "ui"
VERSION_PATTERN = "v-[0-9a-f]+"
FOR_GOOD = "max-age=31536000, immutable"
_INDEX = "index.html"
_REFERENCE = b'"ui/'
"""What precedes the name of a file in the first page."""


class Pages(NamedTuple):
    """The files by their names, and the version that follows from them."""

    contents: dict[str, bytes]
    version: str


class PageFiles:
    """Answers requests for the first page, and for the files that it leads to."""

    def __init__(self, directory: Path = UI_DIRECTORY) -> None:
        self._directory = directory
        # No other name gets to the file system.
        self._paths = _paths(directory)
        self._pages: Pages | None = None

    async def send_index(self, request: web.Request) -> web.StreamResponse:
        """Send the first page."""
        if self._pages is None:
            self._pages = await asyncio.to_thread(read_pages, self._directory)
        versioned = b"".join((_REFERENCE, self._pages.version.encode(), b"/"))
        page = self._pages.contents[_INDEX].replace(_REFERENCE, versioned)
        return web.Response(body=page, content_type="text/html")

    async def send_file(self, request: web.Request) -> web.StreamResponse:
        """Send the file of the name in the path, which may have a version."""
        name = request.match_info["name"]
        if name not in self._paths:
            raise web.HTTPNotFound
        pages = self._pages
        if pages is None or request.match_info.get("version") != pages.version:
            return web.FileResponse(self._paths[name])
        kind = mimetypes.guess_type(name)[0]
        headers = {hdrs.CACHE_CONTROL: FOR_GOOD}
        return web.Response(body=pages.contents[name], content_type=kind, headers=headers)


def read_pages(directory: Path) -> Pages:
    """Read all files of a directory. Blocks."""
    contents = {name: path.read_bytes() for name, path in _paths(directory).items()}
    digest = hashlib.sha256()
    for name, content in sorted(contents.items()):
        digest.update(b"%s %d " % (name.encode(), len(content)))
        digest.update(content)
    return Pages(contents, f"v-{digest.hexdigest()[:16]}")


def _paths(directory: Path) -> dict[str, Path]:
    files = (path for path in directory.rglob("*") if path.is_file())
    return {path.relative_to(directory).as_posix(): path for path in files}
