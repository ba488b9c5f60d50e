"""A package that is installed beside Leveret while a test runs, with one entry point.

It is a folder on `sys.path`: a module, and the metadata that an installer writes. Nothing is built
or downloaded.
"""

import sys
from importlib import metadata

from leveret.broker.plugins.extensions import Extensions

MODULE = "package_beside_leveret"


def install(monkeypatch, folder, group, name, source, attribute=""):
    """Install a package whose module has this source. name: of its entry in the group."""
    (folder / f"{MODULE}.py").write_text(source)
    described = folder / f"{MODULE}-1.0.dist-info"
    described.mkdir()
    (described / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {MODULE}\nVersion: 1.0\n")
    value = f"{MODULE}:{attribute}" if attribute else MODULE
    (described / "entry_points.txt").write_text(f"[{group}]\n{name} = {value}\n")
    monkeypatch.syspath_prepend(folder)
    # The module is imported within the test, and forgotten with its folder.
    monkeypatch.setitem(sys.modules, MODULE, None)
    monkeypatch.delitem(sys.modules, MODULE)
    assert metadata.entry_points(group=group, name=name)


def install_in(monkeypatch, folder, tables, name, source, attribute=""):
    """Install a package for tables of one group, which may have looked for packages already."""
    install(monkeypatch, folder, tables[0].group, name, source, attribute)
    for table in tables:
        found = Extensions(table.group, table.own).load_installed()
        monkeypatch.setitem(vars(table), "_installed", found)
