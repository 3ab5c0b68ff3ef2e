"""One program run several times: which collectors share a run, and what becomes of the runs."""

from __future__ import annotations

import random
import sys

import pytest
from click.testing import CliRunner

from pasta import cli
from pasta.collect import recording
from pasta.collect.collectors import COLLECTORS, parse_with
from pasta.collect.launch import End
from pasta.collect.recording import Recorded
from pasta.collect.runs import FOLDER, Run, record_runs, runs_of
from pasta.errors import CollectError, TraceError
from pasta.trace import Trace
from tests.trace_join.two_runs import Program, memory_run, program, timeline_run


@pytest.fixture(autouse=True)
def _no_launcher(monkeypatch):
    for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def made() -> Program:
    return program(random.Random(20), launches=10)


@pytest.mark.parametrize(
    "text", ["torch:operators", "cuda,torch:touch", "cuda.memory,torch", "nsys,torch", "nvml,cuda"]
)
def test_collectors_that_share_a_process_have_one_run(text):
    chosen = parse_with([text])
    [run] = runs_of(chosen)
    assert run.chosen == chosen


@pytest.mark.parametrize(
    ("text", "timeline", "memory"),
    [
        ("cuda,cuda.memory", "cuda", "cuda.memory"),
        ("cuda.memory:counts,cuda:calls", "cuda:calls", "cuda.memory:counts"),
        ("torch:timeline,cuda.memory", "torch:timeline", "cuda.memory"),
        ("cuda,cuda.memory,torch", "cuda,torch", "cuda.memory,torch"),
        ("nsys,torch:touch,cuda.memory", "nsys,torch:touch", "torch:touch,cuda.memory"),
        ("nvml,cuda,cuda.memory", "nvml,cuda", "cuda.memory"),
    ],
)
def test_a_timeline_and_memory_are_two_runs(text, timeline, memory):
    runs = runs_of(parse_with([text]))
    assert [run.name for run in runs] == ["timeline", "memory"]
    assert [run.chosen for run in runs] == [parse_with([timeline]), parse_with([memory])]


@pytest.mark.parametrize("text", ["cuda,cuda.counters", "cuda.memory,cuda.counters"])
def test_counters_are_not_joined_with_others(text):
    with pytest.raises(CollectError, match=r"cuda\.counters: takes a run of its own") as caught:
        runs_of(parse_with([text]))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("text", ["cuda,torch:timeline", "cuda:calls,nsys", "nsys,torch:timeline"])
def test_two_that_need_one_interface_are_refused(text):
    with pytest.raises(CollectError, match="both need CUPTI, which serves one of them at a time"):
        parse_with([text])


def test_what_sees_kernels_takes_an_interface_for_itself():
    for collector in COLLECTORS.values():
        for level in collector.levels.values():
            assert bool(level.interface) == ("kernel" in level.tables | level.maybe)


class Recorder:
    """Records made-up runs, the first of which may end as said."""

    def __init__(self, made: Program, *codes: int) -> None:
        self.made = made
        self.codes = list(codes)
        self.said: list[str] = []

    def record(self, chosen, path) -> Recorded:
        make = timeline_run if "cuda" in chosen else memory_run
        return Recorded(make(path, self.made).path, End(self.codes.pop(0)))

    def recorded(self, out) -> Recorded:
        runs = [Run("timeline", {"cuda": "kernels"}), Run("memory", {"cuda.memory": "touch"})]
        return record_runs(runs, out, self.record, self.said.append)


def test_runs_that_end_well_are_joined_and_kept(tmp_path, made):
    recorder = Recorder(made, 0, 0)
    done = recorder.recorded(tmp_path / "t")
    assert (done.path, done.exit_code) == (tmp_path / "t", 0)
    trace = Trace.open(tmp_path / "t")
    assert trace.rows("kernel") == done.rows["kernel"] == len(made.launches)
    assert trace.rows("touch") == 2 * len(made.launches)
    assert trace.info["ranks"] == [0]
    folders = sorted(path.name for path in (tmp_path / "t" / FOLDER).iterdir())
    assert folders == ["memory", "timeline"]
    all_of = "(100.0%) and 11 of the"
    assert recorder.said == [
        "run 1 of 2: timeline run (cuda:kernels)",
        "run 2 of 2: memory run (cuda.memory:touch)",
        f"rank 0: 11 launches are matched, of 11 of the timeline run {all_of} memory run (100.0%)",
    ]


