from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pasta.collect.channel_ring import FULL
from pasta.collect.target.torch import native
from tests.collect.native.torch_operators_help import LOAD, Rows, environment, make_channel

torch = pytest.importorskip("torch", reason="needs PyTorch")
pytestmark = pytest.mark.torch


@pytest.fixture(scope="module")
def operators() -> native.NativeOperators:
    """The library, built once for all tests."""
    loaded, reason = native.load()
    if loaded is None:
        pytest.skip(reason)
    return loaded


@pytest.fixture
def recording(operators: native.NativeOperators) -> Iterator[native.NativeOperators]:
    yield operators
    operators.stop()


class Training:
    """Steps of a small model with lists of tensors, scalars, integers and a conversion in them."""

    def __init__(self) -> None:
        torch.manual_seed(0)
        self.model = torch.nn.Sequential(
            torch.nn.Embedding(50, 16),
            torch.nn.LSTM(16, 16, batch_first=True),
        )
        self.head = torch.nn.Linear(32, 4)
        parameters = [*self.model.parameters(), *self.head.parameters()]
        self.optimizer = torch.optim.AdamW(parameters, lr=1e-3)
        self.tokens = torch.randint(0, 50, (8, 12))

    def step(self) -> None:
        with torch.profiler.record_function("mine"):
            hidden, _ = self.model(self.tokens)
            both = torch.cat([hidden, hidden * 2], dim=-1)
        loss = self.head(both[self.tokens > 25]).to(torch.float64).square().mean()
        loss.backward()
        self.optimizer.step()
        self.optimizer.zero_grad()


def profiled(step: Any, path: Path) -> list[dict[str, Any]]:
    """The events that PyTorch's own profiler exports of one step."""
    with torch.profiler.profile(
        activities=[torch.profiler.ProfilerActivity.CPU], record_shapes=True, profile_memory=True
    ) as profile:
        step()
    profile.export_chrome_trace(str(path))
    events: list[dict[str, Any]] = json.loads(path.read_text())["traceEvents"]
    return events


def recorded(operators: native.NativeOperators, name: str, step: Any) -> Rows:
    """The rows of one step."""
    with make_channel(name) as channel:
        operators.start(str(channel.folder), 3, 0)
        step()
        operators.stop()
        rows = Rows().read(channel)
        assert channel.losses() == []
    return rows


def test_operators_annotations_and_memory_are_those_of_the_profiler(recording, tmp_path):
    training = Training()
    training.step()
    events = profiled(training.step, tmp_path / "trace.json")
    rows = recorded(recording, "equal", training.step)
    for level, category in (("operator", "cpu_op"), ("annotation", "user_annotation")):
        theirs = Counter(event["name"] for event in events if event.get("cat") == category)
        assert rows.names(level) == theirs
        assert theirs
    memory = [event["args"] for event in events if event["name"] == "[memory]"]
    theirs_bytes = Counter(arguments["Bytes"] for arguments in memory)
    sign = {"allocate": 1, "release": -1}
    assert Counter(row["bytes"] * sign[row["event"]] for row in rows.memory) == theirs_bytes
    assert {(row["device"], row["space"]) for row in rows.memory} == {(-1, "tensor")}


TYPES = {
    "float": "float32",
    "double": "float64",
    "long int": "int64",
    "bool": "bool",
    "unsigned char": "uint8",
}


def shape_text(shape: Any) -> str:
    """How a trace writes a shape of the profiler's."""
    if shape and isinstance(shape[0], list):
        return ";".join(map(shape_text, shape))
    return "x".join(map(str, shape))


