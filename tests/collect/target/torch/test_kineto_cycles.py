from __future__ import annotations

import json
import os
import threading
from collections import Counter
from pathlib import Path

import polars as pl
import pytest

from tests.collect.recorded_programs import ROOT, losses, python, table
from tests.collect.target.torch.inside import record

torch = pytest.importorskip("torch", reason="PyTorch is not installed: pip install torch")

from torch.profiler import profile, record_function  # noqa: E402

from pasta.collect.recording import record_command  # noqa: E402
from pasta.collect.selection import Selection  # noqa: E402
from pasta.collect.target.torch import kineto  # noqa: E402
from pasta.trace import Trace  # noqa: E402

pytestmark = pytest.mark.torch


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU())
        self.head = torch.nn.Linear(16, 4)

    def forward(self, x):
        return self.head(self.layers(x))


def trainer():
    torch.manual_seed(0)
    model = Model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    ones = torch.ones(5, 8)

    def step():
        optimizer.zero_grad()
        model(ones).square().mean().backward()
        optimizer.step()

    with profile(profile_memory=True):  # so that the sizes of all that is released are known
        step()
    return step


def cycles() -> kineto.KinetoCycles:
    assert kineto._current is not None
    return kineto._current


def turn():
    """Turn to the next cycle, however long this one has lasted."""
    before = cycles()._cycles
    cycles()._seconds = 0
    cycles().turn_if_due()
    return cycles()._cycles - before


@pytest.fixture(autouse=True)
def _long_cycles(monkeypatch):
    """Turn by hand only."""
    monkeypatch.setattr(kineto, "SHORTEST_SECONDS", 100.0)
    monkeypatch.setitem(kineto.CYCLE_SECONDS, "timeline", 100.0)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "trace"


def operators(trace, name=None):
    calls = table(trace, "span").filter(pl.col("level") == "operator")
    found = Counter(calls["name"].to_list())
    return found if name is None else found[name]


def by_profiler(step, steps, tmp_path):
    """Operators by name and allocations as bytes, as PyTorch's own exported trace has them."""
    with profile(record_shapes=True, profile_memory=True) as profiler:
        for _ in range(steps):
            step()
    file = tmp_path / "own.json"
    profiler.export_chrome_trace(str(file))
    events = json.loads(file.read_bytes())["traceEvents"]
    calls = Counter(event["name"] for event in events if event.get("cat") == "cpu_op")
    return calls, [event["args"]["Bytes"] for event in events if event["name"] == "[memory]"]


def test_cycles_see_what_one_profile_of_the_same_steps_sees(path, tmp_path):
    step = trainer()
    with record("run", path, level="timeline") as recording:
        turned = 0
        for _ in range(6):
            step()
            turned += turn()
    assert turned == 6
    trace = recording.trace()
    calls, sizes = by_profiler(step, 6, tmp_path)
    assert operators(trace) == calls
    memory = table(trace, "memory")
    signed = memory.select(
        pl.when(pl.col("event") == "allocate").then("bytes").otherwise(-pl.col("bytes"))
    ).to_series()
    assert sorted(signed) == sorted(sizes)
    assert signed.sum() == sum(sizes)
    spans = table(trace, "span")
    assert spans["span_id"].is_unique().all()
    ids = spans.filter(pl.col("external_id") > 0)["external_id"]
    assert ids.is_unique().all()
    assert ids.len() == calls.total()


def test_operators_lie_in_the_module_and_phase_that_ran_them(path):
    step = trainer()
    with record("run", path, level="timeline") as recording:
        for _ in range(5):
            step()
            turn()
    spans = table(recording.trace(), "span")
    parents = spans.select(parent_id="span_id", around="name", level_around="level")
    inside = spans.join(parents, on="parent_id", how="left")
    linear = inside.filter(pl.col("name") == "aten::linear")
    assert Counter(linear["around"]) == {"layers.0 (Linear)": 5, "head (Linear)": 5}
    square = inside.filter(pl.col("name") == "aten::square")
    assert set(square["level_around"]) == {"step"}
    update = inside.filter(pl.col("name").str.contains("aten::_foreach_add_|aten::add_"))
    assert "optimizer" in set(update["around"])


