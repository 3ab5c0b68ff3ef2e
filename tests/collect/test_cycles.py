from __future__ import annotations

import itertools
import json

import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pasta.collect.cycles import Cycles
from pasta.collect.importing import import_trace
from pasta.collect.live_tables import live_spans
from pasta.collect.losses import Losses
from pasta.schema import arrow_schema
from pasta.trace import Trace
from pasta.trace_writer import PartWriter

PID, THREAD, BASE = 4242, 4300, 1_000_000_000


def complete(cat, name, ts, dur, *, tid=PID, pid=PID, **args):
    event = {"ph": "X", "cat": cat, "name": name, "pid": pid, "tid": tid, "ts": ts, "dur": dur}
    return event | {"args": args}


def operator(name, ts, dur, external_id, **args):
    return complete("cpu_op", name, ts, dur, **{"External id": external_id}, **args)


def launch(ts, correlation, external_id):
    """A call, its kernel 5 us later, and their operator around the call."""
    ids = {"correlation": correlation, "External id": external_id}
    return [
        operator("aten::mm", ts - 1, 4, external_id),
        complete("cuda_runtime", "cudaLaunchKernel", ts, 2, **ids),
        complete("kernel", "gemm", ts + 5, 3, tid=7, pid=0, device=0, stream=7, **ids),
    ]


def memory(ts, size, address):
    sizes = {"Bytes": size, "Addr": address, "Device Type": 0, "Device Id": -1}
    return {
        "ph": "i",
        "cat": "cpu_instant_event",
        "name": "[memory]",
        "pid": PID,
        "tid": PID,
        "ts": ts,
        "args": sizes,
    }


class Live:
    """The part of one process that cycles fill, until it is finished."""

    def __init__(self, folder, rank=3, pid=PID):
        self.folder = folder
        self.tables: dict[str, list[pa.Table]] = {}
        self.cycles = Cycles(rank, pid, self.append)
        self._part = PartWriter(folder / "part", file_seconds=1.0)
        self._added = 0

    def append(self, table, rows):
        self.tables.setdefault(table, []).append(rows)
        self._part.append(table, rows)

    def add(self, events, *, shift=0, text=None, **metadata):
        file = self.folder / f"cycle-{self._added}.json"
        self._added += 1
        content = {"baseTimeNanoseconds": BASE, **metadata, "traceEvents": events}
        file.write_text(json.dumps(content) if text is None else text)
        self.cycles.add(file, shift)
        return file

    def add_by_hand(self, level, name, ts, dur, span_id):
        row = {"rank": 3, "pid": PID, "tid": PID, "ts": ts, "dur": dur, "span_id": span_id}
        row |= {"parent_id": 0, "level": level, "name": name}
        self.append("span", pa.Table.from_pylist([row], schema=arrow_schema("span")))

    def rows(self, table):
        """What was appended, in order."""
        return pl.from_arrow(pa.concat_tables(self.tables[table]))

    def finished(self):
        """The tables once the trace is finished."""
        self._part.finish({"span": live_spans(Losses("test"))})
        return {
            folder.name: pl.read_parquet(folder / "*.parquet", hive_partitioning=False)
            for folder in (self.folder / "part").iterdir()
        }

    @property
    def losses(self):
        if "loss" not in self.tables:
            return {}
        return dict(self.rows("loss").select("reason", "count").rows())


@pytest.fixture
def live(tmp_path):
    return Live(tmp_path)


def with_parents(spans):
    """Name and time of each span with the name of its parent."""
    parents = spans.select(pl.col("span_id").alias("parent_id"), pl.col("name").alias("parent"))
    joined = spans.join(parents, on="parent_id", how="left")
    return sorted(joined.select("ts", "dur", "tid", "name", "external_id", "parent").rows())


@st.composite
def runs(draw):
    """Blocks of events that end before the next begins, and after how many a cycle ends."""
    blocks = []
    for number in range(draw(st.integers(1, 8))):
        start = 1000 * number + 100
        block = launch(start + 10, number + 1, 2 * number + 1)
        depth = draw(st.integers(0, 3))
        block += [
            operator(f"outer {depth}", start - d, 100 + 2 * d, 2 * number + 2) for d in range(depth)
        ]
        if draw(st.booleans()):
            block += [memory(start + 1, 64, 4096 * (number + 1))]
            block += [memory(start + 20, -64, 4096 * (number + 1))]
        blocks.append(block)
    cuts = draw(st.sets(st.integers(1, len(blocks))))
    bounds = [0, *sorted(cuts | {len(blocks)})]
    return [list(itertools.chain(*blocks[a:b])) for a, b in itertools.pairwise(bounds)]