def test_shapes_types_and_numbers_are_those_of_the_profiler(recording, tmp_path):
    training = Training()
    training.step()
    events = profiled(training.step, tmp_path / "trace.json")
    rows = recorded(recording, "shapes", training.step)

    expected, got = Counter(), Counter()
    with_lists = {
        event["name"]
        for event in events
        if event.get("cat") == "cpu_op" and "TensorList" in event["args"].get("Input type", [])
    }
    for event in events:
        if event.get("cat") == "cpu_op":
            about = event["args"]
            shapes = tuple(shape_text(shape) for shape in about.get("Input Dims", []))
            types = tuple(TYPES.get(kind, "") for kind in about.get("Input type", []))
            if event["name"] in with_lists:
                types = ()
            backward = about.get("Fwd thread id", 0) > 0
            expected[event["name"], "Sequence number" in about, backward, shapes, types] += 1
    for row in rows.spans:
        if row["level"] == "operator":
            types = () if row["name"] in with_lists else tuple(row["input_types"] or ())
            backward = row["forward_tid"] is not None
            shapes = tuple(row["input_shapes"] or ())
            got[row["name"], row["sequence"] is not None, backward, shapes, types] += 1
    # Of a list of tensors and of nothing, as indices are, the profiler tells nothing.
    differ = {name for name, *_ in [*(got - expected), *(expected - got)]}
    assert differ <= {"aten::index", "aten::_index_put_impl_", "aten::index_put_"}
    lists = {
        (*row["input_shapes"], *row["input_types"])
        for row in rows.spans
        if row["name"] == "aten::cat"
    }
    assert ("8x12x16;8x12x16", "", "float32;float32", "") in lists
    index = next(row for row in rows.spans if row["name"] == "aten::index")
    assert index["input_shapes"] == ["8x12x32", "8x12"]
    assert index["input_types"] == ["float32", "bool"]


def test_names_are_kept_as_utf8(recording):
    def work() -> None:
        with torch.profiler.record_function("größer ≥ 😀"):
            pass
        with torch.profiler.record_function("x" * 100_000):
            pass

    with make_channel("names", slot_bytes=1 << 16) as channel:
        recording.start(str(channel.folder), 0, 0)
        work()
        recording.stop()
        rows = Rows().read(channel)
        assert channel.losses() == []
    assert rows.names("annotation") == {"größer ≥ 😀": 1, "x" * (1 << 14): 1}


def test_sequence_numbers_join_forward_and_backward(recording):
    weight = torch.ones(3, 3, requires_grad=True)
    rows = recorded(recording, "sequence", lambda: torch.mm(weight, weight).sum().backward())
    by_name = {row["name"]: row for row in rows.spans}
    assert by_name["aten::mm"]["sequence"] is None  # the last one, of backward
    forward = next(row for row in rows.spans if row["name"] == "aten::mm")
    assert forward["sequence"] == by_name["MmBackward0"]["sequence"] >= 0
    assert forward["forward_tid"] is None
    assert by_name["MmBackward0"]["forward_tid"] > 0
    assert by_name["aten::ones_like"]["sequence"] is None


def test_spans_nest_lie_in_the_recording_and_on_the_clock(recording):
    offset = 10**18
    left = torch.ones(64, 64)
    with make_channel("clock") as channel:
        before = time.monotonic_ns() + offset
        recording.start(str(channel.folder), 7, offset)
        torch.nn.functional.linear(left, left, left[0])
        recording.stop()
        after = time.monotonic_ns() + offset
        rows = Rows().read(channel)
    linear = next(row for row in rows.spans if row["name"] == "aten::linear")
    inside = [row for row in rows.spans if row["ts"] > linear["ts"]]
    assert {row["name"] for row in inside} >= {"aten::addmm", "aten::t"}
    end = linear["ts"] + linear["dur"]
    assert all(row["ts"] + row["dur"] <= end for row in inside)
    assert before <= min(row["ts"] for row in rows.spans)
    assert end <= after
    assert {(row["rank"], row["pid"], row["tid"]) for row in rows.spans + rows.memory} == {
        (7, os.getpid(), threading.get_native_id())
    }