def test_a_named_range_is_one_span_however_many_cycles_it_lasts(path):
    step = trainer()
    with record("run", path, level="timeline") as recording, record_function("all of it"):
        for number in range(4):
            with record_function(f"part {number}"):
                step()
                assert turn() == 1
                step()
    spans = table(recording.trace(), "span")
    ranges = spans.filter(pl.col("level") == "annotation").sort("ts")
    assert ranges["name"].to_list() == ["all of it", *(f"part {number}" for number in range(4))]
    ends = ranges["ts"] + ranges["dur"]
    assert ends[0] >= ends[4] > ranges["ts"][4] > ends[3]
    assert ranges["parent_id"].to_list()[1:] == [ranges["span_id"][0]] * 4
    assert operators(recording.trace(), "aten::addmm") == 2 * 2 * 4


def test_no_cycle_ends_inside_an_operator(path):
    turned = []

    class Function(torch.autograd.Function):
        @staticmethod
        def forward(_, x):
            turned.append(turn())
            return x * 2

        @staticmethod
        def backward(_, gradient):
            turned.append(turn())
            return gradient

    with record("run", path, level="timeline"):
        Function.apply(torch.ones(2, requires_grad=True)).sum().backward()
        assert turned == [0, 0]
        assert turn() == 1


def test_a_cycle_that_is_long_overdue_ends_anywhere_and_the_next_begins_outside(path, monkeypatch):
    monkeypatch.setattr(kineto, "_OVERDUE", 0)

    class Function(torch.autograd.Function):
        @staticmethod
        def forward(_, x):
            assert turn() == 1
            return x.exp()

        @staticmethod
        def backward(_, gradient):
            return gradient

    with record("run", path, level="timeline") as recording:
        torch.ones(3).log()
        Function.apply(torch.ones(2))
        assert turn() == 0
        torch.ones(3).log()
    assert operators(recording.trace(), "aten::log") == 2
    assert operators(recording.trace(), "aten::exp") == 0
    assert losses(recording.trace())[kineto._PAUSED] == 1


def test_the_program_can_profile_itself(path):
    step = trainer()
    with record("run", path, level="timeline") as recording:
        step()
        with record_function("begun before"), profile() as profiler:
            assert turn() == 0
            with record_function("range of the program"):
                step()
        step()
    averages = {event.key: event.count for event in profiler.key_averages()}
    assert averages["aten::addmm"] == 2
    assert averages["range of the program"] == 1
    assert "begun before" not in averages
    trace = recording.trace()
    assert operators(trace, "aten::addmm") == 4
    assert losses(trace)[kineto._YIELDED] == 1
    named = table(trace, "span").filter(pl.col("level") == "annotation")
    assert named["name"].to_list() == ["begun before"]


def test_no_cycle_begins_inside_a_range_that_the_programs_profiler_knows(path):
    step = trainer()
    with record("run", path, level="timeline") as recording:
        profiler = profile()
        profiler.start()
        with record_function("outlives its profiler"):
            profiler.stop()
            assert turn() == 0
            step()
        assert turn() == 0  # there was no cycle that could have ended
        step()
    assert operators(recording.trace(), "aten::addmm") == 2


def test_a_profiler_of_the_program_on_another_thread_works(path):
    found = {}

    def work():
        with profile() as profiler:
            torch.ones(3).log()
        found.update({event.key: event.count for event in profiler.key_averages()})

    with record("run", path, level="timeline") as recording:
        torch.ones(3).exp()
        thread = threading.Thread(target=work)
        thread.start()
        while thread.is_alive():
            thread.join(0.01)
        assert turn() == 0
        torch.ones(3).exp()
    assert found["aten::log"] == 1
    assert operators(recording.trace(), "aten::exp") == 2


def test_a_profiler_of_the_program_that_fails_is_no_lasting_pause(path):
    with record("run", path, level="timeline") as recording:
        with pytest.raises(TypeError):
            torch.autograd.profiler._enable_profiler("nonsense")
        turn()
        torch.ones(3).log()
    assert operators(recording.trace(), "aten::log") == 1


def test_pytorch_is_as_before_afterwards(path):
    module = torch.autograd.profiler
    names = ("_prepare_profiler", "_enable_profiler", "_disable_profiler")
    before = [getattr(module, name) for name in names]
    ranges = dict(vars(record_function))
    with record("run", path, level="timeline"):
        trainer()()
    assert [getattr(module, name) for name in names] == before
    assert dict(vars(record_function)) == ranges
    with profile() as profiler:
        torch.ones(3).log()
    assert "aten::log" in {event.key for event in profiler.key_averages()}


def test_a_range_that_was_taken_ends_well_after_the_recording(path):
    named = record_function("outlives the recording")
    with record("run", path, level="timeline"):
        named.__enter__()
    named.__exit__(None, None, None)
    with (
        record("again", path.with_name("again"), level="timeline") as recording,
        record_function("in the second"),
    ):
        pass
    named = table(recording.trace(), "span").filter(pl.col("level") == "annotation")
    assert named["name"].to_list() == ["in the second"]


