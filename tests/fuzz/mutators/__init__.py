"""Changing files so that they stay nearly what a reader expects, by the kind of their container."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from .arrow_file import mutate_arrow
from .json_text import mutate_json
from .lines import mutate_json_lines, mutate_lines
from .pickle_ops import mutate_pickle
from .protobuf_wire import mutate_protobuf
from .raw import LONGEST, mutate_bytes
from .sqlite_file import mutate_sqlite
from .wrapping import wrap

Mutator = Callable[[bytes, Random], bytes]
"""Returns a file changed; what it does follows from the file and the generator alone."""

MUTATORS: dict[str, Mutator] = {
    "arrow": mutate_arrow,
    "bytes": mutate_bytes,
    "json": mutate_json,
    "json lines": mutate_json_lines,
    "lines": mutate_lines,
    "pickle": mutate_pickle,
    "protobuf": mutate_protobuf,
    "sqlite": mutate_sqlite,
}
"""By kind of container."""

_UNCHANGED, _WRAPPED = 0.01, 0.06


def mutate(kind: str, data: bytes, random: Random) -> bytes:
    """Return a file of this kind of container changed, and now and then wrapped."""
    changed = data if random.random() < _UNCHANGED else MUTATORS[kind](data, random)
    changed = changed[:LONGEST]
    return wrap(changed, random) if random.random() < _WRAPPED else changed
