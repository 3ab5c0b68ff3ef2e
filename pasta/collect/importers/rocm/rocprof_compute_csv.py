"""Importer of rocprofiler-compute's counters: `pmc_perf.csv`, a row for each dispatch, a column for each counter."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from pasta.collect.containers.csv_rows import CsvRows
from pasta.collect.importer import Imported, importer
from pasta.collect.importers.rocm.cells import Cells, first_cells
from pasta.collect.importers.rocm.finish import finish_transforms
from pasta.collect.importers.rocm.rows import RocmRows
from pasta.collect.losses import Losses
from pasta.collect.sources import Source
from pasta.trace_writer import PartWriter

_NEEDED = frozenset({"Dispatch_ID", "GPU_ID", "Kernel_Name", "Grid_Size", "Workgroup_Size"})
_DESCRIBES = re.compile(
    r"(?:Dispatch_ID|GPU_ID|Queue_ID|PID|TID|Grid_Size|Workgroup_Size|LDS_Per_Workgroup"
    r"|Scratch_Per_Workitem|Arch_VGPR|Accum_VGPR|SGPR|Wave_Size|Kernel_Name|Kernel_ID|XCC_Index"
    r"|Correlation_ID|Start_Timestamp|End_Timestamp|Node)(?:_\d+)?"
)
_OBJECT_SUFFIX = re.compile(r" \(\.kd\)$|\.kd$")


@importer("rocprof_compute_csv")
class RocprofComputeCsv:
    """Imports the counters of one run."""

    format = "rocprofiler-compute's counters (CSV)"
    version = 2
    general = False

    def recognises(self, source: Source) -> bool:
        """Tell by the columns that the first line names, which may be longer than the head."""
        return set(first_cells(source)) >= _NEEDED

    def read(self, source: Source, part: PartWriter, losses: Losses) -> Imported:
        """Append a `kernel` for each row, without a time unless the file has one, and its counters.

        Raises:
            InputError: there is no line that names columns.
        """
        table = CsvRows(source, losses)
        counters = [name for name in table.schema.names if not _DESCRIBES.fullmatch(name)]
        rows = RocmRows(part, losses, 0)
        launches = 0
        for batch in table.batches():
            numbers = pa.array(range(launches + 1, launches + 1 + batch.num_rows), pa.uint64())
            launches += batch.num_rows
            _append(Cells(batch, losses), numbers, counters, rows)
        for damage in source.damage:
            losses.fault(damage)
        part.append("process", pa.table({"pid": pa.array([0], pa.int64())}))
        return Imported(transforms=finish_transforms(losses))


def _append(cells: Cells, launches: pa.Array[Any], counters: Sequence[str], rows: RocmRows) -> None:
    names = [_OBJECT_SUFFIX.sub("", name or "") for name in cells.texts("Kernel_Name").to_pylist()]
    times = cells.times()
    if any(column.null_count == len(column) for column in times.values()):
        times = {}
    common = {**times, "device": cells.numbers("GPU_ID", pa.int32()), "launch_id": launches}
    rows.kernels(
        {
            **common,
            "name": pa.array(names, pa.string()),
            "block_x": cells.numbers("Workgroup_Size", pa.uint32()),
            "threads_x": cells.numbers("Grid_Size", pa.uint32()),
            "registers": cells.registers("Arch_VGPR", "Accum_VGPR"),
            "shared_bytes": cells.numbers("LDS_Per_Workgroup", pa.uint32()),
            "local_bytes": cells.numbers("Scratch_Per_Workitem", pa.uint64()),
        }
    )
    count, width = len(cells), len(counters)
    by_launch: pa.Array[Any] = pa.array(np.repeat(np.arange(count), width))
    values = [cells.floats(name).to_numpy(zero_copy_only=False) for name in counters]
    if not count or not values:
        return
    flat = np.stack(values, axis=1).reshape(-1)
    metrics = {
        **{name: column.take(by_launch) for name, column in common.items()},
        "name": pa.array(list(counters) * count, pa.string()),
        "value": pa.array(flat, mask=np.isnan(flat)),
        "unit": pa.repeat("", count * width),
    }
    rows.metrics(
        {name: column.filter(metrics["value"].is_valid()) for name, column in metrics.items()}
    )
