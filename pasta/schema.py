"""The tables of a trace: every column with its type, its unit and what it means.

Types are u8..u64, i8..i64, f32, f64, bool, utf8 and lists of utf8 or integers only, so that every
engine (Polars, cuDF, DuckDB, pandas, Spark) reads a trace as it is.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import pyarrow as pa

SCHEMA_VERSION = 1

U8, U32, U64 = pa.uint8(), pa.uint32(), pa.uint64()
I32, I64, F64 = pa.int32(), pa.int64(), pa.float64()
TEXT, TEXTS, INTEGERS = pa.string(), pa.list_(pa.string()), pa.list_(pa.int64())


@dataclass(frozen=True)
class Column:
    """One column of a table; `unit` is empty for names, ids and plain counts."""

    name: str
    type: pa.DataType
    about: str
    unit: str = ""


@dataclass(frozen=True)
class Table:
    """One table of a trace."""

    name: str
    row: str
    columns: tuple[Column, ...]

    @property
    def schema(self) -> pa.Schema:
        """The Arrow schema, with `about` and `unit` as metadata of each field."""
        return pa.schema(
            pa.field(c.name, c.type, metadata={"about": c.about, "unit": c.unit})
            for c in self.columns
        )


def _c(name: str, kind: pa.DataType, about: str, unit: str = "") -> Column:
    return Column(name, kind, about, unit)


RANK = _c("rank", I32, "rank of the process in the run; 0 where there is one process")
PID = _c("pid", I64, "process id; every other id is unique only per (rank, pid)")
TID = _c("tid", I64, "host thread id")
DEVICE = _c("device", I32, "device ordinal; -1 is the host")
TS = _c("ts", I64, "start, on the trace's one clock", "ns")
DUR = _c("dur", I64, "duration, never negative; null when unfinished or not recorded", "ns")
STACK = _c("stack_id", U64, "call stack in `frame`; 0: unknown")
CORRELATION = _c("correlation", U64, "links a call to the device work it caused, 1:N; 0: unknown")
EXTERNAL = _c("external_id", U64, "id of the framework operator (`span.external_id`); 0: unknown")
LAUNCH = _c("launch_id", U64, "the kernel execution; 0: unknown")
STREAM = _c("stream", I64, "stream, unique per (rank, pid, device, context)")
CONTEXT = _c("context", I64, "device context; 0 where the source has none")
BYTES = _c("bytes", I64, "size", "bytes")
SPACE = _c(
    "space",
    TEXT,
    "`device`, `managed`, `pinned`, `pool`, `tensor` (framework storages) or `host`",
)
OBJECT = _c(
    "object_id",
    U64,
    "the memory object, unique per lifetime within (rank, pid, space); 0: no known object",
)

_PROCESS = Table(
    "process",
    "one process of the run",
    (
        RANK,
        PID,
        _c("parent_pid", I64, "process that started it; null: unknown"),
        _c("host", TEXT, "host name"),
        _c("command", TEXT, "command line or process name"),
        _c("world_size", I32, "number of ranks of the run; null: unknown"),
        _c("started", I64, "start of the process or of its recording", "ns"),
        _c("ended", I64, "end of the process or of its recording", "ns"),
        _c("exit_code", I32, "exit code; negative: the signal that ended it; null: unknown"),
        _c("framework", TEXT, "framework and runtime versions, as `name version; ...`"),
        STACK,
    ),
)

_NODE = Table(
    "node",
    "one device of one host of the system that a run was on",
    (
        RANK,
        PID,
        _c("entity", TEXT, "the host, as the system's graph calls it"),
        _c("name", TEXT, "the device, as `entity/node`"),
        _c("kind", TEXT, "`cpu`, `gpu`, `nic` or another"),
        _c("model", TEXT, "what its maker calls it; empty: unknown"),
        DEVICE,
        _c("cores", INTEGERS, "cores of the host that it has"),
        _c("memory_bytes", I64, "its memory; null: unknown or none", "bytes"),
        _c("collectors", TEXTS, "what watched it"),
        _c("links", TEXTS, "the devices that it is connected with, as `entity/node`"),
        _c("link_kinds", TEXTS, "of each connection; empty: unknown"),
        _c(
            "link_bandwidths",
            INTEGERS,
            "of each connection in one direction; 0: unknown",
            "bytes/s",
        ),
        _c("facts", TEXTS, "what else is known of it, each as `name: value`"),
    ),
)

_THREAD = Table(
    "thread",
    "one host thread",
    (
        RANK,
        PID,
        TID,
        _c("name", TEXT, "thread name"),
        _c("started", I64, "start of the thread; null: unknown", "ns"),
        _c("ended", I64, "end of the thread; null: unknown", "ns"),
        STACK,
    ),
)

_DEVICE = Table(
    "device",
    "one accelerator",
    (
        RANK,
        PID,
        DEVICE,
        _c("vendor", TEXT, "`nvidia`, `amd`, ...; empty: unknown"),
        _c("name", TEXT, "product name"),
        _c("uuid", TEXT, "unique id of the card"),
        _c("memory_bytes", I64, "device memory", "bytes"),
        _c("multiprocessors", I32, "streaming multiprocessors or compute units"),
        _c("compute_capability", TEXT, "`9.0`, `gfx942`, ..."),
        _c("peak_flops_fp64", F64, "peak rate in double precision", "flop/s"),
        _c("peak_flops_fp32", F64, "peak rate in single precision", "flop/s"),
        _c("peak_flops_tf32", F64, "peak rate in TF32", "flop/s"),
        _c("peak_flops_fp16", F64, "peak rate in half precision", "flop/s"),
        _c("peak_flops_bf16", F64, "peak rate in bfloat16", "flop/s"),
        _c("peak_flops_fp8", F64, "peak rate in 8-bit floats", "flop/s"),
        _c("peak_bandwidth", F64, "peak memory bandwidth", "bytes/s"),
        _c("cache_bytes", I64, "last-level cache", "bytes"),
    ),
)

_SPAN = Table(
    "span",
    "a timed range on a host thread",
    (
        RANK,
        PID,
        TID,
        TS,
        DUR,
        _c("span_id", U64, "the span"),
        _c("parent_id", U64, "span that encloses it on its thread; 0: none"),
        _c(
            "level",
            TEXT,
            "`run`, `step`, `phase`, `module`, `operator`, `function`, `annotation` or `library`",
        ),
        _c("name", TEXT, "operator, module, function or range name"),
        _c("sequence", I64, "autograd sequence number, equal for forward and backward; null: none"),
        _c("forward_tid", I64, "for a backward operator: thread of its forward, as numbered there"),
        EXTERNAL,
        _c("input_shapes", TEXTS, "shape of each input as `4x32x128`; empty text: no tensor"),
        _c("input_types", TEXTS, "element type of each input"),
        STACK,
    ),
)

_CALL = Table(
    "call",
    "a runtime or driver API call",
    (
        RANK,
        PID,
        TID,
        TS,
        DUR,
        CORRELATION,
        EXTERNAL,
        _c("name", TEXT, "API function"),
        _c("result", I32, "returned status; null: not recorded"),
        _c("bytes", I64, "bytes asked for or moved; null: none", "bytes"),
        STACK,
    ),
)

_KERNEL = Table(
    "kernel",
    "one kernel execution",
    (
        RANK,
        PID,
        DEVICE,
        TS,
        DUR,
        LAUNCH,
        CORRELATION,
        EXTERNAL,
        _c("graph_id", U64, "CUDA or HIP graph; 0: none"),
        _c("graph_node_id", U64, "node of that graph; 0: none"),
        CONTEXT,
        STREAM,
        _c("name", TEXT, "kernel name, demangled"),
        *(_c(f"grid_{axis}", U32, f"grid size in {axis}", "blocks") for axis in "xyz"),
        *(_c(f"block_{axis}", U32, f"block size in {axis}", "threads") for axis in "xyz"),
        _c("registers", U32, "registers per thread"),
        _c("static_shared", U32, "static shared memory per block", "bytes"),
        _c("dynamic_shared", U32, "dynamic shared memory per block", "bytes"),
        _c("shared_bytes", U32, "static plus dynamic, where only the sum is known", "bytes"),
        _c("local_bytes", U64, "local memory per thread", "bytes"),
    ),
)

_COPY = Table(
    "copy",
    "a memcpy, memset, peer copy or page migration",
    (
        RANK,
        PID,
        DEVICE,
        TS,
        DUR,
        CORRELATION,
        EXTERNAL,
        CONTEXT,
        STREAM,
        _c("kind", TEXT, "`HtoD`, `DtoH`, `DtoD`, `PtoP`, `HtoH`, `memset`, `migration`; else raw"),
        _c("source", TEXT, "kind of the source memory (`pageable`, `pinned`, `device`, ...)"),
        _c("destination", TEXT, "kind of the destination memory"),
        _c("source_address", U64, "source address; null: unknown"),
        _c("destination_address", U64, "destination address; null: unknown"),
        _c("bytes", I64, "bytes moved or set; null: not recorded", "bytes"),
    ),
)

_SYNC = Table(
    "sync",
    "a synchronisation on the device timeline",
    (
        RANK,
        PID,
        DEVICE,
        TS,
        DUR,
        CORRELATION,
        EXTERNAL,
        CONTEXT,
        _c("kind", TEXT, "what waits for what, as the source names it"),
        _c("stream", I64, "stream that waits; null: the whole context or device"),
        _c("event_id", U64, "event waited for; 0: none"),
        _c("waited_stream", I64, "stream that recorded the event; null: none"),
        _c("waited_correlation", U64, "call that recorded the event; 0: unknown"),
    ),
)

_COLLECTIVE = Table(
    "collective",
    "one communication operation on one rank",
    (
        RANK,
        PID,
        DEVICE,
        TS,
        DUR,
        LAUNCH,
        CORRELATION,
        _c("communicator", TEXT, "process group; empty: unknown"),
        _c("sequence", I64, "ordinal of the operation in its communicator"),
        _c("sequence_source", TEXT, "`recorded`, or `counted` in launch order"),
        _c("operation", TEXT, "`allreduce`, `allgather`, `reducescatter`, `broadcast`, ..."),
        _c("dtype", TEXT, "element type; empty: unknown"),
        _c("bytes_in", I64, "bytes this rank contributes; null: unknown", "bytes"),
        _c("bytes_out", I64, "bytes this rank receives; null: unknown", "bytes"),
        _c("members", INTEGERS, "ranks of the communicator; null: unknown"),
        _c("peer", I32, "the other rank of a point-to-point operation; null: none"),
        _c("stream", I64, "stream it ran on"),
        _c("source", TEXT, "`arguments`, or `name` where only the kernel name told"),
    ),
)

_MEMORY = Table(
    "memory",
    "an allocation or a release",
    (
        RANK,
        PID,
        TID,
        DEVICE,
        TS,
        _c("event", TEXT, "`allocate` or `release`"),
        SPACE,
        _c("address", U64, "first byte"),
        BYTES,
        OBJECT,
        _c("total_allocated", I64, "live bytes of the allocator after it; null: unknown", "bytes"),
        _c("total_reserved", I64, "bytes the allocator holds; null: unknown", "bytes"),
        _c("stream", I64, "stream of a stream-ordered allocation; null: none"),
        STACK,
    ),
)

_TOUCH = Table(
    "touch",
    "what one launch (or operator) did to one memory object, or to one block of it",
    (
        RANK,
        PID,
        DEVICE,
        LAUNCH,
        _c("span_id", U64, "operator, where there is no launch; 0: none"),
        _c(
            "space",
            TEXT,
            "space of the object; `global`, `shared`, `local` or `remote_shared`: totals of the"
            " launch there; `unknown`: outside every known object",
        ),
        OBJECT,
        _c(
            "block",
            I64,
            "block of memory, aligned to its size and numbered from the one in which the object"
            " begins; null: the whole object",
        ),
        _c("pc", U32, "instruction, as offset into the kernel; null: the whole launch"),
        _c("granularity", U32, "unit in which unique bytes were counted", "bytes"),
        _c("unique_read", I64, "distinct bytes read; null: unknown", "bytes"),
        _c("unique_written", I64, "distinct bytes written; null: unknown", "bytes"),
        _c("unique_bytes", I64, "distinct bytes read or written; null: unknown", "bytes"),
        _c("reads", I64, "read accesses; null: not counted"),
        _c("writes", I64, "write accesses; null: not counted"),
        _c("atomics", I64, "atomic accesses; null: not counted"),
        _c("bytes_read", I64, "bytes read, repeats included; null: not counted", "bytes"),
        _c("bytes_written", I64, "bytes written, repeats included; null: not counted", "bytes"),
    ),
)

_ACCESS = Table(
    "access",
    "one raw memory access of one thread; each file is in order of (launch_id, request, lane)",
    (
        RANK,
        PID,
        DEVICE,
        LAUNCH,
        _c("request", U64, "ordinal of the warp instruction in its launch"),
        _c("lane", U8, "lane of the warp"),
        _c("pc", U32, "instruction, as offset into the kernel", "bytes"),
        _c("address", U64, "first byte"),
        _c("bytes", U32, "size", "bytes"),
        _c("op", U8, "0 read, 1 write, 2 atomic, 3 prefetch"),
        _c("space", U8, "0 global, 1 shared, 2 local, 3 generic, 4 remote shared, 5 texture"),
        _c("warp", U32, "warp in its block"),
        _c("block", U64, "flattened index of the block in its grid"),
    ),
)

_EVENT = Table(
    "event",
    "a device-side event, counted per launch and instruction",
    (
        RANK,
        PID,
        DEVICE,
        LAUNCH,
        _c("kind", TEXT, "`block_entry`, `block_exit`, `barrier`, `device_call`, ..."),
        _c("pc", U32, "instruction, as offset into the kernel", "bytes"),
        _c("count", I64, "how often"),
    ),
)

_METRIC = Table(
    "metric",
    "one counter of one launch, instruction, device or interval",
    (
        RANK,
        PID,
        DEVICE,
        TS,
        DUR,
        LAUNCH,
        _c("pc", U32, "instruction, as offset into the kernel; null: the whole launch", "bytes"),
        _c("source", TEXT, "source line of that instruction, as `file:line`; null: unknown"),
        _c("name", TEXT, "counter"),
        _c("value", F64, "value"),
        _c("unit", TEXT, "unit of the value"),
    ),
)

_SAMPLE = Table(
    "sample",
    "one CPU stack sample or off-CPU interval",
    (
        RANK,
        PID,
        TID,
        TS,
        DUR,
        _c("kind", TEXT, "`on_cpu`, `off_cpu`, ...; else the name of the event or probe"),
        _c(
            "state",
            TEXT,
            "of `off_cpu`, why: `sleeping`, `uninterruptible`, `preempted` (it could have run on),"
            " `stopped`, ...; null: unknown",
        ),
        STACK,
        _c("weight", F64, "ns of kinds `on_cpu` and `off_cpu`, else how many of the kind"),
    ),
)

_FRAME = Table(
    "frame",
    "one frame of an interned call stack",
    (
        RANK,
        PID,
        _c("stack_id", U64, "the stack"),
        _c("depth", I32, "0 is the outermost frame"),
        _c("function", TEXT, "function"),
        _c("file", TEXT, "source file; empty: unknown"),
        _c("line", I32, "line; 0: unknown"),
        _c("language", TEXT, "`python`, `c++`, ..."),
        _c("library", TEXT, "shared library or module; empty: unknown"),
    ),
)

_SOURCE = Table(
    "source",
    "one line of a source file that frames name, packed where the trace was recorded",
    (
        RANK,
        PID,
        _c("file", TEXT, "the file as `frame.file` has it"),
        _c("line", I32, "line, from 1 on"),
        _c("text", TEXT, "the line without its end, tabs as spaces"),
        _c("sha256", TEXT, "hash of the whole file"),
    ),
)

_LOSS = Table(
    "loss",
    "something dropped, malformed, clipped or unknown",
    (
        RANK,
        PID,
        _c("collector", TEXT, "who counted it"),
        _c("reason", TEXT, "what was lost or not trusted, and what was done instead"),
        _c("count", I64, "how many"),
        _c("first_ts", I64, "when it first happened; null: unknown", "ns"),
    ),
)

TABLES: dict[str, Table] = {
    table.name: table
    for table in (
        _PROCESS,
        _THREAD,
        _NODE,
        _DEVICE,
        _SPAN,
        _CALL,
        _KERNEL,
        _COPY,
        _SYNC,
        _COLLECTIVE,
        _MEMORY,
        _TOUCH,
        _ACCESS,
        _EVENT,
        _METRIC,
        _SAMPLE,
        _FRAME,
        _SOURCE,
        _LOSS,
    )
}
"""Every table by name, in the order in which `pasta trace info` lists them."""


@cache
def arrow_schema(table: str) -> pa.Schema:
    """Return the Arrow schema of `table`."""
    return TABLES[table].schema
