"""Groups by integers with counts and sums, which libcudf leaves to a kernel of pasta's own.

libcudf takes 0.26 s for a count and a sum of 10^9 rows in 835,584 groups, and more for each further one:
docs/performance.md, Engines, has both.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

from pasta.pipeline.engines.device_arrays import array_of
from pasta.pipeline.engines.group_sums import MOST_SUMS, Groups, group_sums

LEAST_ROWS = 1 << 22
"""Rows from which on the kernel is used; fewer take libcudf a millisecond, and the kernel no less."""

_INTEGERS = ("INT8", "INT16", "INT32", "INT64", "UINT8", "UINT16", "UINT32", "UINT64")
_SUMMED = ("INT32", "INT64")


@cache
def mend() -> None:
    """Let libcudf, as this process calls it, group many rows by integers with the kernel."""
    import pylibcudf as plc

    class GroupByRequest(plc.groupby.GroupByRequest):  # type: ignore[misc]
        def __init__(self, values: Any, aggregations: list[Any]) -> None:
            super().__init__(values, aggregations)
            self.values, self.kinds = values, [each.kind() for each in aggregations]

    class GroupBy(plc.groupby.GroupBy):  # type: ignore[misc]
        def __init__(self, keys: Any, *order: Any, **orders: Any) -> None:
            super().__init__(keys, *order, **orders)
            self.keys = keys.columns()
            told = [*order[1:2], orders.get("keys_are_sorted")]
            self.is_sorted = plc.types.Sorted.YES in told

        def aggregate(self, requests: list[Any], stream: Any = None, mr: Any = None) -> Any:
            if (
                not self.is_sorted
                and stream is not None
                and mr is None
                and _fit(self.keys, requests)
            ):
                found = _aggregated(self.keys, requests, stream)
                if found is not None:
                    return found
            return super().aggregate(requests, stream, mr)

    plc.groupby.GroupByRequest, plc.groupby.GroupBy = GroupByRequest, GroupBy


def _fit(keys: Sequence[Any], requests: Sequence[Any]) -> bool:
    """Tell whether the kernel takes these groups, and all that is asked of them."""
    if not requests or keys[0].size() < LEAST_ROWS:
        return False
    if not all(_is_of(key, _INTEGERS) for key in keys):
        return False
    asked = [(request.values, kind.name) for request in requests for kind in request.kinds]
    counted = all(
        values.null_count() == 0 if name == "COUNT_VALID" else name == "COUNT_ALL"
        for values, name in asked
        if name != "SUM"
    )
    summed = [values for values, name in asked if name == "SUM"]
    return counted and len(summed) <= MOST_SUMS and all(_is_of(v, _SUMMED) for v in summed)


def _is_of(column: Any, kinds: Sequence[str]) -> bool:
    return column.type().id().name in kinds and column.null_count() == 0


def _aggregated(keys: Sequence[Any], requests: Sequence[Any], stream: Any) -> Any:
    """Return what libcudf's `aggregate` would, in another order of groups; `None`: it has to."""
    import cupy
    from rmm.allocators.cupy import rmm_cupy_allocator

    with cupy.cuda.Stream.from_external(stream), cupy.cuda.using_allocator(rmm_cupy_allocator):
        values = [
            _array(request.values)
            for request in requests
            for kind in request.kinds
            if kind.name == "SUM"
        ]
        found = group_sums([_array(key) for key in keys], values)
        return None if found is None else _tables(found, requests, stream)


def _tables(found: Groups, requests: Sequence[Any], stream: Any) -> tuple[Any, list[Any]]:
    """Return the keys of groups, and a table for each request."""
    import pylibcudf as plc

    def column(array: Any) -> Any:
        return plc.Column.from_cuda_array_interface(array, stream=stream)

    rows, sums = found.rows.astype("int32"), iter(found.sums)
    results = [
        plc.Table([column(next(sums) if kind.name == "SUM" else rows) for kind in request.kinds])
        for request in requests
    ]
    return plc.Table([column(key) for key in found.keys]), results


def _array(column: Any) -> Any:
    import cupy

    return array_of(column, cupy.dtype(column.type().id().name.lower()))
