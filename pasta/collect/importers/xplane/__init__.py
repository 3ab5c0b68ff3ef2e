"""Profiles of JAX, TensorFlow and PyTorch/XLA: `*.xplane.pb`, a message `XSpace`."""

from __future__ import annotations

import re
import shutil

from pasta.collect.containers.protobuf_fields import MessageFile
from pasta.collect.importer import Imported, importer
from pasta.collect.importers.xplane.reading import Reading
from pasta.collect.losses import Losses
from pasta.collect.sources import Source, as_file
from pasta.errors import InputError
from pasta.trace_writer import PartWriter

_FIRST_PLANE = re.compile(
    rb"\x0a[\x80-\xff]{0,9}[\x00-\x7f](?:\x08[\x80-\xff]{0,9}[\x00-\x7f])?"
    rb"\x12[\x80-\xff]?[\x00-\x7f](?:/host:|/device:|/custom:|Task Environment)",
    re.DOTALL,
)


@importer("xplane")
class XPlane:
    """Imports the planes of one host: its threads, and the devices that it drives."""

    format = "XLA profile (xplane.pb)"
    version = 2
    general = False

    def recognises(self, source: Source) -> bool:
        """Tell whether the first field is a plane with a name as XLA gives them."""
        return _FIRST_PLANE.match(source.head) is not None

    def read(self, source: Source, part: PartWriter, losses: Losses) -> Imported:
        """Append the events of all planes.

        Raises:
            InputError: not one plane can be read.
        """
        scratch = part.folder.with_name(f"{part.folder.name}-scratch")
        try:
            path = as_file(source, scratch)
            with path.open("rb") as stream:
                file = MessageFile(stream, path.stat().st_size)
                reading = Reading(file, part, losses)
                reading.read()
        finally:
            shutil.rmtree(scratch, ignore_errors=True)
        cut = "; ".join([*source.damage, *filter(None, [file.cut])])
        if cut:
            losses.fault(f"{cut}, {reading.kept} events kept", where=cut.rpartition(" at ")[2])
        if not reading.planes:
            raise InputError(f"{source.name}: has no plane that can be read; is it cut?")
        return reading.finish()
