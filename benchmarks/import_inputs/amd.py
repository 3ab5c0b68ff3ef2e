"""Large inputs: recordings of AMD's profilers."""

from __future__ import annotations

import contextlib
import random
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from .writing import NAMES, Row, write_until

_ID = '"id" INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT, "guid" TEXT DEFAULT "00000450" NOT NULL'
_OWNERS = '"nid" INTEGER, "pid" INTEGER, "tid" INTEGER, "agent_id" INTEGER, "queue_id" INTEGER, "stream_id" INTEGER'
_SHAPE = (
    '"private_segment_size" INTEGER, "group_segment_size" INTEGER, "workgroup_size_x" INTEGER,'
    ' "workgroup_size_y" INTEGER, "workgroup_size_z" INTEGER, "grid_size_x" INTEGER,'
    ' "grid_size_y" INTEGER, "grid_size_z" INTEGER, "event_id" INTEGER'
)
_TIMES = '"start" BIGINT NOT NULL, "end" BIGINT NOT NULL'
_DESCRIBED = {
    "string": f'{_ID}, "string" TEXT NOT NULL',
    "info_node": f'{_ID}, "hostname" TEXT',
    "info_process": f'{_ID}, "nid" INTEGER, "ppid" INTEGER, "pid" INTEGER, "command" TEXT',
    "info_thread": f'{_ID}, "nid" INTEGER, "pid" INTEGER, "tid" INTEGER, "name" TEXT',
    "info_agent": f'{_ID}, "type" TEXT, "absolute_index" INTEGER, "name" TEXT, "product_name" TEXT',
    "info_kernel_symbol": f'{_ID}, "kernel_name" TEXT, "display_name" TEXT',
    "info_pmc": f'{_ID}, "name" TEXT, "symbol" TEXT, "units" TEXT',
    "event": f'{_ID}, "category_id" INTEGER, "stack_id" INTEGER, "parent_stack_id" INTEGER,'
    ' "correlation_id" INTEGER, "extdata" JSONB DEFAULT "{}" NOT NULL',
    "pmc_event": f'{_ID}, "event_id" INTEGER, "pmc_id" INTEGER, "value" REAL',
}
_ROCPD_3 = _DESCRIBED | {
    "region": f'{_ID}, "nid" INTEGER, "pid" INTEGER, "tid" INTEGER, {_TIMES}, "name_id" INTEGER, "event_id" INTEGER',
    "kernel_dispatch": f'{_ID}, {_OWNERS}, "kernel_id" INTEGER, "dispatch_id" INTEGER, {_TIMES}, {_SHAPE}',
}
_ROCPD_4 = _DESCRIBED | {
    "info_category": f'{_ID}, "name" TEXT NOT NULL',
    "track": f"{_ID}, {_OWNERS}",
    "timestamp": f'{_ID}, "value" BIGINT, "track_id" INTEGER',
    "region": f'{_ID}, "track_id" INTEGER, "name_id" INTEGER, "start_id" INTEGER, "end_id" INTEGER, "event_id" INTEGER',
    "kernel_dispatch": f'{_ID}, "track_id" INTEGER, "kernel_id" INTEGER, "dispatch_id" INTEGER,'
    f' "start_id" INTEGER, "end_id" INTEGER, {_SHAPE}',
}
_CALL, _MARK, _DISPATCH = 1, 2, 3
_CATEGORIES = ("HIP_RUNTIME_API", "MARKER_CORE_API", "KERNEL_DISPATCH")
_CALL_NAME, _MARK_NAME = 4, 5


def make_rocpd3(path: Path, size: int, seed: int) -> None:
    """Make rocprofv3's database of schema 3: launches, kernels, a range around ten, a counter each."""
    _make_rocpd(path, size, seed, _ROCPD_3)


def make_rocpd4(path: Path, size: int, seed: int) -> None:
    """Make rocprofv3's database of schema 4 with tracks and a table of times; the same content."""
    _make_rocpd(path, size, seed, _ROCPD_4)


