from __future__ import annotations

import json
import os
import signal
import sys
import time

import polars as pl
import pytest

from pasta.collect import cuda_memory
from pasta.collect.environment import SITE
from pasta.collect.recording import record_command
from pasta.collect.selection import Selection
from pasta.errors import CollectError, TraceError
from tests.collect.recorded_programs import (
    ANNOTATES,
    ROOT,
    WRITTEN,
    annotations,
    losses,
    python,
    quoted,
    recorded,
    table,
)


@pytest.fixture(autouse=True)
def _pasta_in_programs(monkeypatch):
    """Programs find this pasta, whether it is installed or not, and think of no launcher."""
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def out(tmp_path):
    return tmp_path / "trace"


def test_annotations_become_spans_of_the_program(out):
    source = """
    import pasta
    with pasta.annotate("outer"):
        with pasta.annotate("inner"):
            pass
    """
    command = python(source)
    done, trace = recorded(out, command)
    assert (str(done.end), done.failure, done.path) == ("exit 0", "", out)
    spans = table(trace, "span")
    names = dict(spans.select("span_id", "name").rows())
    tree = {row["name"]: names.get(row["parent_id"]) for row in spans.iter_rows(named=True)}
    run = " ".join(command)
    assert tree == {run: None, "step 0": run, "outer": "step 0", "inner": "outer"}
    assert spans["dur"].min() >= 0
    assert done.rows["span"] == 4
    assert losses(trace) == {}


def test_a_collector_whose_library_is_not_there_leaves_no_trace(out, monkeypatch):
    monkeypatch.setattr(cuda_memory, "find_sanitizer", lambda: None)
    with pytest.raises(CollectError, match="no library of Compute Sanitizer was found"):
        record_command(python("pass"), out, {"cuda.memory": "touch"}, Selection())
    assert not out.exists()


def test_the_process_is_one_row_with_its_end(out):
    _, trace = recorded(out, python(ANNOTATES + "sys.exit(3)", "a"), seconds=None)
    process = table(trace, "process").row(0, named=True)
    assert table(trace, "process").height == 1
    assert process["exit_code"] == 3
    assert process["parent_pid"] == os.getpid()
    assert process["framework"].startswith("python 3.")
    spans = table(trace, "span")
    assert set(spans["pid"]) == {process["pid"]}
    ends = spans["ts"] + spans["dur"]
    assert process["started"] <= spans["ts"].min() < ends.max() <= process["ended"]
    assert abs(process["ended"] - time.time_ns()) < 600e9
    assert table(trace, "thread")["name"].to_list() == ["MainThread"]


@pytest.mark.parametrize(
    ("ending", "ended", "exit_code"),
    [
        ("sys.exit(3)", "exit 3", 3),
        ("raise ValueError('mine')", "exit 1", 1),
        ("os._exit(5)", "exit 5", 5),
        ("os.abort()", "signal 6 (SIGABRT)", -6),
        ("os.kill(os.getpid(), signal.SIGKILL)", "signal 9 (SIGKILL)", -9),
    ],
)
def test_however_a_program_ends_what_was_written_stays(out, capfd, ending, ended, exit_code):
    source = WRITTEN + (
        "with pasta.annotate('before'): pass\n"
        "wait_until_written()\n"
        f"with pasta.annotate('open'): {ending}\n"
    )
    done, trace = recorded(out, python(source))
    assert done.end.code == exit_code
    assert (trace.info["state"], trace.info["ended"]) == ("complete", ended)
    assert table(trace, "process")["exit_code"].to_list() == [exit_code]
    assert any("signal" in reason for reason in losses(trace)) == (exit_code < 0)
    regular = "exit" in ending.partition("(")[0] or "raise" in ending
    if regular and "_exit" not in ending:
        assert annotations(trace) == ["before", "open"]
    else:
        assert annotations(trace)[:1] == ["before"]
    assert ("ValueError: mine" in capfd.readouterr().err) == ("raise" in ending)


