"""rocprofv3's databases of schema 3 and 4, made by hand with the published tables."""

from __future__ import annotations

import contextlib
import sqlite3

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pasta.collect.importing import import_trace
from pasta.errors import InputError
from pasta.trace import Trace
from tests.collect.importers.import_help import losses, rows

GUID = "_00000450_565d_765d_bc41_19a2073d19ee"
ID = '"id" INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT, "guid" TEXT DEFAULT "g" NOT NULL'
COMMON = {
    "metadata": '"id" INTEGER PRIMARY KEY, "tag" TEXT, "value" TEXT',
    "string": f'{ID}, "string" TEXT NOT NULL UNIQUE ON CONFLICT ABORT',
    "info_node": f'{ID}, "hash" BIGINT, "machine_id" TEXT, "hostname" TEXT',
    "info_process": f'{ID}, "nid" INTEGER, "ppid" INTEGER, "pid" INTEGER, "init" BIGINT, "fini" BIGINT,'
    ' "start" BIGINT, "end" BIGINT, "command" TEXT, "environment" JSONB DEFAULT "{}" NOT NULL',
    "info_thread": f'{ID}, "nid" INTEGER, "pid" INTEGER, "tid" INTEGER, "name" TEXT',
    "info_agent": f'{ID}, "nid" INTEGER, "pid" INTEGER, "type" TEXT, "absolute_index" INTEGER,'
    ' "type_index" INTEGER, "name" TEXT, "product_name" TEXT',
    "info_kernel_symbol": f'{ID}, "kernel_name" TEXT, "display_name" TEXT, "group_segment_size" INTEGER,'
    ' "arch_vgpr_count" INTEGER, "accum_vgpr_count" INTEGER',
    "info_pmc": f'{ID}, "agent_id" INTEGER, "name" TEXT, "symbol" TEXT, "units" TEXT DEFAULT ""',
    "event": f'{ID}, "category_id" INTEGER, "stack_id" INTEGER, "parent_stack_id" INTEGER,'
    ' "correlation_id" INTEGER, "extdata" JSONB DEFAULT "{}" NOT NULL',
    "pmc_event": f'{ID}, "event_id" INTEGER, "pmc_id" INTEGER, "value" REAL DEFAULT 0.0',
}
SHAPE = (
    '"private_segment_size" INTEGER, "group_segment_size" INTEGER, "workgroup_size_x" INTEGER,'
    ' "workgroup_size_y" INTEGER, "workgroup_size_z" INTEGER, "grid_size_x" INTEGER,'
    ' "grid_size_y" INTEGER, "grid_size_z" INTEGER, "event_id" INTEGER'
)
TIMES = '"start" BIGINT NOT NULL, "end" BIGINT NOT NULL'
OWNERS = '"nid" INTEGER, "pid" INTEGER, "tid" INTEGER, "agent_id" INTEGER, "queue_id" INTEGER, "stream_id" INTEGER'
COPY = (
    '"name_id" INTEGER, "dst_agent_id" INTEGER, "dst_address" INTEGER, "src_agent_id" INTEGER,'
    ' "src_address" INTEGER, "size" INTEGER, "event_id" INTEGER'
)
ALLOCATE = '"type" TEXT, "level" TEXT, "address" INTEGER, "size" INTEGER, "event_id" INTEGER'
NO_AGENT = OWNERS.replace('"agent_id" INTEGER, ', "")
SCHEMA_3 = {
    **COMMON,
    "region": f'{ID}, "nid" INTEGER, "pid" INTEGER, "tid" INTEGER, {TIMES}, "name_id" INTEGER, "event_id" INTEGER',
    "kernel_dispatch": f'{ID}, {OWNERS}, "kernel_id" INTEGER, "dispatch_id" INTEGER, {TIMES}, {SHAPE},'
    ' "graph_exec_id" INTEGER NOT NULL DEFAULT 0, "graph_node_id" INTEGER NOT NULL DEFAULT 0',
    "memory_copy": f"{ID}, {NO_AGENT}, {TIMES}, {COPY}",
    "memory_allocate": f"{ID}, {OWNERS}, {TIMES}, {ALLOCATE}",
}
SCHEMA_4 = {
    **COMMON,
    "info_category": f'{ID}, "name" TEXT NOT NULL',
    "track": f"{ID}, {OWNERS}",
    "region": f'{ID}, "track_id" INTEGER, "name_id" INTEGER, {TIMES}, "event_id" INTEGER',
    "kernel_dispatch": f'{ID}, "track_id" INTEGER, "kernel_id" INTEGER, "dispatch_id" INTEGER, {TIMES}, {SHAPE}',
    "memory_copy": f'{ID}, "track_id" INTEGER, {TIMES}, {COPY}',
    "memory_allocate": f'{ID}, "track_id" INTEGER, {TIMES}, {ALLOCATE}',
}
MOMENTS = '"start_id" INTEGER, "end_id" INTEGER'
SCHEMA_4_TIMESTAMPS = {
    name: columns.replace(TIMES, MOMENTS) if name != "info_process" else columns
    for name, columns in SCHEMA_4.items()
} | {"timestamp": f'{ID}, "value" BIGINT, "track_id" INTEGER'}
SCHEMAS = {"3": SCHEMA_3, "4": SCHEMA_4, "4 with timestamps": SCHEMA_4_TIMESTAMPS}
CATEGORIES = ["HIP_RUNTIME_API_EXT", "HIP_COMPILER_API", "MARKER_CORE_RANGE_API", "KERNEL_DISPATCH"]
NAMES = [
    "hipLaunchKernel",
    "__hipPushCallConfiguration",
    "roctxThreadRangeA",
    "MEMORY_COPY_HOST_TO_DEVICE",
]