def _make_rocpd(path: Path, size: int, seed: int, schema: dict[str, str]) -> None:
    with _database(path) as connection:
        names = {table: f"rocpd_{table}_00000450" for table in schema}
        for table, columns in schema.items():
            connection.execute(f'CREATE TABLE "{names[table]}" ({columns})')
        insert = _Inserting(connection, names)
        for text in (*_CATEGORIES, "hipLaunchKernel", "roctxThreadRangeA"):
            insert("string", string=text)
        for text in _CATEGORIES if "info_category" in schema else ():
            insert("info_category", name=text)
        insert("info_node", hostname="here")
        insert("info_process", nid=1, ppid=5, pid=77, command="./prog")
        insert("info_thread", nid=1, pid=1, tid=78)
        insert("info_agent", type="GPU", absolute_index=4, name="gfx942", product_name="AMD")
        insert("info_pmc", name="SQ_WAVES", symbol="SQ_WAVES", units="waves")
        for at in range(NAMES):
            insert("info_kernel_symbol", kernel_name=f"k{at}.kd", display_name=f"kernel_{at}")
        apart = "timestamp" in schema
        timed = _timed(insert, apart)
        owners = {} if apart else {"agent_id": 1, "queue_id": 1, "stream_id": 1}
        chance = random.Random(seed)  # noqa: S311 - not for secrets
        event = dispatch = 0
        ts = 1_000_000
        while insert.bytes < size:
            for _ in range(1_000):
                if dispatch % 10 == 0:
                    event += 1
                    insert(
                        "event",
                        category_id=_MARK,
                        stack_id=0,
                        extdata=f'{{"message": "step {dispatch}"}}',
                    )
                    insert("region", name_id=_MARK_NAME, event_id=event, **timed(ts, ts + 30_000))
                dispatch += 1
                insert("event", category_id=_CALL, stack_id=dispatch, extdata="{}")
                insert("region", name_id=_CALL_NAME, event_id=event + 1, **timed(ts, ts + 900))
                insert("event", category_id=_DISPATCH, stack_id=dispatch, extdata="{}")
                shape = {
                    f"{what}_size_{axis}": 64 for what in ("workgroup", "grid") for axis in "xyz"
                }
                insert(
                    "kernel_dispatch", kernel_id=1 + chance.randrange(NAMES), dispatch_id=dispatch,
                    private_segment_size=0, group_segment_size=0, event_id=event + 2, **shape,
                    **owners, **timed(ts + 1_000, ts + 2_500),
                )  # fmt: skip
                if dispatch % 10 == 0:
                    insert("pmc_event", event_id=event + 2, pmc_id=1, value=64.0)
                event, ts = event + 2, ts + 3_000
            insert.flush()


def _timed(insert: _Inserting, apart: bool) -> Callable[[int, int], dict[str, int]]:  # noqa: FBT001
    """Return what gives the columns of a row's times and owners, which may be rows of their own."""
    if not apart:
        return lambda start, end: {"nid": 1, "pid": 1, "tid": 1, "start": start, "end": end}
    ids = iter(range(1, 1 << 62))
    insert("track", nid=1, pid=1, tid=1, agent_id=1, queue_id=1, stream_id=1)

    def told(start: int, end: int) -> dict[str, int]:
        for value in (start, end):
            insert("timestamp", value=value, track_id=1)
        return {"track_id": 1, "start_id": next(ids), "end_id": next(ids)}

    return told


def make_rpd(path: Path, size: int, seed: int) -> None:
    """Make an RPD file: launches and the kernels that they started."""
    tables = {
        "string": '"id" INTEGER PRIMARY KEY, "string" TEXT',
        "api": '"id" INTEGER PRIMARY KEY, "pid" INTEGER, "tid" INTEGER, "start" INTEGER, "end" INTEGER,'
        ' "apiName_id" INTEGER, "args_id" INTEGER',
        "op": '"id" INTEGER PRIMARY KEY, "gpuId" INTEGER, "queueId" INTEGER, "sequenceId" INTEGER,'
        ' "start" INTEGER, "end" INTEGER, "description_id" INTEGER, "opType_id" INTEGER',
        "api_ops": '"id" INTEGER PRIMARY KEY, "api_id" INTEGER, "op_id" INTEGER',
        "kernelapi": '"api_ptr_id" INTEGER PRIMARY KEY, "stream" TEXT, "gridX" INTEGER, "gridY" INTEGER,'
        ' "gridZ" INTEGER, "workgroupX" INTEGER, "workgroupY" INTEGER, "workgroupZ" INTEGER,'
        ' "groupSegmentSize" INTEGER, "privateSegmentSize" INTEGER, "kernelName_id" INTEGER',
    }
    with _database(path) as connection:
        names = {table: f"rocpd_{table}" for table in tables}
        for table, columns in tables.items():
            connection.execute(f'CREATE TABLE "{names[table]}" ({columns})')
        insert = _Inserting(connection, names)
        for text in (
            "hipLaunchKernel",
            "KernelExecution",
            "",
            *(f"kernel_{at}" for at in range(NAMES)),
        ):
            insert("string", string=text)
        chance = random.Random(seed)  # noqa: S311 - not for secrets
        number, ts = 0, 1_000_000
        shape = {f"{what}{axis}": 64 for what in ("grid", "workgroup") for axis in "XYZ"}
        while insert.bytes < size:
            for _ in range(1_000):
                number, ts = number + 1, ts + 3_000
                insert(
                    "api",
                    id=number,
                    pid=77,
                    tid=78,
                    start=ts,
                    end=ts + 900,
                    apiName_id=1,
                    args_id=3,
                )
                insert("op", gpuId=0, queueId=0, sequenceId=0, start=ts + 1_000, end=ts + 2_500,
                       description_id=4 + chance.randrange(NAMES), opType_id=2)  # fmt: skip
                insert("api_ops", api_id=number, op_id=number)
                insert("kernelapi", api_ptr_id=number, stream="0", groupSegmentSize=0,
                       privateSegmentSize=0, kernelName_id=4, **shape)  # fmt: skip
            insert.flush()


