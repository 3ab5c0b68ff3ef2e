"""One NVIDIA GPU: plans run by cudf-polars, columns seen as cupy arrays where they lie.

cudf-polars orders work by CUDA streams, cupy by its own. Whatever passes between them is complete:
both are waited for at the border, so that nothing is read before it is written or freed while it
is read.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import polars as pl

from pasta.pipeline.device_rows import Device, TooManyRowsError
from pasta.pipeline.engines import column_order, integer_groups, list_filters
from pasta.pipeline.engines.device_arrays import array_of
from pasta.pipeline.engines.device_memory import DeviceMemory, of_worker


class CudaDevice(Device):
    """The first visible GPU; close it once nothing refers to its rows any more.

    Args:
        memory: what it may take; by default most of what is free now.

    Attributes:
        xp: cupy.
    """

    def __init__(self, memory: DeviceMemory | None = None) -> None:
        import cupy
        import rmm.mr
        from rmm.allocators.cupy import rmm_cupy_allocator

        mend_libraries()
        self.xp = cupy
        self._before = rmm.mr.get_current_device_resource()
        self._allocator = cupy.cuda.get_allocator()
        self._memory = memory or DeviceMemory()
        try:
            rmm.mr.set_current_device_resource(self._memory.resource)
            cupy.cuda.set_allocator(rmm_cupy_allocator)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Put the allocators back."""
        import rmm.mr

        self.xp.cuda.set_allocator(self._allocator)
        rmm.mr.set_current_device_resource(self._before)

    def memory(self) -> int:
        """Return how many bytes a run may hold at once."""
        return self._memory.limit

    def shortage(self) -> str:
        """Say how much memory was needed, and how much there is."""
        return self._memory.shortage()

    def evaluate(self, plan: pl.LazyFrame) -> Any:
        """Run `plan`; its rows stay on the device."""
        from cudf_polars.dsl.ir import IRExecutionContext

        translated = _translated(plan)
        with rows_counted():
            frame = translated.evaluate(cache={}, timer=None, context=IRExecutionContext())
            frame.stream.synchronize()
        return frame

    def frame(self, columns: Mapping[str, Any]) -> Any:
        """Return cupy arrays as columns without a copy; `pl.Series` are copied to the device."""
        from cudf_polars.containers import DataFrame
        from cudf_polars.utils.cuda_stream import get_cuda_stream

        stream = get_cuda_stream()
        found = [self._column(name, values, stream) for name, values in columns.items()]
        self.xp.cuda.get_current_stream().synchronize()
        stream.synchronize()
        return DataFrame(found, stream=stream)

    def _column(self, name: str, values: Any, stream: Any) -> Any:
        import pylibcudf
        from cudf_polars.containers import Column, DataFrame, DataType

        if isinstance(values, pl.Series):
            return DataFrame.from_polars(values.alias(name).to_frame(), stream=stream).columns[0]
        kind = DataType(pl.Series(np.empty(0, dtype=values.dtype)).dtype)
        if len(values):
            array = self.xp.ascontiguousarray(values)
            held = pylibcudf.Column.from_cuda_array_interface(array, stream=stream)
        else:
            held = pylibcudf.column_factories.make_empty_column(kind.plc_type, stream=stream)
        return Column(held, name=name, dtype=kind)

    def array(self, frame: Any, name: str) -> Any:
        """Return a column's memory as a cupy array, which keeps the column alive."""
        column = frame.column_map[name]
        kind = _numpy_type(column.dtype.polars_type)
        if column.size == 0:
            return self.xp.empty(0, dtype=kind)
        frame.stream.synchronize()
        return array_of(column.obj, kind)

    def gather(self, frame: Any, places: Any, *, nulls: bool = False) -> Any:
        """Return the rows at `places`; libcudf takes a place behind the last for no row."""
        import pylibcudf
        from cudf_polars.containers import DataFrame

        policies = pylibcudf.copying.OutOfBoundsPolicy
        if nulls:
            places = self.xp.where(places < 0, frame.num_rows, places)
        chosen = self.frame({"place": places}).columns[0].obj
        frame.stream.synchronize()
        table = pylibcudf.copying.gather(
            frame.table,
            chosen,
            policies.NULLIFY if nulls else policies.DONT_CHECK,
            stream=frame.stream,
        )
        frame.stream.synchronize()
        return DataFrame.from_table(table, frame.column_names, frame.dtypes, frame.stream)

    def select(self, frame: Any, names: Sequence[str]) -> Any:
        """Return some columns; none are copied."""
        from cudf_polars.containers import DataFrame

        columns = [frame.column_map[name] for name in names]
        return DataFrame(columns, stream=frame.stream, num_rows=frame.num_rows)

    def beside(self, left: Any, right: Any) -> Any:
        """Return the columns of both; none are copied."""
        from cudf_polars.containers import DataFrame

        right.stream.synchronize()
        return DataFrame([*left.columns, *right.columns], stream=left.stream)

    def schema(self, frame: Any) -> pl.Schema:
        """Return the columns' names and types."""
        return pl.Schema({column.name: column.dtype.polars_type for column in frame.columns})

    def height(self, frame: Any) -> int:
        """Return the number of rows."""
        return int(frame.num_rows)

    def download(self, frame: Any) -> pl.DataFrame:
        """Copy a frame to the host."""
        rows: pl.DataFrame = frame.to_polars()
        return rows


@contextmanager
def worker_device() -> Iterator[Device]:
    """Give the GPU of this worker of a cluster, with the memory that all that the worker runs shares."""
    device = CudaDevice(of_worker())
    try:
        yield device
    finally:
        device.close()


@contextmanager
def rows_counted() -> Generator[None]:
    """Tell what libcudf fails with where a table gets more rows than its 32 bits count from other overflows.

    Raises:
        TooManyRowsError: that happened.
    """
    try:
        yield
    except OverflowError as error:
        if "column size limit" not in str(error):
            raise
        problem = f"a table has more rows than the GPU takes at once, {(1 << 31) - 1:,}"
        raise TooManyRowsError(problem) from error


def mend_libraries() -> None:
    """Mend in this process what cudf-polars fails on, and what libcudf does slowly."""
    column_order.mend()
    integer_groups.mend()
    list_filters.mend()


def _translated(plan: pl.LazyFrame) -> Any:
    """Return cudf-polars' translation of `plan`, for memory that it takes from rmm's resource."""
    import rmm.mr
    from cudf_polars import Translator

    engine = pl.GPUEngine(
        executor="in-memory",
        memory_resource=rmm.mr.get_current_device_resource(),
        raise_on_fail=True,
    )
    translator = Translator(plan._ldf.visit(), engine)  # noqa: SLF001 (as cudf-polars itself does)
    translated = translator.translate_ir()
    problem = translator.unsupported_operations_error()
    if problem is not None:
        raise problem
    return translated


def _numpy_type(kind: pl.DataType) -> Any:
    """Return the numpy type of the values of a column of numbers or truth values."""
    return pl.Series(dtype=kind).to_numpy().dtype