class Database:
    """A database of one schema; rows are given as they are in schema 3."""

    def __init__(self, file, schema, suffix=GUID):
        self.schema, self.suffix = SCHEMAS[schema], suffix
        self.connection = sqlite3.connect(file)
        for name, columns in self.schema.items():
            self.connection.execute(f'CREATE TABLE "rocpd_{name}{suffix}" ({columns})')
            if suffix:
                self.connection.execute(
                    f'CREATE VIEW "rocpd_{name}" AS SELECT * FROM "rocpd_{name}{suffix}"'
                )
        self.describe()

    def insert(self, table, **values):
        columns = self.schema[table]
        if "track_id" in columns and table not in ("track", "timestamp"):
            owners = ("nid", "pid", "tid", "agent_id", "queue_id", "stream_id")
            owned = {name: values.pop(name) for name in owners if name in values}
            values["track_id"] = self.insert("track", **owned)
        if "start_id" in columns:
            for moment in ("start", "end"):
                values[f"{moment}_id"] = self.insert("timestamp", value=values.pop(moment))
        names = ", ".join(f'"{name}"' for name in values)
        marks = ", ".join("?" * len(values))
        statement = f'INSERT INTO "rocpd_{table}{self.suffix}" ({names}) VALUES ({marks})'
        return self.connection.execute(statement, list(values.values())).lastrowid

    def describe(self):
        self.insert("metadata", tag="schema_version", value="3")
        self.insert("info_node", id=1, hostname="here")
        self.insert(
            "info_process", id=1, nid=1, ppid=5, pid=77, init=1_000, fini=9_000, command="./prog -v"
        )
        self.insert("info_thread", id=3, pid=1, tid=78)
        for number, kind, node, name in (
            (1, "CPU", 0, "epyc"),
            (2, "GPU", 5, "gfx950"),
            (3, "GPU", 4, "gfx942"),
        ):
            self.insert(
                "info_agent",
                id=number,
                type=kind,
                absolute_index=node,
                name=name,
                product_name=f"AMD {name}",
            )
        self.insert("info_kernel_symbol", id=1, kernel_name="_Z3addPfi.kd", display_name="add", group_segment_size=64,
                    arch_vgpr_count=16, accum_vgpr_count=4)  # fmt: skip
        self.insert("info_kernel_symbol", id=2, kernel_name="_Z3mulPfi.kd")
        self.insert("info_pmc", id=1, name="SQ_WAVES", symbol="SQ_WAVES", units="waves")
        for text in (CATEGORIES if "info_category" not in self.schema else []) + NAMES:
            self.insert("string", string=text)
        for text in CATEGORIES if "info_category" in self.schema else []:
            self.insert("info_category", name=text)

    def text(self, string):
        found = self.connection.execute(
            f'SELECT id FROM "rocpd_string{self.suffix}" WHERE string = ?', [string]
        )
        return found.fetchone()[0]

    def event(self, category, stack, extdata="{}"):
        return self.insert(
            "event", category_id=CATEGORIES.index(category) + 1, stack_id=stack, extdata=extdata
        )

    def region(self, start, end, name, event):
        self.insert(
            "region",
            nid=1,
            pid=1,
            tid=3,
            start=start,
            end=end,
            name_id=self.text(name),
            event_id=event,
        )

    def kernel(self, dispatch, start, end, event, kernel=1, **more):
        return self.insert(
            "kernel_dispatch", nid=1, pid=1, tid=3, agent_id=2, queue_id=4, stream_id=6, kernel_id=kernel,
            dispatch_id=dispatch, start=start, end=end, private_segment_size=16, group_segment_size=96,
            workgroup_size_x=64, workgroup_size_y=1, workgroup_size_z=1, grid_size_x=100, grid_size_y=2,
            grid_size_z=1, event_id=event, **more)  # fmt: skip

    def fill(self):
        launch = self.event("HIP_RUNTIME_API_EXT", 11)
        self.region(2_000, 2_500, "hipLaunchKernel", launch)
        self.region(1_990, 1_995, "__hipPushCallConfiguration", self.event("HIP_COMPILER_API", 10))
        self.region(
            1_500,
            4_000,
            "roctxThreadRangeA",
            self.event("MARKER_CORE_RANGE_API", 9, '{"message": "step"}'),
        )
        first = self.event("KERNEL_DISPATCH", 11)
        self.kernel(1, 3_000, 3_400, first)
        self.kernel(2, 3_400, 3_500, self.event("KERNEL_DISPATCH", 11), kernel=2)
        for value in (1.5, 2.5):
            self.insert("pmc_event", event_id=first, pmc_id=1, value=value)
        self.insert("memory_copy", nid=1, pid=1, tid=3, queue_id=4, stream_id=6, start=2_600, end=2_700,
                    name_id=self.text(NAMES[3]), dst_agent_id=2, src_agent_id=1, dst_address=-16, src_address=32,
                    size=512, event_id=self.event("KERNEL_DISPATCH", 12))  # fmt: skip
        for kind, agent, start, size in (("ALLOC", 2, 100, 64), ("FREE", None, 200, 0)):
            self.insert("memory_allocate", nid=1, pid=1, tid=3, agent_id=agent, start=start, end=start + 5,
                        type=kind, level="REAL", address=4096, size=size)  # fmt: skip

    def close(self):
        self.connection.commit()
        self.connection.close()