@settings(max_examples=25, deadline=None)
@given(parts=runs())
def test_cycles_give_what_one_file_of_all_events_gives(tmp_path_factory, parts):
    folder = tmp_path_factory.mktemp("cycles")
    live = Live(folder)
    for events in parts:
        live.add(events)
    whole = folder / "whole.json"
    events = list(itertools.chain(*parts))
    whole.write_text(json.dumps({"baseTimeNanoseconds": BASE, "traceEvents": events}))
    import_trace([whole], folder / "trace")
    trace = Trace.open(folder / "trace")
    tables = live.finished()
    assert with_parents(tables["span"]) == with_parents(trace.scan("span").collect())
    assert tables["span"]["span_id"].is_unique().all()
    for table in ("call", "kernel", "memory"):
        imported = trace.scan(table).drop("rank").collect() if table in trace.tables() else None
        if imported is None:
            assert table not in tables
        else:
            assert tables[table].drop("rank").rows() == imported.rows()
    for frame in tables.values():
        assert set(frame["rank"]) == {3}
        assert set(frame["pid"]) == {PID}


def test_times_are_those_of_the_file_and_the_shift(live):
    live.add([*launch(100, 1, 2), memory(50.125, 8, 64)], shift=-77)
    at = BASE - 77
    assert live.rows("call")["ts"].to_list() == [at + 100_000]
    assert live.rows("kernel")["ts"].to_list() == [at + 105_000]
    assert live.rows("memory")["ts"].to_list() == [at + 50_125]
    live.add([complete("cpu_op", "lasts less than nothing", 10, -5)], shift=1000)
    assert live.rows("loss")["first_ts"].to_list() == [BASE + 1000 + 10_000]


def test_ids_that_begin_anew_go_on(live):
    for _ in range(3):
        live.add(launch(100, 1, 5) + launch(200, 2, 6))
    calls, kernels = live.rows("call"), live.rows("kernel")
    assert calls["correlation"].to_list() == [1, 2, 3, 4, 5, 6]
    assert kernels["correlation"].to_list() == [1, 2, 3, 4, 5, 6]
    assert kernels["launch_id"].to_list() == [1, 2, 3, 4, 5, 6]
    ids = live.rows("span")["external_id"]
    assert ids.to_list() == [5, 6, 11, 12, 17, 18]
    assert calls["external_id"].to_list() == ids.to_list() == kernels["external_id"].to_list()


def test_ids_that_go_on_by_themselves_stay_so_that_cycles_can_refer_to_each_other(live):
    live.add(launch(100, 7, 5))
    event = {"cuda_sync_kind": "Stream Wait Event", "wait_on_cuda_event_record_corr_id": 7}
    live.add(
        [
            complete("cuda_sync", "wait", 300, 1, pid=0, device=0, correlation=9, **event),
            *launch(400, 10, 6),
        ]
    )
    assert live.rows("call")["correlation"].to_list() == [7, 10]
    sync = live.rows("sync")
    assert sync.select("correlation", "waited_correlation").rows() == [(9, 7)]


def test_unknown_ids_stay_unknown(live):
    for _ in range(2):
        live.add([*launch(100, 3, 4), complete("cuda_runtime", "cudaMalloc", 300, 1)])
    calls = live.rows("call").sort("name", maintain_order=True)
    assert calls["correlation"].to_list() == [3, 6, 0, 0]


