"""Importing the tables of an export, whatever it is stored as."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa

from pasta.collect.importer import Imported
from pasta.collect.importers.nsys.device_work import (
    add_copies,
    add_kernels,
    add_memory,
    add_page_faults,
    add_synchronisations,
)
from pasta.collect.importers.nsys.export import Export
from pasta.collect.importers.nsys.host_work import Ranges, add_calls, add_libraries
from pasta.collect.importers.nsys.origin import (
    append_origin,
    base_of,
    count_unread,
    count_warnings,
    rank_of,
)
from pasta.collect.importers.nsys.sampling import Waits, add_gpu_metrics, add_samples
from pasta.collect.importers.nsys.session import Session, process_of
from pasta.collect.losses import Losses
from pasta.collect.shaping.counted_sequences import CountedSequences
from pasta.collect.shaping.span_parents import SpanParents
from pasta.trace_writer import PartWriter

_STEPS: tuple[Callable[[Session], None], ...] = (
    add_calls,
    add_kernels,
    add_copies,
    add_synchronisations,
    add_page_faults,
    add_memory,
    lambda session: Ranges(session).add(),
    add_libraries,
    add_samples,
    lambda session: Waits(session).add(),
    add_gpu_metrics,
)


def import_export(export: Export, part: PartWriter, losses: Losses) -> Imported:
    """Append the rows of an export, whatever it is stored as."""
    session = Session(export, part, losses, base_of(export, losses))
    session.fallback_pid = _first_process(export)
    for step in _STEPS:
        step(session)
    append_origin(session)
    count_warnings(export, losses)
    count_unread(export, session.read, losses)
    return Imported(
        rank=rank_of(export),
        pid=min(session.extents, default=0),
        transforms={"span": SpanParents(losses).add, "collective": CountedSequences().add},
    )


def _first_process(export: Export) -> int:
    """Return the process of the first call, or else range; 0: there is none."""
    for table in ("CUPTI_ACTIVITY_KIND_RUNTIME", "NVTX_EVENTS"):
        for batch in export.read(table, {"globalTid": pa.int64()}):
            for number in batch.column(0).drop_null()[:1].to_pylist():
                return int(process_of(number))
    return 0