def test_allocated_minus_released_is_what_lives(recording):
    kept: list[Any] = []

    def work() -> None:
        older.pop()
        for size in (10, 20, 30):
            kept.append(torch.zeros(size, dtype=torch.int64))
            torch.zeros(2 * size)
        kept.pop(0)
        releasing = threading.Thread(target=kept.clear)
        releasing.start()
        releasing.join()
        kept.append(torch.empty(5, dtype=torch.uint8))

    older = [torch.ones(1000)]
    rows = recorded(recording, "balance", work)
    live: dict[int, int] = {}
    for row in sorted(rows.memory, key=lambda row: row["ts"]):
        if row["event"] == "allocate":
            assert row["address"] not in live
            live[row["address"]] = row["bytes"]
        else:
            assert live.pop(row["address"]) == row["bytes"]
        assert row["total_allocated"] == sum(live.values())
    assert live == {kept[0].data_ptr(): 5}
    assert len(rows.memory) == 13


def test_every_thread_of_the_program_is_seen(recording):
    parameter = torch.ones(4, requires_grad=True)

    def forward(results: list[Any]) -> None:
        results.append((parameter * 3).sum())

    def work() -> None:
        losses: list[Any] = []
        threads = [threading.Thread(target=forward, args=(losses,)) for _ in range(3)]
        for thread in threads:
            thread.start()
            thread.join()
        tids.update(thread.native_id for thread in threads)
        torch.cos(parameter.detach())

    tids: set[int | None] = set()
    rows = recorded(recording, "threads", work)
    assert {row["tid"] for row in rows.spans if row["name"] == "aten::sum"} == tids
    assert len(tids) == 3
    assert {row["tid"] for row in rows.spans if row["name"] == "aten::cos"} == {
        threading.get_native_id()
    }
    assert len(rows.rings) == 1


