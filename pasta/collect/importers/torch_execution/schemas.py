"""What an operator does to its arguments, from the text of its schema."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

from pasta.collect.target.torch.touch import OVERWRITES, SHAPE_ONLY, UNINITIALISED

_ALIAS = re.compile(r"Tensor\(([^)]*)\)")
_LONGEST = 1 << 12
_INNERMOST = re.compile(r"[(\[{][^()\[\]{}]*[)\]}]")
_PLACES_ONLY = frozenset(
    [
        *("as_strided_", "detach_", "rename_", "set_", "squeeze_", "swapaxes_", "swapdims_"),
        *("t_", "transpose_", "unsqueeze_", "resize_", "resize_as_"),
    ]
)


class Signature(NamedTuple):
    """What the schema of an operator says.

    Attributes:
        read: for each argument, whether its elements are read; further ones are.
        written: for each argument, whether its elements are written.
        writes_results: whether results get a value.
        metadata_only: whether it changes shapes and storages but no element.
    """

    read: tuple[bool, ...]
    written: tuple[bool, ...]
    writes_results: bool
    metadata_only: bool

    @property
    def mutates(self) -> bool:
        """Whether it writes to an argument."""
        return any(self.written)

    def reads(self, position: int) -> bool:
        """Tell whether the elements of an argument are read."""
        return position >= len(self.read) or self.read[position]

    def writes(self, position: int) -> bool:
        """Tell whether the elements of an argument are written."""
        return position < len(self.written) and self.written[position]


@lru_cache(maxsize=1 << 14)
def signature(schema: str) -> Signature:
    """Read a schema such as `aten::add_.Tensor(Tensor(a!) self, Tensor other) -> Tensor(a!)`."""
    name, _, rest = schema[:_LONGEST].partition("(")
    base = name.rpartition("::")[2].partition(".")[0]
    shape_only = base.startswith(SHAPE_ONLY) or base.endswith("_like")
    read: list[bool] = []
    written: list[bool] = []
    named = False
    for argument in _arguments(rest.partition(" -> ")[0].strip().removesuffix(")")):
        if argument == "*":
            named = True
            continue
        alias = _ALIAS.search(argument)
        writes = alias is not None and "!" in alias[1]
        overwritten = writes and (named or base in OVERWRITES)
        read.append(not (shape_only or overwritten))
        written.append(writes)
    return Signature(tuple(read), tuple(written), base not in UNINITIALISED, base in _PLACES_ONLY)


def _arguments(text: str) -> list[str]:
    """Split at the commas that stand in no brackets."""
    plain = text
    while (masked := _INNERMOST.sub(lambda found: "_" * len(found[0]), plain)) != plain:
        plain = masked
    arguments, start = [], 0
    for piece in plain.split(","):
        arguments.append(text[start : start + len(piece)].strip())
        start += len(piece) + 1
    return [argument for argument in arguments if argument]
