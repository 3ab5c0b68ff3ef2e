"""Collected rows that stay on a device, for array stages to use as they use Polars' frames.

A stage calls on its inputs what both have: `select`, `filter`, `join` and so on, which here only
build a plan; and the functions of `pasta.pipeline.frames` wherever arrays come in.
"""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import polars as pl
from polars.io.plugins import register_io_source


class DeviceError(RuntimeError):
    """A plan failed on a device."""


class TooManyRowsError(MemoryError):
    """A table has more rows than a device takes, however much memory it has."""


class Device(ABC):
    """Where rows lie: what runs plans over them and gives their columns as arrays.

    A *frame* is whatever the device's library calls a table; nobody else looks into it.

    Attributes:
        xp: the library of its arrays, numpy or cupy.
    """

    xp: Any

    @abstractmethod
    def evaluate(self, plan: pl.LazyFrame) -> Any:
        """Run `plan` and return its rows as a frame.

        Raises:
            NotImplementedError: the device declines the plan.
        """

    @abstractmethod
    def frame(self, columns: Mapping[str, Any]) -> Any:
        """Return arrays, or `pl.Series` from the host, as the columns of a frame."""

    @abstractmethod
    def array(self, frame: Any, name: str) -> Any:
        """Return a column without nulls as an array, without a copy where that can be."""

    @abstractmethod
    def gather(self, frame: Any, places: Any, *, nulls: bool = False) -> Any:
        """Return the rows of a frame at `places`, an integer array; with `nulls`, -1 is no row."""

    @abstractmethod
    def select(self, frame: Any, names: Sequence[str]) -> Any:
        """Return some columns of a frame, in the order of `names`.

        With no names, where rows are only counted, the result still has the frame's height.
        """

    @abstractmethod
    def beside(self, left: Any, right: Any) -> Any:
        """Return the columns of two frames of one height beside each other."""

    @abstractmethod
    def schema(self, frame: Any) -> pl.Schema:
        """Return the names and types of a frame's columns."""

    @abstractmethod
    def height(self, frame: Any) -> int:
        """Return the number of a frame's rows."""

    @abstractmethod
    def download(self, frame: Any) -> pl.DataFrame:
        """Copy a frame to the host."""

    def memory(self) -> int:
        """Return how many bytes a run may hold at once."""
        return sys.maxsize

    def shortage(self) -> str:
        """Say how much memory was needed where it did not suffice."""
        return "more was needed"

    def close(self) -> None:
        """Give the device back; its frames must be gone."""
        return


class DeviceRows:
    """Rows of a plan that a device runs when they are first asked for, and then holds."""

    def __init__(self, device: Device, plan: pl.LazyFrame) -> None:
        self.device = device
        self._plan = plan
        self._frame: Any = None

    @classmethod
    def holding(cls, device: Device, frame: Any) -> DeviceRows:
        """Return the rows of a frame that lies on the device already."""
        rows = cls(device, _source(device, frame))
        rows._frame = frame
        return rows

    def hold(self) -> None:
        """Run the plan, unless that was done; what is planned after this starts from its rows.

        Raises:
            DeviceError: the plan failed, which says nothing about how a stage is used.
        """
        if self._frame is None:
            try:
                self._frame = self.device.evaluate(self._plan)
            except pl.exceptions.PolarsError as error:
                raise DeviceError(str(error)) from error
            self._plan = _source(self.device, self._frame)

    @property
    def frame(self) -> Any:
        """The rows on the device."""
        self.hold()
        return self._frame

    def lazy(self) -> pl.LazyFrame:
        """Return the plan of these rows; where they are held, it reads them where they lie."""
        return self._plan

    def collect_schema(self) -> pl.Schema:
        """Return the names and types of the columns."""
        return self._plan.collect_schema()

    @property
    def schema(self) -> pl.Schema:
        """The names and types of the columns."""
        return self._plan.collect_schema()

    @property
    def columns(self) -> list[str]:
        """The names of the columns."""
        return self.schema.names()

    @property
    def width(self) -> int:
        """The number of columns."""
        return len(self.schema)

    @property
    def height(self) -> int:
        """The number of rows."""
        return self.device.height(self.frame)

    def to_polars(self) -> pl.DataFrame:
        """Copy the rows to the host."""
        return self.device.download(self.frame)

    def select(self, *columns: Any, **named: Any) -> DeviceRows:
        """Plan as `pl.LazyFrame.select`."""
        return DeviceRows(self.device, self._plan.select(*columns, **named))

    def with_columns(self, *columns: Any, **named: Any) -> DeviceRows:
        """Plan as `pl.LazyFrame.with_columns`."""
        return DeviceRows(self.device, self._plan.with_columns(*columns, **named))

    def filter(self, *conditions: Any, **equal: Any) -> DeviceRows:
        """Plan as `pl.LazyFrame.filter`."""
        return DeviceRows(self.device, self._plan.filter(*conditions, **equal))

    def drop(self, *columns: Any) -> DeviceRows:
        """Plan as `pl.LazyFrame.drop`."""
        return DeviceRows(self.device, self._plan.drop(*columns))

    def drop_nulls(self, columns: Any = None) -> DeviceRows:
        """Plan as `pl.LazyFrame.drop_nulls`."""
        return DeviceRows(self.device, self._plan.drop_nulls(columns))

    def rename(self, names: dict[str, str]) -> DeviceRows:
        """Plan as `pl.LazyFrame.rename`."""
        return DeviceRows(self.device, self._plan.rename(names))

    def sort(self, *by: Any, **options: Any) -> DeviceRows:
        """Plan as `pl.LazyFrame.sort`."""
        return DeviceRows(self.device, self._plan.sort(*by, **options))

    def unique(self, columns: Any = None, **options: Any) -> DeviceRows:
        """Plan as `pl.LazyFrame.unique`."""
        return DeviceRows(self.device, self._plan.unique(columns, **options))

    def join(self, other: DeviceRows, **options: Any) -> DeviceRows:
        """Plan as `pl.LazyFrame.join`."""
        return DeviceRows(self.device, self._plan.join(other.lazy(), **options))

    def group_by(self, *by: Any) -> _Groups:
        """Plan as `pl.LazyFrame.group_by`."""
        return _Groups(self.device, self._plan.group_by(*by))


class _Groups:
    """Groups of rows on a device, as of `pl.LazyFrame.group_by`."""

    def __init__(self, device: Device, groups: Any) -> None:
        self._device, self._groups = device, groups

    def agg(self, *columns: Any, **named: Any) -> DeviceRows:
        """Plan as `agg` of a plan of Polars."""
        return DeviceRows(self._device, self._groups.agg(*columns, **named))


def _source(device: Device, frame: Any) -> pl.LazyFrame:
    """Return a plan that reads a held frame, which lives as long as the plan does."""

    def read(
        columns: list[str] | None, predicate: pl.Expr | None, count: int | None, _batch: int | None
    ) -> Iterator[Any]:
        """Give the frame; only Polars itself asks for a predicate or a count."""
        rows = frame if columns is None else device.select(frame, columns)
        if predicate is not None:
            rows = rows.filter(predicate)
        yield rows if count is None else rows.head(count)

    return register_io_source(read, schema=device.schema(frame))
