"""Orders of rows by several columns of integers, had column by column.

Windows of cudf-polars 26.10 order rows by their keys, their own order and the number of the row. libcudf then
compares rows, and sorts one column of integers alone by its digits: docs/performance.md, Engines, has both.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any


@cache
def mend() -> None:
    """Let libcudf, as this process calls it, order rows by columns of integers without nulls one by one."""
    import pylibcudf as plc

    compared = plc.sorting.stable_sorted_order

    def stable_sorted_order(
        source_table: Any,
        column_order: Sequence[Any],
        null_precedence: Sequence[Any],
        stream: Any = None,
        mr: Any = None,
    ) -> Any:
        columns = source_table.columns()
        is_told = len(column_order) == len(null_precedence) == len(columns)
        if len(columns) < 2 or not is_told or not all(map(_has_digits, columns)):
            return compared(source_table, column_order, null_precedence, stream=stream, mr=mr)

        def order(column: Any, place: int) -> Any:
            alone = plc.Table([column])
            kinds = [column_order[place]], [null_precedence[place]]
            return compared(alone, *kinds, stream=stream, mr=mr)

        def gather(column: Any, places: Any) -> Any:
            known = plc.copying.OutOfBoundsPolicy.DONT_CHECK
            return plc.copying.gather(
                plc.Table([column]), places, known, stream=stream, mr=mr
            ).columns()[0]

        return by_columns(columns, order, gather)

    plc.sorting.stable_sorted_order = stable_sorted_order


def _has_digits(column: Any) -> bool:
    import pylibcudf as plc

    return bool(plc.traits.is_integral(column.type())) and column.null_count() == 0


def by_columns(
    columns: Sequence[Any],
    order: Callable[[Any, int], Any],
    gather: Callable[[Any, Any], Any],
) -> Any:
    """Return the places of rows in the order of the first column, of equals in that of the second, and so on.

    Args:
        columns: at least one.
        order: returns the places of a column's values in order, equals as they stand; also takes the
            column's number.
        gather: returns the values of a column at places.
    """
    *rest, last = range(len(columns))
    places = order(columns[last], last)
    for number in reversed(rest):
        places = gather(places, order(gather(columns[number], places), number))
    return places
