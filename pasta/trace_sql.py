"""SQL over the tables of a trace, for what no tool asks."""

from __future__ import annotations

from pathlib import Path

import polars as pl

from pasta.errors import PastaError
from pasta.trace import Trace
from pasta.whole_file import whole_file

_CHANGES = frozenset({"alter", "create", "delete", "drop", "insert", "truncate", "update"})
_WRITERS = {".parquet": "write_parquet", ".csv": "write_csv", ".arrow": "write_ipc"}


def query_trace(trace: Trace, query: str) -> pl.DataFrame:
    """Return the rows that a SELECT over the tables of a trace gives; only columns it names are read.

    Args:
        trace: its tables have their own names, as `kernel`.
        query: SQL as Polars understands it.

    Raises:
        PastaError: the query is wrong, or would change the trace.
    """
    first = query.split(maxsplit=1)[:1]
    if first and first[0].lower() in _CHANGES:
        raise PastaError(f"the query begins with {first[0]}, but a trace is only read; use SELECT")
    tables = {table: trace.scan(table) for table in trace.tables()}
    try:
        with pl.SQLContext(tables, eager=False) as context:
            return context.execute(query).collect(engine="streaming")
    except UnicodeEncodeError as error:
        raise PastaError("the query is not UTF-8; write it so") from error
    except pl.exceptions.PolarsError as error:
        problem = " ".join(str(error).partition("\n\n")[0].split())
        raise PastaError(f"the query fails: {problem}; tables: {', '.join(tables)}") from error


def write_rows(rows: pl.DataFrame, path: Path) -> None:
    """Write rows as the name says, `.parquet`, `.csv` or `.arrow`, under a temporary name until complete.

    Raises:
        PastaError: the name says none of them, the file cannot be written, or CSV has no room for lists.
    """
    writer = _WRITERS.get(path.suffix)
    if writer is None:
        raise PastaError(f"{path}: name a file that ends in {', '.join(_WRITERS)}")
    try:
        with whole_file(path) as temporary:
            getattr(rows, writer)(temporary)
    except OSError as error:
        raise PastaError(f"{path}: cannot be written ({error.strerror or error})") from error
    except pl.exceptions.PolarsError as error:
        raise PastaError(f"{path}: {' '.join(str(error).split())}") from error