def test_a_failure_ends_the_recording_of_operators_and_not_the_program(path, monkeypatch):
    step = trainer()
    with record("run", path, level="timeline") as recording:
        step()

        def fail(*_):
            raise OSError("no room")

        with monkeypatch.context() as patch:
            patch.setattr(os, "rename", fail)
            turn()
        step()
        assert turn() == 0
    assert any("no room" in reason for reason in losses(recording.trace()))
    with profile() as profiler:
        torch.ones(3).log()
    assert "aten::log" in {event.key for event in profiler.key_averages()}


def test_cycles_that_nobody_reads_are_dropped_and_counted(path, monkeypatch):
    monkeypatch.setattr(kineto, "UNREAD_BYTES", 10)
    step = trainer()
    with record("run", path, level="timeline") as recording:
        step()
        assert turn() == 1  # nobody reads before the end
        step()
        assert turn() == 0
        assert len(list(Path(recording.session.folder).glob("*cycle-*"))) == 1
    assert operators(recording.trace(), "aten::addmm") == 2
    assert losses(recording.trace())[kineto._UNREAD] == 2  # the last cycle ends with the session


@pytest.mark.parametrize("lively", [True, False])
def test_a_cycle_is_as_long_as_its_file_may_be_large(path, monkeypatch, lively):
    monkeypatch.setattr(kineto, "SHORTEST_SECONDS", 0.001)
    with record("run", path, level="timeline"):
        length = cycles()._choose_length
        length(1.0, 1000)  # nothing happened in this one
        assert cycles()._seconds == 0.5
        if lively:
            length(1.0, 4 * kineto.CYCLE_BYTES)
            assert cycles()._seconds == 0.25
            length(0.25, kineto.CYCLE_BYTES // 8)
            assert cycles()._seconds == 0.5  # twice as long at most
            length(0.001, 1000 * kineto.CYCLE_BYTES)
            assert cycles()._seconds == 0.001


PROGRAM = """
import os, sys, time, torch
torch.set_num_threads(1)
x = torch.ones(4, 4)
def work(seconds):
    until = time.monotonic() + seconds
    n = 0
    while time.monotonic() < until:
        (x @ x).relu()
        n += 1
    return n
"""


@pytest.fixture
def run(path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setenv("OMP_NUM_THREADS", "1")

    def record_program(source, **selection):
        chosen = Selection(cycle_seconds=0.1, **selection)
        done = record_command(python(PROGRAM + source), path, {"torch": "timeline"}, chosen)
        return done, Trace.open(path)

    return record_program


def test_cycles_turn_by_themselves_and_nothing_is_lost_between(run, tmp_path):
    done, trace = run(
        f"cycles = sys.modules['pasta_target.torch.kineto']._current\n"
        f"called = 0\n"
        f"while cycles._cycles < 4:\n"
        f"    called += work(0.05)\n"
        f"open({str(tmp_path / 'called')!r}, 'w').write(str(called))\n"
    )
    assert str(done.end) == "exit 0"
    called = int((tmp_path / "called").read_text())
    assert operators(trace, "aten::matmul") == called
    assert operators(trace, "aten::relu") == called
    assert losses(trace) == {}


def test_a_forked_child_records_no_operators_and_its_parent_goes_on(run, capfd):
    done, trace = run(
        "x.log()\n"
        "pid = os.fork()\n"
        "if pid == 0:\n"
        "    x.exp()\n"
        "    print('the child is done', flush=True)\n"
        "    os._exit(7)\n"
        "assert os.waitpid(pid, 0)[1] == 7 << 8\n"
        "x.log()\n"
    )
    assert str(done.end) == "exit 0"
    assert operators(trace, "aten::log") == 2
    assert operators(trace, "aten::exp") == 0
    assert capfd.readouterr().out == "the child is done\n"


def test_a_kill_loses_the_open_cycle_alone(run):
    done, trace = run(
        "import signal\n"
        "x.log()\n"
        "cycles = sys.modules['pasta_target.torch.kineto']._current\n"
        "while cycles._cycles == 0:\n"
        "    time.sleep(0.01)\n"
        "time.sleep(0.3)\n"
        "x.exp()\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    assert done.end.code == -9
    assert operators(trace, "aten::log") == 1
    assert not list(trace.path.rglob("*cycle*"))
