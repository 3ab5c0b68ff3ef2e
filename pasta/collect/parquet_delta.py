"""Parquet's encoding of integers by their differences, DELTA_BINARY_PACKED.

Addresses that neighbouring lanes access lie at regular distances, so that their differences repeat,
and a compressor passes over them: it takes a tenth of the time that it takes for the addresses.
Blocks have the shape that all writers give them, 128 differences in four parts. Each difference
takes as many whole bytes as the widest one of the page, for blocks are then all of one layout.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from pasta.collect.parquet_thrift import varint, zigzag

_BLOCK, _PARTS = 128, 4
_PART = _BLOCK // _PARTS


def delta_packed(numbers: NDArray[Any]) -> NDArray[np.uint8]:
    """Return the bytes that stand for integers of 4 or 8 bytes, of which there is at least one."""
    signed = numbers.view(f"<i{numbers.itemsize}")
    head = varint(_BLOCK) + varint(_PARTS) + varint(len(signed)) + zigzag(int(signed[0]))
    differences = np.diff(signed)
    if not len(differences):
        return np.frombuffer(head, np.uint8)
    least = differences.min()
    differences -= least  # modulo their size, as readers add them up
    above_least = differences.view(f"<u{numbers.itemsize}")
    return np.concatenate([np.frombuffer(head, np.uint8), _blocks(above_least, zigzag(int(least)))])


def _blocks(above_least: NDArray[Any], least: bytes) -> NDArray[np.uint8]:
    width = -(-int(above_least.max()).bit_length() // 8)
    fields: list[Any] = [("least", f"V{len(least)}"), ("widths", "u1", _PARTS)]
    if width:
        fields.append(("values", _low_bytes(above_least, width).dtype, _BLOCK))
    whole, left = divmod(len(above_least), _BLOCK)
    blocks = np.zeros(whole + (left > 0), fields)
    blocks["least"] = np.frombuffer(least, f"V{len(least)}")
    blocks["widths"] = 8 * width
    if width:
        values, low_bytes = blocks["values"], _low_bytes(above_least, width)
        values[:whole] = low_bytes[: whole * _BLOCK].reshape(whole, _BLOCK)
        values[whole:, :left] = low_bytes[whole * _BLOCK :]
    packed = blocks.view(np.uint8)
    if not left:
        return packed
    parts = -(-left // _PART)  # the last block ends with the last part that holds anything
    blocks["widths"][-1, parts:] = 0
    return packed[: len(packed) - width * _PART * (_PARTS - parts)]


def _low_bytes(numbers: NDArray[Any], width: int) -> NDArray[Any]:
    """Return the lowest `width` bytes of each number, where they lie."""
    kind = f"<u{width}" if width in (1, 2, 4, 8) else f"V{width}"
    low: Any = {"names": ["low"], "formats": [kind], "offsets": [0], "itemsize": numbers.itemsize}
    found: NDArray[Any] = numbers.view(np.dtype(low))["low"]
    return found
