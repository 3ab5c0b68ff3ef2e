"""PyTorch's profiler traces: Chrome JSON as written by Kineto, of today and of 2021."""

from __future__ import annotations

import re

from pasta.collect.containers.json_events import BLOCK_BYTES
from pasta.collect.importer import Imported, importer
from pasta.collect.importers.kineto.finish import finish_transforms
from pasta.collect.importers.kineto.halves import BLANK, SECOND_LAUNCH, start_helper
from pasta.collect.importers.kineto.reading import Reading
from pasta.collect.losses import Losses
from pasta.collect.sources import Source
from pasta.trace_writer import PartWriter

_MARK = re.compile(
    rb'"(?:schemaVersion|deviceProperties|distributedInfo|record_shapes|with_stack)"\s*:'
    rb'|"cat"\s*:\s*"(?:cpu_op|cpu_instant_event|user_annotation|python_function|cuda_sync'
    rb"|gpu_memcpy|gpu_memset|gpu_user_annotation|mtia_ccp_events|Operator|Runtime|Memcpy|Memset"
    rb'|(?:cuda|hip|xpu|mtia|privateuse1)_(?:runtime|driver)|[kK]ernel)"|"\[memory\]"|PyTorch Profiler'
)


@importer("kineto")
class Kineto:
    """Imports one file of one process.

    A large file is read in two halves by two processes. MTIA's device work is told apart by the
    name of its events: transfers are copies, waits and records are synchronisations, and all
    else, from whole jobs to what one processing element runs, is a kernel.
    """

    format = "PyTorch profiler (Kineto JSON)"
    version = 4
    general = False

    def __init__(self, block_bytes: int = BLOCK_BYTES) -> None:
        self._block_bytes = block_bytes

    def recognises(self, source: Source) -> bool:
        """Tell whether a JSON file has a category or key near its start that only Kineto writes."""
        is_json = source.head.lstrip(BLANK)[:1] in (b"{", b"[")
        return is_json and _MARK.search(source.head) is not None

    def read(self, source: Source, part: PartWriter, losses: Losses) -> Imported:
        """Append the events of `source` to `part`."""
        folder = part.folder.with_name(f"{part.folder.name}-second")
        with start_helper(source, folder, self._block_bytes, strict=losses.strict) as helper:
            stop = helper.task.byte if helper else None
            reading = Reading(source, part, losses, self._block_bytes, stop=stop)
            reading.read()
            launches = reading.tables.launches
            if reading.seam is not None:
                half = helper.result(reading.seam)
                if half is None:
                    reading.read_on()
                else:
                    part.adopt(folder, half.rows)
                    reading.merge(half)
        reading.finish()
        origin = reading.origin
        origin.append_tables(reading.tables, part, losses)
        return Imported(
            rank=origin.rank,
            pid=origin.pid,
            transforms=finish_transforms(
                origin.pid,
                origin.base_ns,
                losses,
                launch_gap=SECOND_LAUNCH - launches,
                device_communicators=reading.tables.device_communicators,
                window=reading.window,
            ),
            shift_ns=origin.base_ns,
        )