def test_a_span_that_stays_open_is_there_after_a_kill(out):
    source = WRITTEN + (
        "with pasta.annotate('stuck'):\n"
        "    while len(session().watchdog._written) < 3: time.sleep(0.01)\n"
        "    wait_until_written()\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    _, trace = recorded(out, python(source))
    spans = table(trace, "span").sort("ts", "span_id")
    assert spans["level"].to_list() == ["run", "step", "annotation"]
    assert spans["dur"].null_count() == 3


def test_a_span_that_stayed_open_and_ended_is_one_row(out):
    source = WRITTEN + (
        "with pasta.annotate('long'):\n"
        "    while len(session().watchdog._written) < 3: time.sleep(0.01)\n"
    )
    _, trace = recorded(out, python(source))
    spans = table(trace, "span")
    assert spans.height == 3
    assert spans["dur"].null_count() == 0


def test_children_and_grandchildren_are_recorded_whoever_starts_them(out):
    shell = f"true && {quoted(python(ANNOTATES, 'by a shell'))}"
    source = f"""
    import os, subprocess, sys, pasta
    with pasta.annotate("parent"):
        subprocess.run(["bash", "-c", {shell!r}], check=True)
        subprocess.run([sys.executable, "-c", {ANNOTATES!r}, "by Python"], check=True)
    """
    _, trace = recorded(out, ["bash", "-c", quoted(python(source)) + "; exit 4"])
    assert annotations(trace) == ["parent", "by a shell", "by Python"]
    assert trace.info["ended"] == "exit 4"
    spans = table(trace, "span").filter(pl.col("level") == "annotation")
    assert spans["pid"].n_unique() == 3
    # The shell imported nothing: it has a row since it is the program, and the code is its own.
    processes = table(trace, "process")
    assert processes.height == 4
    shell_row = processes.filter(~pl.col("pid").is_in(spans["pid"].to_list()))
    assert shell_row["exit_code"].to_list() == [4]
    assert shell_row["parent_pid"].to_list() == [os.getpid()]


def test_children_by_fork_and_spawn_keep_their_last_rows(out, tmp_path):
    program = tmp_path / "program.py"
    program.write_text(
        "import multiprocessing, os, pasta\n"
        "def work(name):\n"
        "    with pasta.annotate(name): pass\n"
        "if __name__ == '__main__':\n"
        "    with pasta.annotate('parent'): pass\n"
        "    for method in ('fork', 'spawn', 'forkserver'):\n"
        "        context = multiprocessing.get_context(method)\n"
        "        child = context.Process(target=work, args=(method,))\n"
        "        child.start(); child.join()\n"
        "        assert child.exitcode == 0\n"
    )
    _, trace = recorded(out, [sys.executable, str(program)])
    assert annotations(trace) == ["parent", "fork", "spawn", "forkserver"]
    spans = table(trace, "span").filter(pl.col("level") == "annotation")
    assert spans["pid"].n_unique() == 4
    assert set(spans["pid"]) <= set(table(trace, "process")["pid"])
    assert losses(trace) == {}


def test_a_forked_child_has_spans_of_its_own(out):
    source = WRITTEN + (
        "with pasta.annotate('parent'):\n"
        "    child = os.fork()\n"
        "    if child == 0:\n"
        "        with pasta.annotate('child'): pass\n"
        "        wait_until_written()\n"
        "        os._exit(0)\n"
        "    os.waitpid(child, 0)\n"
    )
    _, trace = recorded(out, python(source, options=("-W", "ignore")))
    spans = table(trace, "span").filter(pl.col("level") == "annotation").sort("ts")
    assert spans["name"].to_list() == ["parent", "child"]
    parent, child = spans["pid"]
    processes = dict(table(trace, "process").select("pid", "parent_pid").rows())
    assert processes[child] == parent
    assert processes[parent] == os.getpid()


@pytest.mark.parametrize("option", ["-S", "-I", "-E"])
def test_a_python_that_ignores_the_environment_runs_unrecorded(out, capfd, option):
    source = "import sys; print('ran', sys.flags.isolated)"
    done, trace = recorded(out, python(source, options=(option,)))
    assert capfd.readouterr().out == f"ran {int(option == '-I')}\n"
    assert str(done.end) == "exit 0"
    assert "span" not in trace.tables()
    assert [reason for reason in losses(trace) if "nothing was recorded" in reason]
    assert "nothing was recorded" in done.warning


def test_a_program_that_is_no_python_says_that_nothing_was_recorded(out):
    done, trace = recorded(out, ["sh", "-c", "exit 7"])
    assert trace.info["ended"] == "exit 7"
    assert table(trace, "process")["exit_code"].to_list() == [7]
    assert "no process of the command imported torch or pasta" in done.warning


def test_a_program_that_was_recorded_has_no_warning(out):
    done, _ = recorded(out, python(ANNOTATES, "a"))
    assert done.warning == ""


def test_the_users_own_sitecustomize_runs_and_pythonpath_is_kept(out, tmp_path, monkeypatch, capfd):
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "sitecustomize.py").write_text("import sys; sys.mine = __file__\n")
    monkeypatch.chdir(tmp_path)
    path = os.pathsep.join(["", str(mine), str(ROOT), "/no/such/folder"])
    monkeypatch.setenv("PYTHONPATH", path)
    source = """
    import json, os, sys, pasta
    with pasta.annotate("a"):
        pass
    print(json.dumps([sys.mine, sys.path, os.environ["PYTHONPATH"]]))
    """
    _, trace = recorded(out, python(source))
    own, paths, inherited = json.loads(capfd.readouterr().out)
    assert own == str(mine / "sitecustomize.py")
    assert inherited == f"{SITE}{os.pathsep}{path}"
    assert str(SITE) not in paths
    assert paths[1:5] == [str(tmp_path), str(mine), str(ROOT), "/no/such/folder"]
    assert annotations(trace) == ["a"]