@pytest.fixture(params=sorted(SCHEMAS))
def imported(tmp_path, request):
    database = Database(tmp_path / "x.db", request.param)
    database.fill()
    database.close()
    report = import_trace([tmp_path / "x.db"], tmp_path / "t")
    return report, Trace.open(tmp_path / "t")


def test_kernels(imported):
    report, trace = imported
    assert report.format == "rocpd (SQLite of rocprofv3)"
    columns = ("pid", "device", "ts", "dur", "launch_id", "correlation", "stream", "name", "grid_x", "grid_y",
               "block_x", "registers", "static_shared", "dynamic_shared", "shared_bytes", "local_bytes")  # fmt: skip
    assert rows(trace, "kernel", *columns) == [
        (77, 1, 3_000, 400, 1, 11, 6, "add", 2, 2, 64, 20, 64, 32, None, 16),
        (77, 1, 3_400, 100, 2, 11, 6, "mul(float*, int)", 2, 2, 64, None, None, None, 96, 16),
    ]


def test_calls_ranges_and_copies(imported):
    report, trace = imported
    assert rows(trace, "call", "pid", "tid", "ts", "dur", "correlation", "name") == [
        (77, 78, 2_000, 500, 11, "hipLaunchKernel")
    ]
    assert rows(trace, "span", "tid", "ts", "dur", "name", "span_id") == [
        (78, 1_500, 2_500, "step", 1)
    ]
    columns = (
        "kind",
        "device",
        "bytes",
        "correlation",
        "stream",
        "source_address",
        "destination_address",
    )
    assert rows(trace, "copy", *columns) == [("HtoD", 1, 512, 12, 6, 32, (1 << 64) - 16)]
    assert losses(report) == {
        "calls that the compiler puts around launches and into start-up: left out": 1
    }


