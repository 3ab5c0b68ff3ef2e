"""XLA profiles: planes, lines, events and their statistics, made by a tiny encoder."""

import gzip
import json
from pathlib import Path

import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import pasta
from pasta.collect.importers.xplane.details import copy_kind, details, sizes, whole
from pasta.collect.importing import import_trace
from pasta.errors import InputError
from pasta.trace import Trace
from tests.protobuf_encoder import message

RECORDED = Path(__file__).parent / "recorded"
START = 1_700_000_000_000_000_000


class PlaneMaker:
    """Makes a plane; names of events and statistics are numbered as they are met."""

    def __init__(self, name, **stats):
        self.name = name
        self.events = {}
        self.names = {}
        self.lines = []
        self.own = [self.stat(*pair) for pair in stats.items()]

    def number(self, name):
        return self.names.setdefault(name, len(self.names) + 1)

    def stat(self, name, value):
        kind = {int: 3, float: 2, str: 5, bytes: 6}[type(value)]
        return message((1, self.number(name)), (kind, value))

    def event(self, name, start_ps, duration_ps, **stats):
        number = self.events.setdefault(name, len(self.events) + 1)
        found = [(4, self.stat(*pair)) for pair in stats.items()]
        return message((1, number), (2, start_ps), (3, duration_ps), *found)

    def line(self, number, name, events, start_ns=0):
        found = [(4, event) for event in events]
        self.lines.append(message((1, number), (2, name), (3, start_ns), *found))

    def encoded(self):
        def entries(field, named):
            return [
                (field, message((1, at), (2, message((1, at), (2, name)))))
                for name, at in named.items()
            ]

        return message(
            (2, self.name),
            *((3, line) for line in self.lines),
            *entries(4, self.events),
            *entries(5, self.names),
            *((6, stat) for stat in self.own),
        )


def space(*planes, hosts=("node7",)):
    return message(*((1, plane.encoded()) for plane in planes), *((4, host) for host in hosts))


def host_plane():
    plane = PlaneMaker("/host:CPU")
    events = [
        plane.event("train", 1_000_000, 9_000_000, step_num=3),
        plane.event("$model.py:10 loss", 2_000_000, 3_000_999),
        plane.event("cuLaunchKernel", 3_000_000, 500_000, correlation_id=77),
        plane.event("dot.3", 6_000_000, 1_000_000, hlo_op="dot.3", hlo_module="jit_f"),
    ]
    plane.line(4242, "python", events, start_ns=5000)
    return plane


KERNEL_DETAILS = "regs:32 static_shared:128 dynamic_shared:64 grid:8,2,1 block:256,1,1 occ_pct:50"


def gpu_plane():
    plane = PlaneMaker(
        "/device:GPU:1",
        device_vendor="Nvidia",
        device_type_string="NVIDIA H100",
        compute_cap_major=9,
        compute_cap_minor=0,
        memory_size=80 << 30,
        core_count=132,
        memory_bandwidth=3_350_000_000_000,
    )
    copy_details = "kind_src:pageable kind_dst:device size:4096 dest:0 async:1"
    work = [
        plane.event(
            "_Z4gemmv", 4_000_400, 2_000_900, correlation_id=77, kernel_details=KERNEL_DETAILS
        ),
        plane.event("MemcpyH2D", 9_000_000, 1_000, correlation_id=78, memcpy_details=copy_details),
        plane.event("Memset", 9_100_000, 1_000, Memset_details="kind:device size:64 async:1"),
        plane.event("MemoryAlloc", 9_200_000, 0, memalloc_details="num_bytes:4"),
    ]
    plane.line(13, "Stream #13(Compute,MemcpyH2D)", work, start_ns=5000)
    plane.line(100, "XLA Modules", [plane.event("jit_f", 4_000_000, 6_000_000)], start_ns=5000)
    return plane


def environment():
    return PlaneMaker("Task Environment", profile_start_time=START, profile_stop_time=START + 9)


def write(path, content):
    path.write_bytes(content)
    return path


def imported(tmp_path, *planes, **more):
    file = write(tmp_path / "host.xplane.pb", space(*planes))
    report = import_trace([file], tmp_path / "t", **more)
    losses = {reason: count for _, reason, count, _ in report.losses}
    return Trace.open(tmp_path / "t"), losses


