"""Recordings whose pasta is killed: their traces are completed, and nothing hidden stays."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from fnmatch import fnmatch
from pathlib import Path

import polars as pl
import pytest
from click.testing import CliRunner

import pasta
from pasta.cli import cli
from pasta.collect.channel import SHARED_MEMORY
from pasta.collect.rescue import rescue
from pasta.collect.shared_trace import SharedTrace
from pasta.collect.target.ranks import Place
from pasta.errors import TraceError
from pasta.testing import write_trace
from pasta.trace import MANIFEST, Trace
from pasta.trace_state import _started, this_process
from pasta.trace_writer import PartWriter, TraceWriter
from pasta.whole_file import UNFINISHED, write_json
from tests.collect.recorded_programs import losses

PROGRAM = """
import time, pasta
with pasta.annotate("open"):
    for number in range(500):  # it is killed before
        with pasta.annotate(f"step {number}"):
            time.sleep(1.2)
"""
GUARD = "pasta-guard"
ROWS = {"pid": 1, "tid": 1, "level": "annotation"}


def children(pid: int) -> dict[int, str]:
    listed = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return {int(each): Path(f"/proc/{each}/cmdline").read_text() for each in listed}


def until(happens, seconds: float = 300) -> None:
    end = time.monotonic() + seconds
    while not happens():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.05)


@pytest.fixture
def recording(tmp_path):
    """A recording that has rows in its files, as (pasta, ids of what it started, the trace)."""
    command = [sys.executable, "-m", "pasta", "collect", "--with", "torch:operators", "-o", "t"]
    with subprocess.Popen([*command, "--", sys.executable, "-c", PROGRAM], cwd=tmp_path) as pasta:
        path = tmp_path / "t"
        until(lambda: len(list(path.glob("rank-00000/span/part-*.parquet"))) > 1)
        started = children(pasta.pid)
        yield pasta, started, path
        for pid, command_line in started.items():
            if GUARD not in command_line:
                os.kill(pid, signal.SIGKILL)


def test_a_trace_is_completed_by_the_guard_where_pasta_is_killed(recording):
    pasta, _, path = recording
    (path / "rank-00000" / ".cpu-left").mkdir()
    pasta.kill()
    until(lambda: Trace.open(path).info["state"] == "complete")
    trace = Trace.open(path)
    spans = trace.scan("span").collect()
    assert spans.filter(pl.col("span_id") > 0).select("pid", "span_id").is_unique().all()
    assert "step 0" in spans["name"].to_list()
    assert losses(trace)["pasta was killed while it wrote the trace: what was not written yet"] == 1
    assert not [file for file in path.rglob("*") if file.name.startswith((".", "part-", "rank-"))]
    assert not list(SHARED_MEMORY.glob(f"pasta-{pasta.pid}-*"))


def test_where_the_guard_is_killed_too_readers_are_told_and_can_complete_it(recording):
    pasta_process, started, path = recording
    (guard,) = [pid for pid, command in started.items() if GUARD in command]
    running = pasta.run("summary", str(path))
    assert "is being written by process" in " ".join(running.notes)
    assert "not finished" in running.findings[0]
    with pytest.raises(TraceError, match="is being written by"):
        rescue(path)
    os.kill(guard, signal.SIGKILL)
    pasta_process.kill()
    pasta_process.wait()
    read = pasta.run("summary", str(path))
    assert f"complete it: pasta trace rescue {path}" in " ".join(read.notes)
    told = CliRunner().invoke(cli, ["trace", "sql", str(path), "select 1 as one from span"])
    assert "was never finished" in told.stderr
    done = CliRunner().invoke(cli, ["trace", "rescue", str(path)])
    assert done.exit_code == 0, done.output
    again = pasta.run("summary", str(path))
    assert "not finished" not in again.findings[0]
    assert "never finished" not in " ".join(again.notes)
    assert again.facts["lost"] == 1


def unfinished_trace(path: Path) -> TraceWriter:
    """A trace whose writer was gone when each of its tables was at another point."""
    writer = TraceWriter(path, {})
    write_json(
        path / MANIFEST, {**Trace.open(path).info, "recorder": {"pid": 1 << 30, "system": "none"}}
    )
    part = writer.part()
    part.append("span", _spans("kept"))
    part.append("kernel", _kernel("k"))
    part.flush()
    return writer


def _spans(name: str):
    return pl.DataFrame({**ROWS, "rank": [0], "ts": [5], "dur": [1], "name": [name]}).to_arrow()


def _kernel(name: str):
    return pl.DataFrame({"rank": [0], "pid": [1], "ts": [5], "dur": [1], "name": [name]}).to_arrow()


def test_parts_and_the_sorted_files_made_of_them_are_not_both_kept(tmp_path):
    path = tmp_path / "t"
    unfinished_trace(path)
    other = tmp_path / "other"
    write_trace(other, span=[{**ROWS, "ts": 7, "dur": 1, "name": "sorted"}])
    half = (other / "span" / "000000.parquet").read_bytes()
    (path / "span" / "000000.parquet").write_bytes(half)  # the part is still whole
    (path / "kernel" / "part-000000.arrow").rename(path / "kernel" / "part-000001.arrow")
    write_trace(tmp_path / "third", kernel=[{"pid": 1, "ts": 7, "dur": 1, "name": "done"}])
    done = (tmp_path / "third" / "kernel" / "000000.parquet").read_bytes()
    (path / "kernel" / "000000.parquet").write_bytes(done)
    trace = rescue(path, gone=True)
    assert trace.scan("span").collect()["name"].to_list() == ["kept"]
    assert trace.scan("kernel").collect()["name"].to_list() == ["done"]
    with pytest.raises(TraceError, match="is complete"):
        rescue(path, gone=True)


def test_what_a_writer_had_begun_goes_and_files_of_users_stay(tmp_path):
    path = tmp_path / "t"
    unfinished_trace(path)
    for folder in (path, path / "span"):
        begun = folder / f".pasta-{16 * '7'}"
        assert fnmatch(begun.name, UNFINISHED)
        begun.write_text("{")
    (path / f".{MANIFEST}").write_text("{")
    (path / ".pasta-notes").write_text("kept")
    rescue(path, gone=True)
    assert [each.name for each in path.rglob(".*")] == [".pasta-notes"]


def test_links_are_not_followed(tmp_path):
    path, elsewhere = tmp_path / "t", tmp_path / "elsewhere"
    unfinished_trace(path)
    elsewhere.mkdir()
    (elsewhere / ".precious").write_text("kept")
    (path / "rank-00001").symlink_to(elsewhere)
    (path / "metric").symlink_to(elsewhere)
    (path / ".cpu-link").symlink_to(elsewhere)
    (path / ".git").mkdir()
    rescue(path, gone=True)
    assert (elsewhere / ".precious").read_text() == "kept"
    assert not (path / ".cpu-link").is_symlink()
    assert (path / ".git").is_dir()


def test_the_share_of_one_launcher_is_completed_alone(tmp_path):
    path = tmp_path / "t"
    shares = [SharedTrace(path, {}, Place(rank, 0, 2), "run") for rank in range(2)]
    assert "2 of 2 ranks have not finished" in " ".join(pasta.run("summary", str(path)).notes)
    rescue(path, 1)
    assert Trace.open(path).info["state"] == "recording"
    shares[0].finish(ended="exit 0")
    info = Trace.open(path).info
    assert info["state"] == "complete"
    assert info["ended"].startswith("rank 1: unknown, as pasta was killed")


def share_of_one_that_is_gone(path: Path, rank: int, ranks: int, *, finished: bool) -> None:
    """Begin a rank's share, as a launcher that has ended since."""
    ends = 'share.finish(ended="exit 0")' if finished else ""
    begins = f"""
from pathlib import Path
from pasta.collect.shared_trace import SharedTrace
from pasta.collect.target.ranks import Place
share = SharedTrace(Path({str(path)!r}), {{}}, Place({rank}, 0, {ranks}), "run")
{ends}
"""
    subprocess.run([sys.executable, "-c", begins], check=True)