def test_counters_allocations_and_descriptions(imported):
    _, trace = imported
    columns = ("launch_id", "device", "ts", "dur", "name", "value", "unit")
    assert rows(trace, "metric", *columns) == [(1, 1, 3_000, 400, "SQ_WAVES", 4.0, "waves")]
    assert rows(trace, "memory", "ts", "event", "device", "bytes", "object_id") == [
        (105, "allocate", 1, 64, 1),
        (200, "release", 1, 64, 1),
    ]
    assert rows(trace, "device", "device", "name", "compute_capability") == [
        (0, "AMD gfx942", "gfx942"),
        (1, "AMD gfx950", "gfx950"),
    ]
    columns = ("pid", "parent_pid", "host", "command", "started", "ended")
    assert rows(trace, "process", *columns) == [(77, 5, "here", "./prog -v", 1_000, 9_000)]


def test_graphs_of_schema_3(tmp_path):
    database = Database(tmp_path / "x.db", "3")
    database.kernel(1, 10, 20, None, graph_exec_id=3, graph_node_id=4)
    database.close()
    import_trace([tmp_path / "x.db"], tmp_path / "t")
    trace = Trace.open(tmp_path / "t")
    assert rows(trace, "kernel", "graph_id", "graph_node_id", "correlation") == [(3, 4, 0)]


def test_a_table_whose_rows_were_deleted_is_empty(tmp_path):
    database = Database(tmp_path / "x.db", "3")
    database.fill()
    database.connection.execute(f'DELETE FROM "rocpd_pmc_event{GUID}"')
    database.close()
    report = import_trace([tmp_path / "x.db"], tmp_path / "t", strict=True)
    assert (report.rows["kernel"], report.rows.get("metric")) == (2, None)


def test_a_process_that_ends_before_it_starts_has_no_end(tmp_path):
    database = Database(tmp_path / "x.db", "3")
    database.fill()
    database.connection.execute(f'UPDATE "rocpd_info_process{GUID}" SET fini = 999')
    database.close()
    report = import_trace([tmp_path / "x.db"], tmp_path / "t")
    assert rows(Trace.open(tmp_path / "t"), "process", "started", "ended") == [(1_000, None)]
    assert losses(report)["process that ends before it starts: its end is unknown"] == 1


def test_tables_without_a_guid(tmp_path):
    database = Database(tmp_path / "x.db", "3", suffix="")
    database.fill()
    database.close()
    assert import_trace([tmp_path / "x.db"], tmp_path / "t").rows["kernel"] == 2


@given(
    put=st.binary(max_size=60),
    at=st.integers(0, 1 << 17),
    cut=st.none() | st.integers(100, 1 << 17),
)
@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_damage_gives_rows_or_one_error(tmp_path_factory, put, at, cut):
    folder = tmp_path_factory.mktemp("fuzz")
    database = Database(folder / "x.db", "3")
    database.fill()
    database.close()
    text = (folder / "x.db").read_bytes()
    at %= len(text)
    (folder / "x.db").write_bytes((text[:at] + put + text[at + len(put) :])[:cut])
    with contextlib.suppress(InputError):
        import_trace([folder / "x.db"], folder / "t")