def test_threads_become_spans_and_calls(tmp_path):
    trace, losses = imported(tmp_path, host_plane())
    spans = trace.scan("span").collect()
    names = dict(zip(spans["span_id"], spans["name"], strict=True)) | {0: None}
    assert [
        (row["name"], row["level"], row["tid"], row["ts"], row["dur"], names[row["parent_id"]])
        for row in spans.to_dicts()
    ] == [
        ("train", "step", 4242, 6000, 9000, None),
        ("$model.py:10 loss", "function", 4242, 7000, 3000, "train"),
        ("dot.3", "operator", 4242, 11000, 1000, "train"),
    ]
    [call] = trace.scan("call").collect().to_dicts()
    assert (call["name"], call["correlation"], call["ts"], call["dur"]) == (
        *("cuLaunchKernel", 77, 8000, 500),
    )
    assert trace.scan("thread").collect()["name"].to_list() == ["python"]
    assert trace.scan("process").collect()["host"].to_list() == ["node7"]
    assert losses == {}


def test_streams_become_kernels_and_copies(tmp_path):
    trace, losses = imported(tmp_path, gpu_plane())
    [kernel] = trace.scan("kernel").collect().to_dicts()
    # From 4_000_400 ps to 6_001_300 ps: both ends are rounded down to ns.
    assert (kernel["ts"], kernel["dur"]) == (9000, 2001)
    assert (kernel["name"], kernel["device"], kernel["stream"]) == ("gemm()", 1, 13)
    assert (kernel["correlation"], kernel["launch_id"]) == (77, 1)
    assert [kernel[f"{of}_{axis}"] for of in ("grid", "block") for axis in "xyz"] == [
        *(8, 2, 1, 256, 1, 1),
    ]
    assert (kernel["registers"], kernel["static_shared"], kernel["dynamic_shared"]) == (32, 128, 64)
    copies = trace.scan("copy").collect()
    assert copies.select("kind", "source", "destination", "bytes", "correlation").rows() == [
        ("HtoD", "pageable", "device", 4096, 78),
        ("memset", "", "device", 64, 0),
    ]
    [device] = trace.scan("device").collect().to_dicts()
    assert (device["vendor"], device["name"], device["compute_capability"]) == (
        *("nvidia", "NVIDIA H100", "9.0"),
    )
    assert (device["memory_bytes"], device["peak_bandwidth"]) == (80 << 30, 3.35e12)
    assert {reason[:24]: count for reason, count in losses.items()} == {
        "events of line 'XLA Modu": 1,
        "allocations and releases": 1,
    }


def test_operators_of_a_tpu_are_its_kernels(tmp_path):
    plane = PlaneMaker("/device:TPU:0")
    plane.line(2, "XLA Ops", [plane.event("fusion.1", 10_000, 5_000, hlo_category="fusion")], 1)
    plane.line(3, "Steps", [plane.event("0", 10_000, 90_000)], 1)
    trace, losses = imported(tmp_path, plane)
    [kernel] = trace.scan("kernel").collect().to_dicts()
    assert (kernel["name"], kernel["stream"], kernel["ts"], kernel["dur"]) == ("fusion.1", 2, 11, 5)
    assert trace.scan("device").collect()["vendor"].to_list() == ["google"]
    assert list(losses.values()) == [1]


def test_times_count_from_the_start_of_the_profile(tmp_path):
    absolute = PlaneMaker("/host:python-tracer")
    absolute.line(4242, "python", [absolute.event("$a", 0, 1000)], start_ns=START + 50)
    trace, _ = imported(tmp_path, host_plane(), absolute, environment())
    spans = trace.scan("span").select("name", "ts").collect()
    starts = dict(spans.rows())
    assert starts["train"] == START + 6000
    assert starts["$a"] == START + 50


def test_names_of_statistics_that_are_references(tmp_path):
    plane = PlaneMaker("/device:GPU:0")
    number = plane.number(KERNEL_DETAILS)
    reference = message((1, plane.number("kernel_details")), (7, number))
    event = message((1, 1), (2, 1000), (3, 1000), (4, reference))
    plane.events["k"] = 1
    plane.line(1, "Stream #1", [event], 1)
    trace, _ = imported(tmp_path, plane)
    assert trace.scan("kernel").collect()["grid_x"].to_list() == [8]


def test_events_that_cannot_be_kept_are_counted(tmp_path):
    plane = PlaneMaker("/host:CPU")
    events = [
        plane.event("good", 1_000_000, 1000),
        plane.event("never ends", 1_000_000, -5),
        plane.event("before all time", -(1 << 60), 1000),
        message((1, 1), (5, 12)),
        message((1, 99), (2, 2_000_000), (3, 1000)),
        b"\x0a\xff",
        plane.event("", 3_000_000, 1000) + b"\x0f",
    ]
    plane.line(1, "t", events, 5)
    plane.line(2, "u", [], 5)
    other = PlaneMaker("#Chip0 counters")
    other.line(1, "x", [], 5)
    trace, losses = imported(tmp_path, plane, other)
    spans = trace.scan("span").sort("ts", "name").collect()
    assert spans.select("name", "dur").rows() == [("good", 1), ("never ends", None), ("", 1)]
    assert losses == {
        "events with a negative duration: kept as unfinished": 1,
        "events at no time that can be: left out": 1,
        "events that stand for several, without times: left out": 1,
        "events without a name: kept": 1,
        "messages that cannot be read: left out": 2,
        "plane '#Chip0 counters', which is of no thread and no device: left out": 1,
    }
    (tmp_path / "strict").mkdir()
    with pytest.raises(InputError, match="leave out --strict"):
        imported(tmp_path / "strict", plane, strict=True)


