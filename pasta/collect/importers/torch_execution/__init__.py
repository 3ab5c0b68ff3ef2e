"""PyTorch's execution traces (Chakra-style JSON), which complete a Kineto file of the same run."""

from __future__ import annotations

import re
from collections.abc import Mapping

from pasta.collect.importer import Imported, importer
from pasta.collect.importers.torch_execution.completion import Completion
from pasta.collect.losses import Losses
from pasta.collect.sources import Source
from pasta.errors import InputError
from pasta.trace_merge import Transform
from pasta.trace_writer import PartWriter

_SCHEMA = re.compile(rb'"schema"\s*:\s*"\d+\.\d+\.\d+')
_PID = re.compile(rb'"pid"\s*:\s*(\d{1,18})\s*[,}]')
_BEGIN_BYTES = 1 << 10


@importer("torch_execution")
class TorchExecution:
    """Adds shapes, touched storages and what collectives are to what a Kineto file has times of."""

    format = "PyTorch execution trace (JSON)"
    version = 3
    general = False
    completes = "kineto"

    def recognises(self, source: Source) -> bool:
        """Tell whether a JSON object begins with the version of the traces' schema."""
        begin = source.head[:_BEGIN_BYTES]
        return _SCHEMA.search(begin) is not None and b'"traceEvents"' not in begin

    def process_of(self, source: Source) -> int | None:
        """Return the pid, which stands before the nodes."""
        found = _PID.search(source.head[:_BEGIN_BYTES])
        return int(found[1]) if found else None

    def read(self, source: Source, part: PartWriter, losses: Losses) -> Imported:  # noqa: ARG002
        """Refuse a trace that comes alone.

        Raises:
            InputError: always.
        """
        raise InputError(
            f"{source.name}: is a PyTorch execution trace, which has no times; give the Kineto file"
            " of the same run as well: pasta import kineto.json execution_trace.json -o DIR"
        )

    def complete(self, source: Source, part: PartWriter, losses: Losses) -> Mapping[str, Transform]:
        """Add what the nodes tell of the spans in `part`, their twins."""
        return Completion(part, losses).read(source)
