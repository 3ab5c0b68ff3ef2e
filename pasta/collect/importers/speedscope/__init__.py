"""Importer of speedscope's JSON, which py-spy, rbspy, Xcode's converters and others write."""

from __future__ import annotations

import shutil

from pasta.collect.importer import Imported, importer
from pasta.collect.importers.speedscope.document import Lists
from pasta.collect.importers.speedscope.profiles import Profiles
from pasta.collect.losses import Losses
from pasta.collect.shaping.open_spans import BegunParents
from pasta.collect.sources import Source
from pasta.errors import InputError
from pasta.trace_writer import PartWriter

_MARK = b"speedscope.app/file-format-schema"


@importer("speedscope")
class Speedscope:
    """Reads the profiles of a file: sampled ones as samples, evented ones as spans."""

    format = "speedscope (JSON)"
    version = 2
    general = False

    def recognises(self, source: Source) -> bool:
        """Tell whether the schema is named, or the keys of profiles stand in a JSON object."""
        head = source.head.lstrip(b"\xef\xbb\xbf \t\r\n")
        keyed = b'"profiles"' in head and (b'"startValue"' in head or b'"shared"' in head)
        return head.startswith(b"{") and (_MARK in head or keyed)

    def read(self, source: Source, part: PartWriter, losses: Losses) -> Imported:
        """Append the rows of each profile.

        Raises:
            InputError: there is no profile, or the names of its frames are missing.
        """
        scratch = part.folder.with_name(f"{part.folder.name}-scratch")
        try:
            return _read(source, Lists(scratch, losses), part, losses)
        finally:
            shutil.rmtree(scratch, ignore_errors=True)


def _read(source: Source, lists: Lists, part: PartWriter, losses: Losses) -> Imported:
    document = lists.document(source)
    if not document.profiles:
        raise InputError(f"{source.name}: speedscope file without a profile; record it again")
    if not document.shared.frames:
        raise InputError(
            f"{source.name}: the names of the frames are missing (cut?); record it again"
        )
    profiles = Profiles(document, lists, part, losses)
    for number, profile in enumerate(document.profiles, 1):
        profiles.add(number, profile)
    profiles.finish()
    return Imported(pid=profiles.first_pid, transforms={"span": BegunParents(losses).add})
