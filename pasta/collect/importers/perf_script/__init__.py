"""Importer of what Linux perf prints with `perf script`."""

from __future__ import annotations

from pasta.collect.containers.text_lines import TextLines, first_lines
from pasta.collect.importer import Imported, importer
from pasta.collect.importers.perf_script.lines import head_of
from pasta.collect.importers.perf_script.samples import Samples
from pasta.collect.losses import Losses
from pasta.collect.sources import Source
from pasta.errors import InputError
from pasta.trace_writer import PartWriter

_BINARY = b"PERFILE2"
_LINES_LOOKED_AT = 400


@importer("perf_script")
class PerfScript:
    """Reads samples with their call stacks, and what perf records of processes and switches."""

    format = "Linux perf (perf script)"
    version = 2
    general = False

    def recognises(self, source: Source) -> bool:
        """Tell whether an event of perf is near the start, or a file is perf's own recording."""
        if source.head.startswith(_BINARY):
            return True
        heads = map(head_of, first_lines(source, _LINES_LOOKED_AT))
        return any(head and (head.event or head.record) for head in heads)

    def read(self, source: Source, part: PartWriter, losses: Losses) -> Imported:
        """Append a `sample` for each sample, and one for each interval off the CPU.

        Raises:
            InputError: the file is perf's own recording, which only perf can read.
        """
        if source.head.startswith(_BINARY):
            raise InputError(
                f"{source.name}: is perf's own recording; print it and import the text:"
                " perf script --ns -F +pid,+period --show-task-events -i FILE > samples.txt"
            )
        lines = TextLines(source, losses)
        samples = Samples(part, losses)
        for line in lines:
            samples.take(line)
        samples.finish(cut=lines.report_cut("the last sample is left out"))
        return Imported(pid=samples.first_pid)
