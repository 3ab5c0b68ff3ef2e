"""The schema as Markdown: what `pasta trace schema` prints and the docs page holds."""

from __future__ import annotations

from collections.abc import Sequence

from pasta.errors import PastaError, did_you_mean
from pasta.schema import SCHEMA_VERSION, TABLES, Table
from pasta.schema_sources import FILLED_BY


def schema_markdown(tables: Sequence[str] = ()) -> str:
    """Return the named tables, or all of them, with each column's type, unit and meaning.

    Raises:
        PastaError: a name is no table.
    """
    for name in tables:
        if name not in TABLES:
            raise PastaError(f"no table '{name}'.{did_you_mean(name, TABLES)}")
    chosen = [TABLES[name] for name in tables or TABLES]
    head = [] if tables else [f"# Tables of a trace (schema version {SCHEMA_VERSION})"]
    return "\n\n".join([*head, *(_table(table) for table in chosen)])


def _table(table: Table) -> str:
    lines = [
        f"## {table.name}",
        "",
        f"A row is {table.row}. Filled by {FILLED_BY[table.name]}.",
        "",
        "| column | type | unit | meaning |",
        "| --- | --- | --- | --- |",
    ]
    lines += [f"| {c.name} | {c.type} | {c.unit} | {c.about} |" for c in table.columns]
    return "\n".join(lines)