def test_a_failing_sitecustomize_of_the_user_is_told_as_ever(out, tmp_path, monkeypatch, capfd):
    (tmp_path / "sitecustomize.py").write_text("raise ValueError('mine')\n")
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}{os.pathsep}{ROOT}")
    _, trace = recorded(out, python(ANNOTATES, "a"))
    assert "ValueError: mine" in capfd.readouterr().err
    assert annotations(trace) == ["a"]


def test_what_belongs_to_the_recording_is_gone_in_processes_that_outlive_it(out, tmp_path):
    told = tmp_path / "told"
    late = "import json, os, sys; print(json.dumps([dict(os.environ), sys.path]))"
    after = (
        'while [ -d "$PASTA_CHANNEL" ]; do sleep 0.02; done;'
        f" {quoted(python(late))} > {told}.new; mv {told}.new {told}"
    )
    source = f"""
    import subprocess, pasta
    with pasta.annotate("a"):
        subprocess.Popen(["sh", "-c", {after!r}], start_new_session=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    """
    recorded(out, python(source))
    wait_until(told.exists)
    environment, paths = json.loads(told.read_text())
    assert environment["PYTHONPATH"] == str(ROOT)
    assert not {"PASTA_CHANNEL", "PASTA_COLLECT"} & set(environment)
    assert str(SITE) not in paths


def wait_until(condition) -> None:
    for _ in range(30_000):
        if condition():
            return
        time.sleep(0.01)
    raise AssertionError("it did not happen")


def test_processes_that_outlive_the_command_are_counted(out, tmp_path):
    stop = tmp_path / "stop"
    child = WRITTEN + (
        "with pasta.annotate('child'): pass\n"
        "wait_until_written()\n"
        "print('written', flush=True)\n"
        f"while not os.path.exists({str(stop)!r}): time.sleep(0.02)\n"
    )
    source = f"""
    import subprocess, sys
    child = subprocess.Popen([sys.executable, "-c", {child!r}], stdout=subprocess.PIPE,
        start_new_session=True)
    child.stdout.readline()
    """
    _, trace = recorded(out, python(source, options=("-W", "ignore")))
    stop.touch()
    assert annotations(trace) == ["child"]
    assert losses(trace) == {"processes that outlive the command: recorded up to its end": 1}


