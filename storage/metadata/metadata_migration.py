"""Migration of metadata files of older formats, when they are opened.

    1   no checksums, no totals; queues have no storage ids
    2   no checksums, no totals
    3   no parameters
    4   the same tables; no retries of classic queues, and no annotations in quorum queues

Each is migrated in one transaction, so a crash leaves the old format or the new one.
"""

from sqlite3 import Connection

from leveret.storage.metadata.metadata_tables import (
    DECLARED,
    PARAMETERS,
    QUEUES,
    SCHEMA_3,
    add_parameters,
    create_tables,
    has_tables,
    quoted,
)

OLD_VERSIONS = (1, 2, 3)
WITH_SAME_TABLES = (4,)
"""Files of these formats are used as they are."""


def is_whole(connection: Connection, version: int, tables: set[str]) -> bool:
    """Whether a file of an old format appears to have the tables of that format."""
    if version == 3:
        return has_tables(connection, SCHEMA_3)
    return "totals" not in tables


def migrate(connection: Connection, version: int) -> None:
    """Change the tables to the current format, in the open transaction."""
    if version == 3:
        add_parameters(connection)
        return
    old_rows = {}
    for table in DECLARED:
        if table is PARAMETERS:
            continue
        columns = [name for name in table.fields if version > 1 or name != "storage_id"]
        listed = ", ".join(quoted(columns))
        rows = connection.execute(f"SELECT {listed} FROM {table.name} ORDER BY rowid").fetchall()
        if table is QUEUES and version == 1:
            place = table.fields.index("storage_id")
            rows = [(*row[:place], id_, *row[place:]) for id_, row in enumerate(rows, 1)]
        old_rows[table] = rows
        connection.execute(f"DROP TABLE {table.name}")
    connection.execute("DROP TABLE meta")
    create_tables(connection)
    for table, rows in old_rows.items():
        connection.executemany(table.put, [table.to_columns(row) for row in rows])