def test_operators_lie_in_the_module_that_the_hooks_tell_of(live):
    at = BASE + 1_000_000
    live.add([operator("before", 900, 50, 1), operator("inside", 1001, 98.5, 2)])
    live.add([operator("next cycle", 1100, 100.9, 3), operator("after", 1202, 5, 4)])
    live.add_by_hand("run", "run", BASE, 2_000_000, 1)
    # The hook's look at the clock comes up to 1 us before the operator's end.
    live.add_by_hand("module", "m", at, 200_000, 2)
    spans = live.finished()["span"]
    assert {name: parent for _, _, _, name, _, parent in with_parents(spans)} == {
        "run": None,
        "before": "run",
        "m": "run",
        "inside": "m",
        "next cycle": "m",
        "after": "run",
    }
    assert dict(spans.filter(pl.col("span_id") < 3).select("name", "span_id").rows()) == {
        "run": 1,
        "m": 2,
    }
    assert spans["span_id"].is_unique().all()


def test_collectives_are_numbered_on(live):
    def reduce(ts, group):
        described = {"Collective name": "allreduce", "Process Group Name": group}
        return complete("kernel", "ncclKernel", ts, 5, pid=0, device=0, stream=9, **described)

    live.add([reduce(20, "a"), reduce(10, "a"), reduce(30, "b")])
    live.add([reduce(50, "a"), reduce(40, "b")])
    found = live.rows("collective").sort("ts")
    assert found.select("communicator", "sequence").rows() == [
        ("a", 0),
        ("a", 1),
        ("b", 0),
        ("b", 1),
        ("a", 2),
    ]
    assert set(found["sequence_source"]) == {"counted"}


def test_the_same_stack_has_its_frames_once(live):
    stack = {"Call stack": "inner.py(3): f;outer.py(9): <module>"}
    for number in range(5):
        live.add([complete("cpu_op", "aten::add", 10 + number, 1, **stack)])
    frames = live.rows("frame").sort("depth")
    assert frames["function"].to_list() == ["<module>", "f"]
    assert set(live.rows("span")["stack_id"]) == set(frames["stack_id"])


def test_threads_are_called_as_the_system_does_and_the_main_one_is_left_to_the_hooks(live):
    names = [
        {"ph": "M", "name": "thread_name", "pid": PID, "tid": tid, "ts": 0, "args": {"name": name}}
        for tid, name in (
            (PID, f"thread {PID} (python)"),
            (THREAD, f"thread {THREAD} (pt_autograd_0)"),
        )
    ]
    work = [operator("a", 1, 1, 1), complete("cpu_op", "b", 2, 1, tid=THREAD)]
    live.add(names + work)
    assert sorted(live.rows("thread").select("tid", "name").rows()) == [
        (PID, None),
        (THREAD, "pt_autograd_0"),
    ]


def test_devices_are_described_and_no_process_is(live):
    described = [{"id": 0, "name": "NVIDIA H100", "totalGlobalMem": 85, "numSms": 132}]
    live.add(launch(100, 1, 1), deviceProperties=described)
    assert live.rows("device").select("device", "vendor", "name", "multiprocessors").rows() == [
        (0, "nvidia", "NVIDIA H100", 132)
    ]
    assert "process" not in live.tables


def test_a_damaged_file_keeps_what_is_sound_and_is_counted(live):
    whole = json.dumps(
        {"baseTimeNanoseconds": BASE, "traceEvents": launch(1, 1, 3) + launch(9, 2, 4)}
    )
    live.add([], text=whole[:-40])
    assert live.rows("call").height == 2
    assert live.rows("kernel").height == 1
    assert [count for reason, count in live.losses.items() if "5 events kept" in reason] == [1]


@pytest.mark.parametrize("text", ["", "not JSON", "\0\0\0\0", "[[[["])
def test_a_file_that_cannot_be_read_is_counted_and_the_next_one_is_read(live, text):
    live.add([], text=text)
    assert live.losses
    live.add(launch(100, 1, 1))
    assert live.rows("kernel").height == 1


def test_a_file_that_is_gone_is_counted(live, tmp_path):
    live.cycles.add(tmp_path / "nowhere.json", 0)
    assert sum(live.losses.values()) == 1


def test_what_the_profiler_says_of_each_cycle_is_no_loss(live):
    live.add(
        [
            operator("a", 10, 1, 1),
            complete("Trace", "PyTorch Profiler (0)", 0, 100),
            {"ph": "i", "name": "Iteration Start", "pid": PID, "tid": PID, "ts": 0, "s": "g"},
            complete("overhead", "Buffer Flush", 50, 1),
        ]
    )
    assert list(live.losses) == ["event of category 'overhead' (the profiler's own work): left out"]
