"""The texts of an export, to which its tables refer by number."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from pasta.collect.importers.nsys.export import Export

_LONGEST = 1 << 16
_DENSE = 16


class Texts:
    """The table `StringIds`.

    Args:
        export: the tables.

    Attributes:
        values: the texts, each at most 2^16 characters long.
        lengths: of them, in bytes.
    """

    def __init__(self, export: Export) -> None:
        kinds: dict[str, pa.DataType] = {"id": pa.int64(), "value": pa.string()}
        table = pa.Table.from_batches(export.read("StringIds", kinds), pa.schema(kinds))
        table = table.filter(pc.is_valid(table["id"]))
        ids = table["id"].to_numpy()
        order = np.argsort(ids, kind="stable")
        texts = pc.utf8_slice_codeunits(table["value"], 0, _LONGEST).take(order)
        self.values: pa.Array[Any] = pa.concat_arrays(texts.chunks or [pa.array([], pa.string())])
        lengths: Any = pc.binary_length(self.values)  # type: ignore[call-overload]
        self.lengths: NDArray[np.int64] = lengths.fill_null(0).to_numpy().astype(np.int64)
        self._ids: NDArray[np.int64] = ids[order]
        self._places = self._table_of_places()

    def _table_of_places(self) -> NDArray[np.int64] | None:
        """Return the place of each text by its number, where numbers leave few gaps."""
        count = len(self._ids)
        if not count or self._ids[0] < 0 or self._ids[-1] > _DENSE * count + (1 << 20):
            return None
        places = np.full(int(self._ids[-1]) + 1, -1, dtype=np.int64)
        places[self._ids] = np.arange(count)
        return places

    def places(self, ids: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return where in `values` the texts of such numbers stand; -1: nowhere."""
        if not len(self._ids):
            return np.full(len(ids), -1, dtype=np.int64)
        if self._places is not None:
            within = (ids >= 0) & (ids < len(self._places))
            return np.where(within, self._places[np.where(within, ids, 0)], -1)
        found = np.minimum(np.searchsorted(self._ids, ids), len(self._ids) - 1)
        return np.where(self._ids[found] == ids, found, -1)

    def take(self, ids: NDArray[np.int64]) -> pa.Array[Any]:
        """Return the texts of such numbers; null where there is none."""
        return taken(self.values, self.places(ids))

    def text(self, number: int | None) -> str | None:
        """Return one text."""
        if number is None:
            return None
        (value,) = self.take(np.array([number], dtype=np.int64)).to_pylist()
        return value


def taken(values: pa.Array[Any], places: NDArray[np.int64]) -> pa.Array[Any]:
    """Return the values at `places`; null where that is negative."""
    absent = places < 0
    chosen: Any = pa.array(places, mask=absent) if absent.any() else pa.array(places)
    return values.take(chosen)


def joined(first: pa.Array[Any], second: pa.Array[Any], between: str) -> pa.Array[Any]:
    """Return the texts of two columns put together."""
    texts: pa.Array[Any] = pc.binary_join_element_wise(first, second, between)  # type: ignore[call-overload]
    return texts
