"""Large files in the formats of other tools, made of nothing but numbers: inputs for `importers.py make`.

Every function writes a file of about the size that is asked for, and tells what a long recording would: few names,
many events, and as many different call stacks as the format lets a long recording have.
"""

from __future__ import annotations

import contextlib
import json
import random
import sqlite3
import struct
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

NAMES = 200
_START_NS = 1_700_000_000_000_000_000
_INSERTED_ROWS = 1 << 14

Row = tuple[Any, ...]


def write_until(path: Path, size: int, pieces: Iterable[bytes], end: bytes = b"") -> None:
    """Write pieces until a file has `size` bytes, then what ends it."""
    with path.open("wb", buffering=1 << 22) as file:
        written = 0
        for piece in pieces:
            written += file.write(piece)
            if written >= size:
                break
        file.write(end)


def _text(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


# --- PyTorch -----------------------------------------------------------------------------------

_LINEAR = "aten::linear(Tensor input, Tensor weight, Tensor? bias=None) -> Tensor"
_TRANSPOSE = "aten::t(Tensor(a) self) -> Tensor(a)"
_PRODUCT = "aten::addmm(Tensor self, Tensor mat1, Tensor mat2) -> Tensor"
_ADD = "aten::add_.Tensor(Tensor(a!) self, Tensor other, *, Scalar alpha=1) -> Tensor(a!)"
_STEP_LAYERS = 50
_STORAGES = 2_000


def make_torch_execution(folder: Path, size: int, seed: int) -> None:
    """Make an execution trace of `size` and the Kineto file of the same run, in a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    chance = random.Random(seed)  # noqa: S311 - not for secrets
    with (folder / "kineto.json").open("wb", buffering=1 << 22) as kineto:
        kineto.write(b'{"schemaVersion":1,"traceEvents":[\n')

        def nodes() -> Iterator[bytes]:
            yield b'{"schema":"1.1.1-chakra.0.0.4","pid":7,"time":"","start_ts":1,"nodes":[\n'
            yield _text(_node(2, "[pytorch|profiler|execution_trace|thread]", 1, "", (), ()))
            number, ts, comma = 3, 1_000, b""
            while True:
                events, written, number, ts = _step(number, ts, chance)
                for event in events:
                    kineto.write(comma + _text(event))
                    comma = b",\n"
                yield b"".join(b",\n" + _text(node) for node in written)

        write_until(folder / "execution_trace.json", size, nodes(), b"]}\n")
        kineto.write(b"]}\n")


def _step(number: int, ts: int, chance: random.Random) -> tuple[list[Any], list[Any], int, int]:
    """Return the events and nodes of one step, and the next number and time."""
    step, begun = number, ts
    events, nodes = [], []
    number, ts = number + 1, ts + 10
    for layer in range(_STEP_LAYERS):
        weight, bias = 10 + layer, 100 + layer
        given, made = (chance.randrange(1_000, 1_000 + _STORAGES) for _ in range(2))
        linear, transpose, product, add = range(number, number + 4)
        sequence = number
        operands = ((given, (64, 512)), (weight, (512, 512)), (bias, (512,)))
        view, result = (weight, (512, 512)), (made, (64, 512))
        nodes += [
            _node(transpose, "aten::t", linear, _TRANSPOSE, operands[1:2], (view,)),
            _node(product, "aten::addmm", linear, _PRODUCT, (operands[2], operands[0], view), (result,)),
            _node(linear, "aten::linear", step, _LINEAR, operands, (result,), sequence),
            _node(add, "aten::add_", step, _ADD, (result, operands[0]), (result,), sequence + 1),
        ]  # fmt: skip
        events += [
            _operator("aten::linear", ts, 40, linear, sequence),
            _operator("aten::t", ts + 2, 5, transpose),
            _operator("aten::addmm", ts + 10, 25, product),
            _operator("aten::add_", ts + 42, 10, add, sequence + 1),
        ]
        number, ts = number + 4, ts + 55
    nodes.append(_node(step, "forward", 2, "", (), ()))
    events.append(_operator("forward", begun, ts - begun, step, category="user_annotation"))
    return events, nodes, number, ts + 10


def _node(  # noqa: PLR0917 - as the format has them
    number: int,
    name: str,
    parent: int,
    schema: str,
    inputs: Iterable[Any],
    outputs: Iterable[Any],
    sequence: int = -1,
) -> dict[str, Any]:
    def listed(operands: Iterable[Any]) -> dict[str, Any]:
        known = list(operands)
        shapes = [list(shape) for _, shape in known]
        return {
            "values": [
                [number * 8 + at, storage, 0, _product(shape), 4, "cuda:0"]
                for at, (storage, shape) in enumerate(known)
            ],
            "shapes": shapes,
            "types": ["Tensor(float)"] * len(known),
            "strides": [
                [_product(shape[at + 1 :]) for at in range(len(shape))] for shape in shapes
            ],
        }

    attributes = {
        "rf_id": number, "fw_parent": 0, "seq_id": sequence, "scope": 0, "tid": 1, "fw_tid": 0,
        "op_schema": schema, "kernel_backend": "", "kernel_file": "",
    }  # fmt: skip
    return {
        "id": number,
        "name": name,
        "ctrl_deps": parent,
        "inputs": listed(inputs),
        "outputs": listed(outputs),
        "attrs": [{"name": key, "type": "uint64", "value": value} for key, value in attributes.items()],
    }  # fmt: skip


def _product(sizes: Iterable[int]) -> int:
    found = 1
    for size in sizes:
        found *= size
    return found


def _operator(  # noqa: PLR0917 - as the format has them
    name: str,
    ts: int,
    dur: int,
    number: int,
    sequence: int | None = None,
    category: str = "cpu_op",
) -> dict[str, Any]:
    more = {} if sequence is None else {"Sequence number": sequence}
    arguments = {"External id": number, **more}
    head = {"ph": "X", "cat": category, "name": name, "pid": 7, "tid": 70}
    return {**head, "ts": ts, "dur": dur, "args": arguments}


def make_torch_memory(path: Path, size: int, seed: int) -> None:
    """Make a memory snapshot, a pickle: allocations and releases of one device, and their stacks."""
    import pickle

    chance = random.Random(seed)  # noqa: S311 - not for secrets
    lines = [{"name": f"f{at}", "filename": "/m/model.py", "line": at} for at in range(2_000)]
    entries: list[Any] = []
    live: list[tuple[int, int]] = []
    entry_bytes = 55
    for at in range(size // entry_bytes):
        told = {"stream": 0, "time_us": 1_700_000_000_000_000 + at}
        if live and (len(live) > 5_000 or chance.random() < 0.5):
            place = chance.randrange(len(live))
            live[place], live[-1] = live[-1], live[place]
            address, held = live.pop()
            entries.append({"action": "free_requested", "addr": address, "size": held, **told})
        else:
            frames = [lines[(at * step) % 2_000] for step in (1, 3, 7)]
            address, held = 0x7F0000000000 + at * 512, 512 * chance.randrange(1, 64)
            live.append((address, held))
            entries.append({"action": "alloc", "addr": address, "size": held, "frames": frames, **told})  # fmt: skip
    with path.open("wb") as file:
        pickle.dump({"segments": [], "device_traces": [entries]}, file)


# --- AMD ---------------------------------------------------------------------------------------

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


# --- texts -------------------------------------------------------------------------------------


def make_nvbit(path: Path, size: int, seed: int) -> None:
    """Make NVBit's text: launches of 1,000 lines of 32 addresses."""
    chance = random.Random(seed)  # noqa: S311 - not for secrets
    context = "MEMTRACE: CTX 0x000055d5c7f51d60 - "
    bases = [0x7F0000000000 + 128 * chance.randrange(1 << 20) for _ in range(1 << 12)]
    texts = [" ".join(f"0x{base + 4 * lane:016x}" for lane in range(32)) for base in bases]

    def lines() -> Iterator[bytes]:
        launch = 0
        while True:
            yield (
                f"{context}LAUNCH - Kernel pc 0x00007f0000000000 - Kernel name kernel_{launch % NAMES}(float*)"
                f" - grid launch id {launch} - grid size 4,2,1 - block size 128,1,1 - nregs 10 - shmem 0"
                " - cuda stream id 7\n"
            ).encode()
            for at in range(1_000):
                where = f"CTA {at % 4},{at % 2},0 - warp {at % 4} - LDG.E"
                addresses = texts[chance.randrange(1 << 12)]
                yield f"{context}grid_launch_id {launch} - {where} - {addresses} \n".encode()
            launch += 1

    write_until(path, size, lines())


def make_perf_script(path: Path, size: int, seed: int) -> None:
    """Make what `perf script` prints: samples of 16 threads with stacks of 20 frames."""
    chance = random.Random(seed)  # noqa: S311 - not for secrets

    def samples() -> Iterator[bytes]:
        ts = 40_781_000_000_000
        while True:
            ts += 10_000
            tid = 1_271 + chance.randrange(16)
            lines = [
                f"prog  1271/{tid}  [001]  {ts // 10**9}.{ts % 10**9:09d}:   10101010 cycles:u: "
            ]
            for depth in range(20):
                at = depth * 50 + chance.randrange(3)
                lines.append(f"\t          {at:06x} function_{at}+0x1f (/usr/lib/libprog.so)")
            yield ("\n".join(lines) + "\n\n").encode()

    write_until(path, size, samples())


def make_collapsed(path: Path, size: int, seed: int) -> None:
    """Make collapsed stacks, each of them another one, as tools write each stack once."""
    chance = random.Random(seed)  # noqa: S311 - not for secrets

    def lines() -> Iterator[bytes]:
        while True:
            frames = [
                f"function_{depth * 50 + chance.randrange(5)} (model.py:{depth})"
                for depth in range(12)
            ]
            yield f"{';'.join(frames)} {chance.randrange(1, 100)}\n".encode()

    write_until(path, size, lines())


def make_triton_log(path: Path, size: int, seed: int) -> None:
    """Make tritonparse's log: a compilation of 200 kB in every thousand launches."""
    chance = random.Random(seed)  # noqa: S311 - not for secrets
    source = "x" * 200_000

    def lines() -> Iterator[bytes]:
        at = 0
        while True:
            at += 1
            stamp = f"2025-07-07T{at // 3_600_000_000 % 24:02d}:{at // 60_000_000 % 60:02d}:{at // 10**6 % 60:02d}.{at % 10**6:06d}Z"
            stack = [
                {
                    "line": chance.randrange(30),
                    "name": f"f{depth}",
                    "filename": "/m/t.py",
                    "loc": "",
                }
                for depth in range(8)
            ]
            told = {"event_type": "launch", "pid": 7, "stack": stack, "timestamp": stamp}
            name = f"kernel_{chance.randrange(NAMES)}"
            if at % 1_000 == 1:
                payload = {"metadata": {"name": name, "num_warps": 4}, "times": {"ir_initialization": 500},
                           "file_content": {"k.ttir": source}}  # fmt: skip
                yield _text({**told, "event_type": "compilation", "payload": payload}) + b"\n"
            metadata = {"name": name, "num_warps": 4, "warp_size": 32, "shared": 0}
            yield _text({**told, "name": name, "grid": [64, 1, 1], "stream": 0, "compilation_metadata": metadata}) + b"\n"  # fmt: skip

    write_until(path, size, lines())


# --- JSON documents ----------------------------------------------------------------------------


def make_speedscope(path: Path, size: int, seed: int) -> None:
    """Make a speedscope file as py-spy writes it: profiles before the names of their frames."""
    chance = random.Random(seed)  # noqa: S311 - not for secrets
    frames = [{"name": f"function_{at}", "file": "/m/model.py", "line": at} for at in range(5_000)]
    threads, sample_bytes = 8, 75
    count = size // threads // sample_bytes

    def pieces() -> Iterator[bytes]:
        yield b'{"$schema":"https://www.speedscope.app/file-format-schema.json","profiles":['
        for thread in range(threads):
            head = {"type": "sampled", "name": f'Process 7 Thread {70 + thread} "worker"', "unit": "seconds",
                    "startValue": 0.0, "endValue": count / 100}  # fmt: skip
            yield (b"," if thread else b"") + _text(head)[:-1] + b',"samples":['
            for at in range(count):
                yield (b"," if at else b"") + _text(_stack(chance))
            yield b'],"weights":['
            for at in range(count):
                yield (b"," if at else b"") + b"0.01"
            yield b"]}"

    end = b'],"shared":{"frames":' + _text(frames) + b'},"exporter":"py-spy@0.4.0","name":"py-spy"}'
    write_until(path, size * 2, pieces(), end)


def make_speedscope_evented(path: Path, size: int, seed: int) -> None:
    """Make a speedscope file of one profile of frames that are opened and closed."""
    chance = random.Random(seed)  # noqa: S311 - not for secrets
    frames = [{"name": f"function_{at}", "file": "/m/model.py", "line": at} for at in range(5_000)]

    def pieces() -> Iterator[bytes]:
        yield (
            b'{"$schema":"https://www.speedscope.app/file-format-schema.json","shared":{"frames":'
            + _text(frames)
        )
        yield b'},"profiles":[{"type":"evented","name":"main","unit":"microseconds","startValue":0,"endValue":1,"events":['
        at, comma = 0, b""
        while True:
            opened = _stack(chance)
            kinds = [("O", frame) for frame in opened] + [
                ("C", frame) for frame in reversed(opened)
            ]
            events = []
            for kind, frame in kinds:
                at += 3
                events.append(_text({"type": kind, "frame": frame, "at": at / 10}))
            yield comma + b",".join(events)
            comma = b","

    write_until(path, size, pieces(), b"]}]}")


def _stack(chance: random.Random) -> list[int]:
    """Return the frames of a stack, in 99 of 100 cases one of a thousand."""
    number = chance.randrange(1_000) if chance.random() < 0.99 else chance.randrange(1 << 28)
    return [depth * 250 + (number >> 2 * depth & 3) for depth in range(14)]


def make_proton(path: Path, size: int, seed: int) -> None:
    """Make Proton's tree: 60 calls below every call, three deep, until the size is reached."""
    chance = random.Random(seed)  # noqa: S311 - not for secrets
    leaf_bytes = 140
    calls = max(size // leaf_bytes // 60, 1)

    def leaf() -> bytes:
        metrics = {"count": chance.randrange(1, 9), "device_id": "0", "device_type": "CUDA",
                   "time (ns)": chance.randrange(1, 10**6)}  # fmt: skip
        return _text({"children": [], "frame": {"name": f"kernel_{chance.randrange(NAMES)}", "type": "function"}, "metrics": metrics})  # fmt: skip

    def pieces() -> Iterator[bytes]:
        yield b'[{"children":['
        for call in range(calls):
            yield (b"," if call else b"") + b'{"children":['
            for at in range(60):
                yield (b"," if at else b"") + leaf()
            named = {"name": f"call_{call}", "type": "function"}
            yield b'],"frame":' + _text(named) + b',"metrics":{}}'

    devices = {"CUDA": {"0": {"arch": "90", "num_sms": 132}}}
    end = (
        b'],"frame":{"name":"ROOT","type":"function"},"metrics":{"count":0,"time (ns)":0}},'
        + _text(devices)
        + b"]"
    )
    write_until(path, size * 2, pieces(), end)


# --- protocol buffers --------------------------------------------------------------------------


def _varint(value: int) -> bytes:
    found = bytearray()
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    found.append(value)
    return bytes(found)


def _message(*pairs: tuple[int, int | str | bytes | float]) -> bytes:
    found = []
    for number, value in pairs:
        if isinstance(value, int):
            found.append(_varint(number << 3) + _varint(value))
        elif isinstance(value, float):
            found.append(_varint(number << 3 | 1) + struct.pack("<d", value))
        else:
            data = value.encode() if isinstance(value, str) else value
            found.append(_varint(number << 3 | 2) + _varint(len(data)) + data)
    return b"".join(found)


def make_perfetto(path: Path, size: int, seed: int) -> None:
    """Make a Perfetto trace: nested slices of 16 threads and a counter."""
    chance = random.Random(seed)  # noqa: S311 - not for secrets

    def packets() -> Iterator[bytes]:
        def packet(*pairs: tuple[int, int | str | bytes]) -> bytes:
            return _message((1, _message(*pairs, (10, 1))))

        yield packet((60, _message((1, 1), (3, _message((1, 70), (2, "prog"))))))
        for thread in range(16):
            yield packet(
                (
                    60,
                    _message(
                        (1, 2 + thread), (4, _message((1, 70), (2, 71 + thread), (5, f"t{thread}")))
                    ),
                )
            )
        yield packet((60, _message((1, 99), (2, "queue"), (5, 1), (8, _message((3, 2))))))
        ts = 1_000_000
        while True:
            track = 2 + chance.randrange(16)
            for _ in range(4):
                ts += 100
                name = f"slice_{chance.randrange(NAMES)}"
                note = _message((10, "size"), (4, chance.randrange(1 << 20)))
                yield packet(
                    (8, ts), (11, _message((9, 1), (11, track), (23, name), (22, "app"), (4, note)))
                )
            for _ in range(4):
                ts += 100
                yield packet((8, ts), (11, _message((9, 2), (11, track))))
            yield packet((8, ts), (11, _message((9, 4), (11, 99), (30, chance.randrange(100)))))

    write_until(path, size, packets())


def make_xplane(path: Path, size: int, seed: int) -> None:
    """Make an XLA profile: a device's stream and a host's thread, half of `size` each."""
    chance = random.Random(seed)  # noqa: S311 - not for secrets
    shape = "regs:32 static_shared:0 dynamic_shared:0 grid:8,1,1 block:64,1,1 occ_pct:100"
    with path.open("wb", buffering=1 << 22) as file:
        for plane, line in (("/device:GPU:0", "Stream #13(Compute)"), ("/host:CPU", "main")):
            stats = ((1, "correlation_id"), (2, "kernel_details"))
            metadata = [(4, _entry(at, f"kernel_{at}")) for at in range(1, NAMES + 1)]
            metadata += [(5, _entry(at, name)) for at, name in stats]
            events, held, at = [], 0, 0
            while held < size // 2:
                at += 1
                told = [(4, _message((1, 1), (3, at))), (4, _message((1, 2), (5, shape)))]
                name = 1 + chance.randrange(NAMES)
                event = _message((1, name), (2, at * 3_000_000), (3, 1_500_000), *told)
                events.append(_message((4, event)))
                held += len(events[-1])
            content = _message((1, 13), (2, line), (3, _START_NS)) + b"".join(events)
            head = _message((2, plane)) + _varint(3 << 3 | 2) + _varint(len(content))
            rest = _message(*metadata)
            file.write(_varint(1 << 3 | 2) + _varint(len(head) + len(content) + len(rest)))
            file.writelines((head, content, rest))
        file.write(_message((4, "here")))


def _entry(number: int, name: str) -> bytes:
    return _message((1, number), (2, _message((1, number), (2, name))))


MAKE: dict[str, Callable[[Path, int, int], None]] = {
    "torch_execution": make_torch_execution,
    "torch_memory": make_torch_memory,
    "rocpd3": make_rocpd3,
    "rocpd4": make_rocpd4,
    "rpd": make_rpd,
    "rocprofv3_csv": make_rocprofv3_csv,
    "nvbit": make_nvbit,
    "perf_script": make_perf_script,
    "collapsed": make_collapsed,
    "triton_log": make_triton_log,
    "speedscope": make_speedscope,
    "speedscope_evented": make_speedscope_evented,
    "proton": make_proton,
    "perfetto": make_perfetto,
    "xplane": make_xplane,
}
"""Format -> what makes a file of it, or a folder of files, given path, size in bytes and seed."""