def test_the_first_run_that_fails_is_the_last(tmp_path, made):
    recorder = Recorder(made, 3)
    done = recorder.recorded(tmp_path / "t")
    assert (done.path, done.exit_code) == (tmp_path / "t" / FOLDER / "timeline", 3)
    message = "the timeline run failed, the memory run was not started, nothing was joined"
    assert recorder.said[1:] == [f"{message}; it is in {done.path}"]
    assert not (tmp_path / "t" / "trace.json").exists()


def test_a_memory_run_that_fails_is_not_joined(tmp_path, made):
    recorder = Recorder(made, 0, -9)
    done = recorder.recorded(tmp_path / "t")
    assert (done.path, done.exit_code) == (tmp_path / "t" / FOLDER / "memory", 137)
    assert recorder.said[2:] == [f"the memory run failed, nothing was joined; it is in {done.path}"]


def test_under_a_launcher_people_are_told_how_to_join(tmp_path, made, monkeypatch):
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "4")
    recorder = Recorder(made, 0, 0)
    done = recorder.recorded(tmp_path / "t")
    folder = tmp_path / "t" / FOLDER
    assert done.path == folder / "memory"
    assert recorder.said[-1] == (
        f"when all 4 ranks have ended, join them: pasta trace join {folder / 'timeline'}"
        f" {folder / 'memory'} -o DIR"
    )


def test_a_folder_that_holds_something_is_refused_before_anything_runs(tmp_path, made):
    (tmp_path / "t").mkdir()
    (tmp_path / "t" / "mine").touch()
    with pytest.raises(TraceError, match="not empty"):
        Recorder(made).recorded(tmp_path / "t")


def fake(made: Program, code: int):
    """In place of the function that records a command."""

    def record_command(_command, out, chosen, _selection, _watchers=()):
        make = memory_run if "cuda.memory" in chosen else timeline_run
        trace = make(out, made)
        rows = {table: trace.rows(table) for table in trace.tables()}
        return Recorded(out.absolute(), End(code if "cuda" in chosen else 0), rows)

    return record_command


@pytest.mark.parametrize("code", [0, 5])
def test_collect_runs_the_command_twice(tmp_path, made, monkeypatch, code):
    monkeypatch.setattr(recording, "record_command", fake(made, code))
    arguments = ["collect", "--with", "cuda,cuda.memory", "-o", str(tmp_path / "t"), "--", "true"]
    done = CliRunner().invoke(cli.cli, arguments)
    assert done.exit_code == code
    assert done.stdout == ""
    lines = done.stderr.splitlines()
    assert lines[0] == "pasta: run 1 of 2: timeline run (cuda:kernels)"
    assert lines[1].startswith(f"pasta: the program ended with exit {code}; trace in {tmp_path}")
    if code:
        assert lines[2].startswith("pasta: the timeline run failed, the memory run was not started")
        assert len(lines) == 3
    else:
        assert lines[2] == "pasta: run 2 of 2: memory run (cuda.memory:touch)"
        assert lines[-1].startswith(f"pasta: the runs are joined in {tmp_path / 't'} (process 1, ")
        assert len(lines) == 6
    assert (tmp_path / "t" / "trace.json").exists() == (code == 0)


@pytest.mark.parametrize("code", [0, 5])
def test_a_tool_runs_on_the_joined_trace_or_on_what_there_is(tmp_path, made, monkeypatch, code):
    monkeypatch.setattr(recording, "record_command", fake(made, code))
    out = ["--out", str(tmp_path / "o"), "--format", "json"]
    arguments = ["run", "kernel_frequency", "--with", "cuda,cuda.memory", *out, "--", "true"]
    monkeypatch.setattr(sys, "argv", ["pasta", *arguments])
    done = CliRunner().invoke(cli.cli, arguments)
    assert done.exit_code == code
    name = "timeline" if code else "trace"
    assert f"/{name}" in done.stdout.splitlines()[-1]


def test_trace_join_joins_two_folders(tmp_path, made):
    timeline_run(tmp_path / "a", made)
    memory_run(tmp_path / "b", made)
    folders = [str(tmp_path / name) for name in "abc"]
    done = CliRunner().invoke(cli.cli, ["trace", "join", *folders[:2], "-o", folders[2]])
    assert (done.exit_code, done.stderr) == (0, "")
    first, second = done.stdout.splitlines()
    assert first.startswith("rank 0: 11 launches are matched")
    assert second.startswith(f"joined in {folders[2]} (process 1, span 2, call 11, kernel 11,")
    again = CliRunner().invoke(cli.cli, ["trace", "join", *folders[:2], "-o", folders[2]])
    assert isinstance(again.exception, TraceError)
