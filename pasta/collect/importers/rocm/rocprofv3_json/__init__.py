"""Importer of rocprofv3's JSON: `rocprofv3 --output-format json`."""

from __future__ import annotations

import shutil

from pasta.collect.importer import Imported, importer
from pasta.collect.importers.rocm.finish import finish_transforms
from pasta.collect.importers.rocm.rocprofv3_json.reading import Reading, opened
from pasta.collect.losses import Losses
from pasta.collect.sources import Source, as_file
from pasta.trace_writer import PartWriter

_ROOT = b'"rocprofiler-sdk-tool"'
_BLANK = b" \t\r\n\xef\xbb\xbf"


@importer("rocprofv3_json")
class Rocprofv3Json:
    """Imports one file, which holds one process, or several of one rank."""

    format = "rocprofv3 (JSON)"
    version = 3
    general = False

    def recognises(self, source: Source) -> bool:
        """Tell whether a file starts as an object whose first key is the tool's."""
        start = source.head.lstrip(_BLANK)
        return start[:1] == b"{" and start[1:].lstrip(_BLANK).startswith(_ROOT)

    def read(self, source: Source, part: PartWriter, losses: Losses) -> Imported:
        """Append the records of `source` to `part`.

        Raises:
            InputError: it is not what its start says.
        """
        scratch = part.folder.with_name(f"{part.folder.name}-scratch")
        try:
            file = source.file or as_file(source, scratch)
            reading = Reading(file, part, losses)
            if source.file is not None:
                reading.read(source)
            else:
                with opened(file) as copy:
                    reading.read(copy)
        finally:
            shutil.rmtree(scratch, ignore_errors=True)
        return Imported(pid=reading.pid, transforms=finish_transforms(losses))
