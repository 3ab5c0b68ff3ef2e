from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
import textwrap
import threading

import pytest

from pasta.collect import shared_trace
from pasta.collect.shared_trace import SharedTrace
from pasta.collect.target.ranks import Place
from pasta.errors import TraceError
from pasta.trace import Trace
from pasta.trace_state import RECORDER
from pasta.whole_file import write_json


def share(path, rank: int, *, size: int = 2, run: str | None = "run", command: str = "c"):
    return SharedTrace(path, {"command": command}, Place(rank, 0, size), run)


def test_the_last_of_two_launchers_completes_one_trace(tmp_path):
    path = tmp_path / "deep" / "trace"
    first = share(path, 1, command="first")
    second = share(path, 0, command="second")
    manifest = Trace.open(path).info
    assert (manifest["state"], manifest["command"]) == ("recording", "first")
    assert (manifest["world_size"], manifest["run_id"]) == (2, "run")
    second.finish(ended="exit 0")
    assert Trace.open(path).info["state"] == "recording"
    first.finish(ended="exit 0")
    manifest = Trace.open(path).info
    assert (manifest["state"], manifest["ended"]) == ("complete", "exit 0")
    assert manifest["ranks"] == [0, 1]
    assert manifest["command"] == "first"


def test_ranks_that_ended_otherwise_are_named(tmp_path):
    shares = [share(tmp_path / "t", rank, size=3) for rank in range(3)]
    for part, ended in zip(shares, ["exit 1", "exit 0", "signal 9 (SIGKILL)"], strict=True):
        part.finish(ended=ended)
    ended = Trace.open(tmp_path / "t").info["ended"]
    assert ended == "rank 0: exit 1; rank 2: signal 9 (SIGKILL)"


def test_ranks_that_all_failed_alike_say_so_once(tmp_path):
    for part in [share(tmp_path / "t", rank) for rank in range(2)]:
        part.finish(ended="exit 3")
    assert Trace.open(tmp_path / "t").info["ended"] == "exit 3"


def test_another_run_is_refused_and_harms_nothing(tmp_path):
    share(tmp_path / "t", 0).finish(ended="exit 0")
    before = (tmp_path / "t" / "trace.json").read_text()
    with pytest.raises(TraceError, match="holds a trace of another run; choose another -o"):
        share(tmp_path / "t", 1, run="other")
    assert (tmp_path / "t" / "trace.json").read_text() == before
    assert sorted(file.name for file in (tmp_path / "t").iterdir()) == ["rank-00000", "trace.json"]


def test_a_manifest_that_another_launcher_has_begun_is_waited_for(tmp_path, monkeypatch):
    """Where the file system knows no links, it has its name before it is whole."""
    path = tmp_path / "t"
    share(path, 0)
    whole = Trace.open(path).info
    (path / "trace.json").write_bytes(b"")
    monkeypatch.setattr(
        shared_trace.time, "sleep", lambda _: write_json(path / "trace.json", whole)
    )
    share(path, 1)
    assert Trace.open(path).info["run_id"] == "run"


def test_a_rank_that_is_there_is_refused(tmp_path):
    share(tmp_path / "t", 0)
    with pytest.raises(TraceError, match="rank 0 is there already; choose another -o"):
        share(tmp_path / "t", 0)


def test_a_rank_that_could_not_begin_can_begin_again(tmp_path, monkeypatch):
    def full(path, content, **options):
        if path.name == RECORDER:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        write_json(path, content, **options)

    with monkeypatch.context() as context:
        context.setattr(shared_trace, "write_json", full)
        with pytest.raises(TraceError, match="No space left on device"):
            share(tmp_path / "t", 0)
    share(tmp_path / "t", 0)


@pytest.mark.parametrize("content", ["", "{", "[1]", json.dumps({"state": "complete"})])
def test_a_folder_of_something_else_is_refused(tmp_path, content, monkeypatch):
    monkeypatch.setattr(shared_trace, "_PATIENCE", 0)
    (tmp_path / "trace.json").write_text(content)
    with pytest.raises(TraceError, match="another run"):
        share(tmp_path, 0)


def test_a_folder_that_holds_other_files_is_refused(tmp_path):
    (tmp_path / "mine").touch()
    with pytest.raises(TraceError, match="already exists and is not empty"):
        share(tmp_path, 0)
    assert [file.name for file in tmp_path.iterdir()] == ["mine"]


def test_many_at_once_make_one_manifest_and_all_are_in_it(tmp_path):
    size = 12
    barrier = threading.Barrier(size)
    failures = []

    def work(rank: int) -> None:
        try:
            barrier.wait()
            part = share(tmp_path / "t", rank, size=size, command=f"of {rank}")
            barrier.wait()
            part.finish(ended="exit 0")
        except Exception as error:  # noqa: BLE001 - told below
            barrier.abort()
            failures.append(error)

    threads = [threading.Thread(target=work, args=(rank,)) for rank in range(size)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    manifest = Trace.open(tmp_path / "t").info
    assert manifest["state"] == "complete"
    assert manifest["ranks"] == list(range(size))
    assert not [file.name for file in (tmp_path / "t").rglob(".*")]


def test_without_a_launcher_that_names_the_run_its_parent_does(tmp_path):
    program = textwrap.dedent(
        """
        import sys
        from pathlib import Path
        from pasta.collect.shared_trace import SharedTrace
        from pasta.collect.target.ranks import Place
        from pasta.errors import TraceError
        try:
            SharedTrace(Path(sys.argv[1]), {}, Place(int(sys.argv[2]), 0, 9), None)
        except TraceError as error:
            sys.exit(str(error))
        """
    )
    command = [sys.executable, "-c", program, str(tmp_path / "t")]
    for rank in "01":  # of one parent: this process
        assert subprocess.run([*command, rank], check=False).returncode == 0
    other_parent = ["sh", "-c", '"$@"; exit $?', "sh", *command, "2"]
    done = subprocess.run(other_parent, capture_output=True, text=True, check=False)
    assert "another run" in done.stderr