def test_a_missing_program_leaves_no_trace(out):
    with pytest.raises(CollectError, match="no-such-program: no such program"):
        recorded(out, ["no-such-program"])
    assert not out.exists()


def test_a_folder_that_holds_something_is_refused_before_the_program_starts(out, tmp_path):
    out.mkdir()
    (out / "mine").touch()
    with pytest.raises(TraceError, match="already exists"):
        recorded(out, ["touch", str(tmp_path / "ran")])
    assert not (tmp_path / "ran").exists()


def test_a_failure_to_write_does_not_stop_the_program(out, tmp_path):
    noticed = tmp_path / "noticed"

    def watch(reception):
        if reception.receiver.failure:
            noticed.touch()

    source = f"""
    import contextlib, pathlib, shutil, pasta
    out, noticed = pathlib.Path({str(out)!r}), pathlib.Path({str(noticed)!r})
    while not out.is_file():
        shutil.rmtree(out, ignore_errors=True)  # files may come meanwhile
        with contextlib.suppress(OSError):
            out.touch()
    while not noticed.exists():
        with pasta.annotate("before it is noticed"):
            pass
    for number in range(100_000):
        with pasta.annotate(f"range {{number}}"):
            pass
    out.unlink()
    out.mkdir()
    """
    done, _ = recorded(out, python(source), watchers=[watch])
    assert str(done.end) == "exit 0"
    assert "could not be written on" in done.failure
    assert "\n" not in done.failure


def by_hand(steps: int) -> list[str]:
    source = """
    import sys, pasta
    for number in range(int(sys.argv[1])):
        pasta.step()
        with pasta.annotate(f"in {number}"):
            pass
    """
    return python(source, str(steps))


def test_steps_are_selected(out):
    _, trace = recorded(out, by_hand(10), steps=(2, 7, 2))
    assert annotations(trace) == ["in 2", "in 4", "in 6"]
    steps = table(trace, "span").filter(pl.col("level") == "step").sort("ts")
    assert steps["name"].to_list() == ["step 2", "step 4", "step 6"]
    assert trace.info["selection"]["steps"] == [2, 7, 2]


def test_no_second_records_nothing(out):
    _, trace = recorded(out, by_hand(3), seconds=0)
    assert annotations(trace) == []
    assert table(trace, "process").height == 1


def test_an_idle_program_records_what_it_asks_for(out):
    source = """
    import pasta
    def mark(name):
        with pasta.annotate(name):
            pass
    mark("idle")
    with pasta.region():
        mark("region")
    mark("idle again")
    pasta.start(steps=2)
    for number in range(4):
        pasta.step()
        mark(f"in {number}")
    """
    _, trace = recorded(out, python(source), idle=True)
    assert annotations(trace)[0] == "region"
    assert "idle" not in annotations(trace)
    assert "idle again" not in annotations(trace)
    assert len(annotations(trace)) in (2, 3)  # the region, and two steps with what begins them
    assert "in 3" not in annotations(trace)


def test_the_trace_stops_at_its_byte_limit(out):
    source = """
    import pasta, time, sys
    session = None
    number = 0
    while True:
        with pasta.annotate(f"a range of a long and changing name {number}"):
            number += 1
        session = session or sys.modules["pasta_target.session"].current()
        if not session.recording:
            break
        if number % 100 == 0:
            time.sleep(0.002)
    """
    done, trace = recorded(out, python(source), max_bytes=20_000)
    assert str(done.end) == "exit 0"
    assert losses(trace).get("the trace has reached its byte limit: recording was switched off")
    assert len(annotations(trace)) > 10