def large(events=30_000):
    plane = PlaneMaker("/host:CPU")
    plane.line(7, "t", [plane.event("e", 1_000_000 * n, 500_000) for n in range(1, events + 1)], 5)
    return plane


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_large_lines_whole_and_cut(tmp_path, pack):
    whole_file = space(environment(), large())
    trace = import_trace([write(tmp_path / "a.pb", pack(whole_file))], tmp_path / "t")
    assert trace.rows["span"] == 30_000
    cut = write(tmp_path / "cut.pb", pack(whole_file)[: len(pack(whole_file)) * 9 // 10])
    report = import_trace([cut], tmp_path / "u")
    # What events are called stands after them, and was cut off.
    assert 25_000 < report.rows["span"] < 30_000
    assert any("ends early" in reason for _, reason, _, _ in report.losses)
    with pytest.raises(InputError, match="ends early"):
        import_trace([cut], tmp_path / "v", strict=True)


def test_what_jax_recorded_is_what_its_own_export_says(tmp_path):
    """Five steps on a CPU; beside it the same events as JAX writes them for Chrome."""
    import_trace([RECORDED / "jax_cpu.xplane.pb.gz"], tmp_path / "t")
    spans = Trace.open(tmp_path / "t").scan("span").collect()
    with gzip.open(RECORDED / "jax_cpu.trace.json.gz") as file:
        told = [event for event in json.load(file)["traceEvents"] if event.get("ph") == "X"]
    first = min(event["ts"] for event in told)
    wanted = sorted((event["name"], round(1000 * (event["ts"] - first))) for event in told)
    start = spans["ts"].min()
    found = sorted((name, ts - start) for name, ts in spans.select("name", "ts").rows())
    assert [name for name, _ in found] == [name for name, _ in wanted]
    assert all(abs(ts - exact) <= 1 for (_, ts), (_, exact) in zip(found, wanted, strict=True))
    assert sum(dur for dur in spans["dur"]) == pytest.approx(
        sum(1000 * event["dur"] for event in told), abs=len(told)
    )
    steps = spans.filter(level="step")
    assert steps["name"].to_list() == ["train"] * 5
    inside = spans.filter(name="mine")
    assert inside["parent_id"].to_list() == steps["span_id"].to_list()
    assert spans.filter(level="operator").height >= 5


def test_the_tools_run_on_it(tmp_path):
    trace, _ = imported(tmp_path, host_plane(), gpu_plane(), environment())
    assert pasta.run("device_time", trace.path).facts is not None
    assert pasta.run("summary", trace.path).facts["rows"] > 0


@pytest.mark.parametrize(
    ("text", "x"),
    [
        ("8,1,1", (8, 1, 1)),
        ("8", (8, None, None)),
        (None, (None, None, None)),
        ("a,-1,99999999999", (None,) * 3),
    ],
)
def test_sizes(text, x):
    assert sizes(text) == x


def test_details_and_kinds():
    assert details("a:1 b:x,y junk") == {"a": "1", "b": "x,y"}
    assert details(7) == {}
    assert [copy_kind(n) for n in ("MemcpyD2H", "Memcpyp2p", "Memset 4", "odd")] == [
        *("DtoH", "PtoP", "memset", "odd"),
    ]
    assert [whole(v) for v in ("12", -1, "x", None, 1.5, float("inf"))] == [
        *(12, None, None, None, 1, None),
    ]


VALID = space(host_plane(), gpu_plane(), environment())


@settings(
    max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    changes=st.lists(
        st.tuples(st.integers(0, len(VALID)), st.integers(0, 30), st.binary(max_size=5)), max_size=4
    )
)
def test_damage_is_counted_or_refused(tmp_path_factory, changes):
    content = VALID
    for at, size, put in changes:
        content = content[:at] + put + content[at + size :]
    folder = tmp_path_factory.mktemp("damaged")
    if not content:
        return
    try:
        import_trace([write(folder / "x.xplane.pb", content)], folder / "t")
    except InputError:
        return
    trace = Trace.open(folder / "t")
    for table in {"span", "kernel", "copy", "call"} & set(trace.tables()):
        assert trace.scan(table).filter(pl.col("dur") < 0).collect().is_empty()
