"""Experiments from their YAML to their report, with programs that need nothing but Python."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import polars as pl
import pytest

from pasta.collect.launch import End
from pasta.collect.recording import Recorded
from pasta.errors import TraceError
from pasta.experiment import running
from pasta.experiment.plan import read_experiment
from pasta.trace import Trace
from tests.collect.recorded_programs import ROOT

PASTA = [sys.executable, "-m", "pasta"]
PROGRAM = """
import sys, time
import pasta
print("size", sys.argv[1])
for _ in range(2):
    pasta.step()
    with pasta.annotate("work"):
        time.sleep(0.002 * int(sys.argv[1]))
with open(sys.argv[2], "a") as log:
    log.write(f"{sys.argv[1]} ")
"""


@pytest.fixture(autouse=True)
def _pasta_in_programs(monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def yaml(tmp_path):
    """An experiment of four runs of a program, which logs its runs into `log`."""
    (tmp_path / "program.py").write_text(PROGRAM)
    command = [sys.executable, str(tmp_path / "program.py"), "{size}", str(tmp_path / "log")]
    (tmp_path / "e.yaml").write_text(
        f"version: 1\nexperiment: mine\ncommand: {json.dumps(command)}\n"
        "parameters: {size: [1, 2]}\nlevels: [none, ranges]\nrepeats: 1\n"
    )
    return tmp_path / "e.yaml"


def experiment(*arguments: str | Path, **environment: str) -> subprocess.CompletedProcess:
    command = [*PASTA, "experiment", "run", *map(str, arguments)]
    env = os.environ | environment
    return subprocess.run(command, capture_output=True, text=True, check=False, env=env)


def log(yaml: Path) -> list[str]:
    file = yaml.with_name("log")
    return file.read_text().split() if file.exists() else []


def test_an_experiment_keeps_traces_and_results(yaml, tmp_path):
    out = tmp_path / "out"
    done = experiment(yaml, "-o", out, "--format", "json")
    assert done.returncode == 0, done.stderr
    assert log(yaml) == ["1", "1", "2", "2"]
    assert done.stderr.splitlines()[-1] == "pasta: run 4 of 4: round 1, ranges, size=2"
    found = json.loads(done.stdout)
    assert found["facts"] == {"runs": 4, "cases": 2, "levels": 2, "rounds": 1}
    levels = pl.read_parquet(out / "results" / "levels.parquet")
    assert levels.select("case", "level", "collected", "calls").rows() == [
        (case, level, collected, calls)
        for case in ("size=1", "size=2")
        for level, collected, calls in
        [("run", "none", 1), ("step", "ranges", 2), ("annotation", "ranges", 2)]
    ]  # fmt: skip
    slept = levels.filter(level="annotation")["time_ns"].to_list()
    assert (slept[0] >= 4_000_000, slept[1] >= 8_000_000) == (True, True)
    assert all(pl.read_parquet(out / "results" / f"{name}.parquet").height for name in
               ("numbers", "overheads", "runs"))  # fmt: skip
    trace = Trace.open(out / "runs" / "002-size=2" / "02-ranges" / "001")
    assert trace.info["ended"] == "exit 0"
    printed = (out / "runs" / "002-size=2" / "01-none" / "001-output.txt").read_text()
    assert printed == "size 2\n"


def test_runs_that_are_there_are_not_made_again(yaml, tmp_path):
    out = tmp_path / "out"
    assert experiment(yaml, "-o", out).returncode == 0
    trace = out / "runs" / "001-size=1" / "02-ranges" / "001"
    (trace / "trace.json").unlink()
    planned = experiment(yaml, "-o", out, "--dry-run").stdout.splitlines()
    assert len(planned) == 1
    assert planned[0].startswith("round 1, ranges, size=1: ")
    done = experiment(yaml, "-o", out)
    assert done.returncode == 0, done.stderr
    assert log(yaml) == ["1", "1", "2", "2", "1"]
    assert done.stdout.splitlines()[-1] == f"traces and results in {out}"


def test_rounds_can_be_added(yaml, tmp_path):
    out = tmp_path / "out"
    assert experiment(yaml, "-o", out).returncode == 0
    yaml.write_text(yaml.read_text().replace("repeats: 1", "repeats: 2"))
    done = experiment(yaml, "-o", out, "--format", "html")
    assert done.returncode == 0, done.stderr
    assert len(log(yaml)) == 8
    assert done.stdout == f"{out / 'mine.html'}\n"
    assert "<title>mine</title>" in (out / "mine.html").read_text()
    overheads = pl.read_parquet(out / "results" / "overheads.parquet")
    assert set(overheads["rounds"]) == {2}
    assert overheads["low_ns"].null_count() == 0


def test_a_dry_run_makes_nothing(yaml, tmp_path):
    done = experiment(yaml, "-o", tmp_path / "out", "--dry-run")
    assert (done.returncode, len(done.stdout.splitlines())) == (0, 4)
    assert not (tmp_path / "out").exists()
    assert log(yaml) == []


def test_a_program_that_fails_stops_the_experiment(yaml, tmp_path):
    program = tmp_path / "program.py"
    program.write_text("import sys\nsys.exit(7 if sys.argv[1] == '2' else 0)\n")
    done = experiment(yaml, "-o", tmp_path / "out")
    assert done.returncode == 7
    last = done.stderr.splitlines()[-1]
    assert last.startswith("pasta: round 1, none, size=2: the program ended with exit 7")
    program.write_text(PROGRAM)
    assert experiment(yaml, "-o", tmp_path / "out").returncode == 0
    assert log(yaml) == ["2", "2"]


def test_mistakes_are_one_line(yaml, tmp_path):
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").touch()
    assert experiment(yaml, "-o", tmp_path / "out").returncode == 0
    other = tmp_path / "other.yaml"
    other.write_text(yaml.read_text().replace("size: [1, 2]", "size: [1, 3]"))
    missing = tmp_path / "missing.yaml"
    missing.write_text("version: 1\nexperiment: a\ncommand: /no/such\nlevels: [none]\n")
    for arguments, said in [
        ([yaml, "-o", tmp_path / "full"], "already exists and is not empty"),
        ([other, "-o", tmp_path / "out"], "holds runs of another experiment"),
        ([missing, "-o", tmp_path / "new"], "/no/such: no such program"),
        ([tmp_path / "none.yaml"], "cannot be read"),
        ([other, "-o", tmp_path / "out", "--dry-run"], "holds runs of another experiment"),
        ([yaml, "-o", tmp_path / "full", "--dry-run"], "already exists and is not empty"),
    ]:
        done = experiment(*arguments)
        assert (done.returncode, said in done.stderr) == (2, True), done.stderr
        assert done.stderr.splitlines()[-1].startswith("pasta: ")
        assert "Traceback" not in done.stderr


def test_two_experiments_do_not_run_in_one_folder(yaml, tmp_path):
    out = tmp_path / "out"
    with running.alone_in(out):
        done = experiment(yaml, "-o", out)
        assert (done.returncode, log(yaml)) == (2, [])
        assert done.stderr.splitlines() == [
            f"pasta: {out}: another experiment runs there; wait for its end, or choose another -o"
        ]
    assert experiment(yaml, "-o", out).returncode == 0


def test_the_copy_in_the_folder_goes_on_too(yaml, tmp_path):
    out = tmp_path / "out"
    assert experiment(yaml, "-o", out).returncode == 0
    done = experiment(out / "experiment.yaml", "-o", out)
    assert done.returncode == 0, done.stderr
    assert len(log(yaml)) == 4


@pytest.mark.parametrize("level", ["none", "ranges"])
def test_an_interrupted_run_does_not_count_though_the_program_ends_well(yaml, tmp_path, level):
    """As programs do that save their state when asked to end."""
    (tmp_path / "program.py").write_text(
        "import sys, time\n"
        "if sys.argv[1] == '1':\n"
        "    try:\n"
        "        open(sys.argv[2], 'w').write('ready')\n"
        "        time.sleep(600)\n"
        "    except KeyboardInterrupt:\n"
        "        pass\n"
    )
    yaml.write_text(yaml.read_text().replace("[none, ranges]", f"[{level}]"))
    command = [*PASTA, "experiment", "run", str(yaml), "-o", str(tmp_path / "out")]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, start_new_session=True) as it:
        while log(yaml) != ["ready"]:
            assert it.poll() is None
            time.sleep(0.01)
        it.send_signal(signal.SIGINT)
        said = it.stderr.read().splitlines()
    assert it.returncode == 128 + signal.SIGINT
    assert len(said) == 2
    assert said[-1].startswith(f"pasta: round 1, {level}, size=1: interrupted by SIGINT")
    assert len(experiment(yaml, "-o", tmp_path / "out", "--dry-run").stdout.splitlines()) == 2


def test_what_no_level_can_be_recorded_with_is_said_before_the_first_run(yaml, tmp_path):
    yaml.write_text(yaml.read_text().replace("ranges]", "rocprofv3]"))
    tools = tmp_path / "bin"
    tools.mkdir()
    done = experiment(yaml, "-o", tmp_path / "out", PATH=str(tools))
    assert (done.returncode, len(done.stderr.splitlines())) == (2, 1), done.stderr
    assert done.stderr.startswith("pasta: rocprofv3: not found")
    assert log(yaml) == []


def test_an_experiment_is_not_run_once_a_rank(yaml, tmp_path):
    done = experiment(yaml, "-o", tmp_path / "out", RANK="0", WORLD_SIZE="2")
    assert done.returncode == 2
    assert done.stderr.startswith("pasta: an experiment starts all ranks itself")
    assert not (tmp_path / "out").exists()


def test_what_cannot_be_written_is_one_line(yaml, tmp_path):
    out = tmp_path / "out"
    out.mkdir()
    (out / "experiment.yaml").write_text(yaml.read_text())
    (out / "runs").touch()
    done = experiment(yaml, "-o", out)
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1].startswith(f"pasta: {out / 'runs'}")
    assert done.stderr.splitlines()[-1].endswith("Not a directory")


def test_a_trace_that_was_not_written_whole_is_no_run(yaml, tmp_path, monkeypatch):
    def fails(_command, folder, *_rest):
        folder.mkdir()
        return Recorded(folder, End(0), failure="no room")

    monkeypatch.setattr(running, "record_command", fails)
    runs = [run for run in read_experiment(yaml).runs() if run.level.chosen is not None]
    with pytest.raises(TraceError, match="round 1, ranges, size=1: no room"):
        running.make_runs(runs, tmp_path / "out", print)
    assert not (tmp_path / "out" / "runs" / runs[0].folder).exists()


@pytest.mark.torch
def test_the_example_reaches_operators(tmp_path):
    pytest.importorskip("torch", reason="PyTorch is not installed: pip install torch")
    text = (ROOT / "examples" / "levels.yaml").read_text()
    text = text.replace("python examples", f"{sys.executable} {ROOT / 'examples'}")
    text = text.replace("[1, 8]", "[1]").replace("repeats: 5", "repeats: 1")
    (tmp_path / "e.yaml").write_text(text)
    done = experiment(tmp_path / "e.yaml", "-o", tmp_path / "out")
    assert done.returncode == 0, done.stderr
    levels = pl.read_parquet(tmp_path / "out" / "results" / "levels.parquet")
    assert dict(levels.select("level", "collected").iter_rows()) == {
        "run": "none",
        "step": "ranges",
        "annotation": "ranges",
        "phase": "torch:operators",
        "module": "torch:operators",
        "operator": "torch:operators",
    }