def test_a_share_that_is_being_written_is_left_alone_though_the_first_launcher_is_gone(tmp_path):
    path = tmp_path / "t"
    share_of_one_that_is_gone(path, 0, 2, finished=True)
    live = SharedTrace(path, {}, Place(1, 1, 2), "run")
    with pytest.raises(TraceError, match="rank 1 is being written"):
        rescue(path)
    live.finish(ended="exit 0")
    assert Trace.open(path).info["ended"] == "exit 0"


def test_a_trace_of_which_some_launchers_never_began_can_be_completed(tmp_path):
    path = tmp_path / "t"
    share_of_one_that_is_gone(path, 0, 3, finished=True)
    share_of_one_that_is_gone(path, 2, 3, finished=False)
    for folder in (path, path / "rank-00002"):
        (folder / f".pasta-{16 * '7'}").write_text("{")
    info = rescue(path).info
    assert not list(path.rglob(".*"))
    assert info["state"] == "complete"
    assert info["ranks"] == [0, 2]
    assert info["ended"].endswith("while it wrote the trace; 1 of 3 ranks left nothing")


def test_a_guard_waits_for_the_last_moments_of_its_recorder(tmp_path):
    unfinished_trace(tmp_path / "t")
    with subprocess.Popen(["sleep", "0.5"]) as recorder:
        told = {**this_process(), "pid": recorder.pid, "started": _started(recorder.pid)}
        write_json(tmp_path / "t" / MANIFEST, {**Trace.open(tmp_path / "t").info, "recorder": told})
        assert rescue(tmp_path / "t", 0).info["state"] == "complete"