@contextlib.contextmanager
def _database(path: Path) -> Iterator[sqlite3.Connection]:
    path.unlink(missing_ok=True)
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA journal_mode = OFF")
        connection.execute("PRAGMA synchronous = OFF")
        yield connection
        connection.commit()


class _Inserting:
    """Inserts rows, many at a time; rows of a table always have the same columns."""

    def __init__(self, connection: sqlite3.Connection, names: dict[str, str]) -> None:
        self._connection = connection
        self._names = names
        self._rows: dict[str, list[Row]] = {}
        self._columns: dict[str, tuple[str, ...]] = {}

    def __call__(self, table: str, **values: Any) -> None:
        self._columns.setdefault(table, tuple(values))
        self._rows.setdefault(table, []).append(tuple(values.values()))

    @property
    def bytes(self) -> int:
        """Size of the file that the database becomes."""
        (pages,) = self._connection.execute("PRAGMA page_count").fetchone()
        (page_size,) = self._connection.execute("PRAGMA page_size").fetchone()
        return int(pages * page_size)

    def flush(self) -> None:
        """Insert what is held back."""
        for table, rows in self._rows.items():
            columns = self._columns[table]
            named = ", ".join(f'"{column}"' for column in columns)
            marks = ", ".join("?" * len(columns))
            self._connection.executemany(
                f'INSERT INTO "{self._names[table]}" ({named}) VALUES ({marks})',  # noqa: S608
                rows,
            )
            rows.clear()


def make_rocprofv3_csv(folder: Path, size: int, seed: int) -> None:
    """Make rocprofv3's CSV files of one process: kernels and calls, half of `size` each."""
    folder.mkdir(parents=True, exist_ok=True)
    chance = random.Random(seed)  # noqa: S311 - not for secrets
    (folder / "77_agent_info.csv").write_text(
        '"Node_Id","Logical_Node_Id","Agent_Type","Cu_Count","Name","Vendor_Name","Product_Name"\n'
        '4,1,"GPU",304,"gfx942","AMD","AMD Instinct MI300X"\n'
    )

    def kernels() -> Iterator[bytes]:
        yield (
            b'"Kind","Agent_Id","Queue_Id","Stream_Id","Thread_Id","Dispatch_Id","Kernel_Id","Kernel_Name",'
            b'"Correlation_Id","Start_Timestamp","End_Timestamp","LDS_Block_Size","Scratch_Size","VGPR_Count",'
            b'"Accum_VGPR_Count","SGPR_Count","Workgroup_Size_X","Workgroup_Size_Y","Workgroup_Size_Z",'
            b'"Grid_Size_X","Grid_Size_Y","Grid_Size_Z"\n'
        )
        number, ts = 0, 1_000_000
        while True:
            number, ts = number + 1, ts + 3_000
            name = chance.randrange(NAMES)
            yield (
                f'"KERNEL_DISPATCH","Agent 4",1,9,8,{number},{name},"kernel_{name}<float, 4>(float*)",{number},'
                f"{ts + 1_000},{ts + 2_500},512,16,32,8,16,64,2,1,100,4,1\n"
            ).encode()

    def calls() -> Iterator[bytes]:
        yield (
            b'"Domain","Function","Process_Id","Thread_Id","Correlation_Id","Start_Timestamp","End_Timestamp"\n'
        )
        number, ts = 0, 1_000_000
        while True:
            number, ts = number + 1, ts + 3_000
            yield f'"HIP_RUNTIME_API","hipLaunchKernel",77,8,{number},{ts},{ts + 900}\n'.encode()

    write_until(folder / "77_kernel_trace.csv", size // 2, kernels())
    write_until(folder / "77_hip_api_trace.csv", size // 2, calls())