def test_ranks_are_those_of_the_environment(out):
    command = quoted(python(ANNOTATES + "print(end='')", "x"))
    script = " & ".join(f"RANK={rank} WORLD_SIZE=3 {command}" for rank in range(3))
    _, trace = recorded(out, ["bash", "-c", f"{script} & wait"])
    spans = table(trace, "span").filter(pl.col("level") == "annotation")
    assert sorted(spans["rank"]) == [0, 1, 2]
    assert spans["pid"].n_unique() == 3
    assert trace.info["ranks"] == [0, 1, 2]
    assert {folder.name for folder in out.glob("rank-*")} == {f"rank-0000{k}" for k in range(3)}
    processes = table(trace, "process")
    worlds = processes.filter(pl.col("pid").is_in(spans["pid"].to_list()))["world_size"]
    assert worlds.to_list() == [3, 3, 3]


def test_names_of_any_kind_are_texts(out):
    source = r"""
    import pasta
    for name in ("", "a\nb", "\u00e9\U0001f980", "\ud800", 3, None, ["list"], "x" * 300_000):
        with pasta.annotate(name):
            pass
    with pasta.annotate("last"):
        pass
    """
    _, trace = recorded(out, python(source))
    names = annotations(trace)
    assert names[:3] == ["", "a\nb", "\u00e9\U0001f980"]
    assert names[4:7] == ["3", "None", "['list']"]
    assert names[-1] == "last"
    assert len(names) == 9


def test_threads_have_their_own_spans(out):
    source = """
    import threading, pasta
    def work():
        with pasta.annotate("elsewhere"):
            pass
    thread = threading.Thread(target=work, name="worker")
    with pasta.annotate("here"):
        thread.start()
        thread.join()
    """
    _, trace = recorded(out, python(source))
    spans = table(trace, "span")
    threads = dict(table(trace, "thread").select("tid", "name").rows())
    where = {row["name"]: threads[row["tid"]] for row in spans.iter_rows(named=True)}
    assert where["elsewhere"] == "worker"
    assert where["here"] == where["step 0"] == "MainThread"


def test_a_program_that_only_looks_for_torch_before_its_import_is_recorded(
    out, tmp_path, monkeypatch
):
    fake = tmp_path / "modules" / "torch"
    fake.mkdir(parents=True)
    (fake / "__init__.py").write_text("__version__ = 'fake'\n")
    monkeypatch.setenv("PYTHONPATH", str(fake.parent))
    source = """
    import importlib.util, sys
    for _ in range(2):
        assert importlib.util.find_spec("torch") is not None
    assert importlib.util.find_spec("pasta_") is None
    import torch
    """
    _, trace = recorded(out, python(source))
    # It is no PyTorch, and the collector says so without disturbing the program.
    assert [reason for reason in losses(trace) if reason.startswith("the torch hook failed")]
    assert trace.info["ended"] == "exit 0"


def test_a_folder_called_torch_is_no_module(out, tmp_path, monkeypatch):
    (tmp_path / "modules" / "torch").mkdir(parents=True)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "modules"))
    isolated = "import sys; sys.path = [p for p in sys.path if 'site-packages' not in p];"
    source = f"{isolated} import torch; print(torch.__path__ is not None)"
    done, _ = recorded(out, python(source))
    assert str(done.end) == "exit 0"


def test_ctrl_c_in_the_program_is_written_too(out):
    source = WRITTEN + (
        "with pasta.annotate('before'): pass\nos.kill(os.getpid(), signal.SIGINT)\n"
    )
    done, trace = recorded(out, python(source))
    assert done.end.code == -signal.SIGINT
    assert annotations(trace) == ["before"]


def test_a_script_by_path_and_a_module_are_recorded(out, tmp_path, monkeypatch):
    package = tmp_path / "package with space"
    package.mkdir()
    (package / "script.py").write_text(
        "import pasta\nwith pasta.annotate(__name__ + __file__): pass\n"
    )
    monkeypatch.chdir(package)
    recorded(tmp_path / "one", [sys.executable, str(package / "script.py")])
    _, by_path = recorded(out, [sys.executable, "script.py"])
    assert annotations(by_path) == [f"__main__{package / 'script.py'}"]
    _, as_module = recorded(tmp_path / "two", [sys.executable, "-m", "script"])
    assert annotations(as_module) == [f"__main__{package / 'script.py'}"]