def test_a_trace_that_is_being_written_is_not_the_guards_of_another_recording(
    tmp_path, monkeypatch
):
    monkeypatch.setattr("pasta.collect.rescue._DYING_SECONDS", 0.1)
    TraceWriter(tmp_path / "t", {})
    with pytest.raises(TraceError, match="is being written by"):
        rescue(tmp_path / "t", 0)


def test_tables_that_were_being_moved_to_the_root_are_kept(tmp_path):
    path = tmp_path / "t"
    unfinished_trace(path)
    part = PartWriter(path / "rank-00000")
    part.append("metric", pl.DataFrame({"rank": [0], "name": ["m"], "value": [1.0]}).to_arrow())
    for table in ("span", "kernel"):
        (path / table).rename(path / "rank-00000" / table)
    write_trace(tmp_path / "other", loss=[{"pid": 1, "reason": "before", "count": 2}])
    (tmp_path / "other" / "loss").rename(path / "loss")
    part.finish()
    trace = rescue(path, gone=True)
    assert losses(trace)["before"] == 2
    assert len(losses(trace)) == 2
    assert trace.rows("metric") == trace.rows("span") == 1


@pytest.mark.parametrize(
    "told", [{"collectors": 5}, {"collectors": ["cpu"]}, {"recorder": [1]}, {"recorder": 1}]
)
def test_a_manifest_that_makes_no_sense_does_not_matter(tmp_path, told):
    unfinished_trace(tmp_path / "t")
    write_json(tmp_path / "t" / MANIFEST, {**Trace.open(tmp_path / "t").info, **told})
    assert rescue(tmp_path / "t", gone=True).rows("span") == 1


def test_a_part_that_cannot_be_read_is_told_in_one_line(tmp_path):
    unfinished_trace(tmp_path / "t")
    next((tmp_path / "t" / "span").glob("part-*")).write_bytes(b"cut")
    with pytest.raises(TraceError, match="t: cannot be completed"):
        rescue(tmp_path / "t", gone=True)


def test_a_recorder_of_another_machine_may_still_run(tmp_path):
    path = tmp_path / "t"
    unfinished_trace(path)
    assert "which may run still" in " ".join(pasta.run("summary", str(path)).notes)
    done = CliRunner().invoke(cli, ["trace", "rescue", str(path)])
    assert "cannot be known here; if it is gone, say so: --gone" in " ".join(
        str(done.exception).split()
    )
    assert Trace.open(path).info["state"] == "recording"
    done = CliRunner().invoke(cli, ["trace", "rescue", str(path), "--gone"])
    assert "span 1" in done.output
