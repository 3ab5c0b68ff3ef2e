"""Columns of libcudf seen as cupy arrays where they lie."""

from __future__ import annotations

from typing import Any


def array_of(column: Any, kind: Any) -> Any:
    """Return the memory of a column as a cupy array, which keeps the column alive.

    Args:
        column: of pylibcudf, without nulls and not empty.
        kind: the numpy type of its values.
    """
    import cupy

    start = column.data().ptr + column.offset() * kind.itemsize
    memory = cupy.cuda.UnownedMemory(start, column.size() * kind.itemsize, column)
    return cupy.ndarray(column.size(), dtype=kind, memptr=cupy.cuda.MemoryPointer(memory, 0))