def test_threads_at_work_at_once_lose_and_mix_nothing(recording):
    def work(size: int) -> None:
        ones = torch.ones(size)
        for _ in range(2000):
            torch.add(ones, ones)

    def all_work() -> None:
        threads = [threading.Thread(target=work, args=(size,)) for size in range(1, 5)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    with make_channel("mixed", slots=64) as channel:
        recording.start(str(channel.folder), 0, 0)
        reading = Rows()
        worker = threading.Thread(target=all_work)
        worker.start()
        while worker.is_alive():
            reading.read(channel)
        recording.stop()
        reading.read(channel)
        assert channel.losses() == []
    shapes: dict[int, Counter[str]] = {}
    for row in reading.spans:
        if row["name"] == "aten::add":
            shapes.setdefault(row["tid"], Counter())[row["input_shapes"][0]] += 1
    assert sorted(next(iter(shape)) for shape in shapes.values()) == ["1", "2", "3", "4"]
    assert all(shape.total() == 2000 and len(shape) == 1 for shape in shapes.values())


def test_a_pause_records_releases_only_and_costs_operators_nothing(recording):
    with make_channel("pause") as channel:
        recording.start(str(channel.folder), 0, 0)
        first = torch.ones(100)
        recording.pause()
        second = torch.sin(first)
        del first
        events = recording.counters()["events"]
        recording.resume()
        del second
        torch.cos(torch.ones(1))
        assert recording.counters()["events"] > events
        recording.stop()
        rows = Rows().read(channel)
    assert "aten::sin" not in rows.names()
    assert rows.names()["aten::cos"] == 1
    assert rows.names()["aten::ones"] == 2
    assert [(row["event"], row["bytes"]) for row in rows.memory] == [
        ("allocate", 400),
        ("release", 400),
        ("allocate", 4),
        ("allocate", 4),
        *[("release", 4)] * 2,
    ]


def test_rows_come_by_themselves_while_nothing_runs(recording):
    with make_channel("idle") as channel:
        recording.start(str(channel.folder), 0, 0)
        torch.ones(3)
        rows, give_up = Rows(), time.monotonic() + 30
        while not rows.spans and time.monotonic() < give_up:
            time.sleep(0.01)
            rows.read(channel)
        assert rows.names()["aten::ones"] == 1


def test_a_full_ring_is_counted_and_texts_come_once_there_is_room(recording):
    # Each operator but `ones`, which has two more in it, allocates; two results are not released.
    events, memory = 6000 + 4, 2 * (6000 + 2) - 2
    with make_channel("full", slots=2, slot_bytes=1 << 16, block_seconds=0) as channel:
        recording.start(str(channel.folder), 0, 0)
        ones = torch.ones(7)
        for _ in range(6000):
            torch.neg(ones)
        rows = Rows().read(channel)
        last = torch.tanh(ones)
        give_up = time.monotonic() + 30
        while time.monotonic() < give_up:
            recording.flush()
            rows.read(channel)
            counters = recording.counters()
            if counters["rows"] + counters["dropped"] == events + memory:
                break
        recording.stop()
        lost = {loss.reason: loss.rows for loss in channel.losses()}
    assert counters["events"] == events
    assert counters["dropped"] > 0
    assert lost == {FULL: counters["dropped"]}
    assert len(rows.spans) + len(rows.memory) == counters["rows"]
    assert rows.names()["aten::neg"] < 6000
    assert rows.names()["aten::tanh"] == 1
    assert rows.unknown == 0
    assert last.shape == (7,)


def test_recording_anew_begins_with_new_texts(recording):
    for name in ("again-1", "again-2"):
        rows = recorded(recording, name, lambda: torch.ones(2, 3).neg())
        once = ("aten::ones", "aten::empty", "aten::fill_", "aten::neg")
        assert rows.names() == dict.fromkeys(once, 1)
        assert rows.unknown == 0
        negation = next(row for row in rows.spans if row["name"] == "aten::neg")
        assert negation["input_shapes"] == ["2x3"]
    assert recording.counters() == {}


def test_one_recording_at_a_time_and_none_without_a_channel(recording, tmp_path):
    with make_channel("twice") as channel:
        recording.start(str(channel.folder), 0, 0)
        with pytest.raises(OSError, match="already"):
            recording.start(str(channel.folder), 0, 0)
        recording.stop()
        recording.stop()
    with pytest.raises(FileNotFoundError):
        recording.start(str(tmp_path / "absent"), 0, 0)
    torch.ones(1)


def test_a_profiler_of_the_program_runs_as_ever(recording, tmp_path):
    training = Training()
    training.step()
    alone = profiled(training.step, tmp_path / "alone.json")
    beside: list[dict[str, Any]] = []
    rows = recorded(
        recording, "beside", lambda: beside.extend(profiled(training.step, tmp_path / "b.json"))
    )

    def operators_of(events: list[dict[str, Any]]) -> Counter[str]:
        return Counter(event["name"] for event in events if event.get("cat") == "cpu_op")

    assert operators_of(beside) == operators_of(alone)
    assert rows.names() >= operators_of(alone)
    memory = [sum(event["name"] == "[memory]" for event in events) for events in (alone, beside)]
    assert memory[0] == memory[1] > 0


def run(body: str, folder: Path, expected: int = 0) -> None:
    """Run a program that has `operators` and `folder`."""
    done = subprocess.run(
        [sys.executable, "-c", LOAD + body, str(folder)],
        env=environment(),
        check=False,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == expected, done.stderr
    assert done.stderr == ""


@pytest.mark.parametrize(
    ("ending", "code"), [("", 0), ("import ctypes; ctypes.CDLL(None).exit(3)", 3)]
)
@pytest.mark.usefixtures("operators")
def test_a_program_that_ends_without_stop_leaves_its_rows(ending, code):
    with make_channel("exit") as channel:
        run(f"operators.start(folder, 1, 0); torch.ones(3).tan()\n{ending}", channel.folder, code)
        rows = Rows().read(channel)
    assert rows.names()["aten::tan"] == 1
    assert {row["rank"] for row in rows.spans} == {1}


@pytest.mark.usefixtures("operators")
def test_a_killed_program_leaves_what_was_flushed():
    body = """
operators.start(folder, 1, 0)
torch.ones(3).tan()
operators.flush()
os.kill(os.getpid(), 9)
"""
    with make_channel("kill") as channel:
        run(body, channel.folder, -9)
        assert Rows().read(channel).names()["aten::tan"] == 1


@pytest.mark.usefixtures("operators")
def test_a_forked_child_writes_nothing_until_it_starts_its_own():
    body = """
operators.start(folder, 1, 0)
kept = torch.ones(50)
first = os.fork()
if first == 0:
    del kept
    torch.ones(3).tan()
    operators.flush()
    assert operators.counters() == {}
    second = os.fork()
    if second == 0:
        operators.start(folder, 2, 0)
        torch.ones(3).cos()
        operators.stop()
        os._exit(0)
    os._exit(os.waitpid(second, 0)[1])
assert os.waitpid(first, 0)[1] == 0
torch.ones(3).sin()
operators.stop()
"""
    with make_channel("fork") as channel:
        run(body, channel.folder)
        rows = Rows().read(channel)
        assert channel.losses() == []
    assert "aten::tan" not in rows.names()
    assert {row["name"]: row["rank"] for row in rows.spans if row["rank"]}["aten::cos"] == 2
    assert {row["rank"] for row in rows.spans if row["name"] == "aten::sin"} == {1}
    released = [row["bytes"] for row in rows.memory if row["event"] == "release"]
    assert 200 not in released
    assert len({row["pid"] for row in rows.spans}) == 2


@pytest.mark.usefixtures("operators")
def test_a_dead_owner_stops_nothing():
    body = """
import shutil
operators.start(folder, 1, 0)
shutil.rmtree(folder)
ones = torch.ones(3)
for _ in range(20000):
    ones.neg()
assert operators.counters()["dropped"] > 0
operators.stop()
"""
    with make_channel("dead", slots=2, slot_bytes=1 << 16, block_seconds=0.01) as channel:
        run(body, channel.folder)


def test_without_a_compiler_there_is_a_reason_in_one_line(monkeypatch, tmp_path):
    monkeypatch.setenv("PASTA_CACHE", str(tmp_path))
    monkeypatch.setenv("CXX", "no-such-compiler")
    loaded, reason = native.load()
    assert loaded is None
    assert reason == (
        "the native hook of the PyTorch collector was not compiled: "
        "there is no C++ compiler: install g++ or clang++, or set CXX"
    )


def test_what_does_not_compile_is_tried_once(monkeypatch, tmp_path):
    compiler = tmp_path / "compiler"
    compiler.write_text("#!/bin/sh\necho called >> $0.calls\necho 'x.h: error: bad' >&2\nexit 1\n")
    compiler.chmod(0o755)
    monkeypatch.setenv("PASTA_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("CXX", str(compiler))
    for _ in range(2):
        loaded, reason = native.load()
        assert loaded is None
        assert re.fullmatch(
            r"the native hook of the PyTorch collector does not compile: x\.h: error: bad \(remove \S+ to try again\)",
            reason,
        )
    assert compiler.with_suffix(".calls").read_text().split() == ["called"]


def test_processes_that_need_it_at_once_build_it_once(monkeypatch, tmp_path):
    compiler = tmp_path / "compiler"
    compiler.write_text(
        "#!/bin/sh\necho called >> $0.calls\nsleep 0.3\n"
        'while [ "$1" != -o ]; do shift; done\necho made > "$2"\n'
    )
    compiler.chmod(0o755)
    cache = tmp_path / "cache"
    monkeypatch.setenv("PASTA_CACHE", str(cache))
    monkeypatch.setenv("CXX", str(compiler))
    code = "from pasta.collect.target.torch import native; print(native.build()[0])"
    programs = [
        subprocess.Popen(
            [sys.executable, "-c", code], env=environment(), stdout=subprocess.PIPE, text=True
        )
        for _ in range(3)
    ]
    paths = {program.communicate(timeout=120)[0].strip() for program in programs}
    assert len(paths) == 1
    assert Path(paths.pop()).read_text() == "made\n"
    assert compiler.with_suffix(".calls").read_text().split() == ["called"]
    assert sorted(path.suffix for path in cache.iterdir()) == [".lock", ".so"]
