"""Running programs under a vendor's tool: the command line, what is refused, what is kept."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from pasta.collect.collectors import COLLECTORS, collectors_for
from pasta.collect.counters import Focus
from pasta.collect.recording import record_command
from pasta.collect.selection import Selection
from pasta.collect.wrappers import WRAPPERS, wrapper_of
from pasta.errors import CollectError
from pasta.trace import Trace
from tests.collect.recorded_programs import ROOT, losses
from tests.collect.wrapped_programs import install, without

ODD = ["two words", "", "$HOME", "*", 'quote\'d "twice"', "--output=x", "--", "back\\slash\n"]
PRINT = ["sh", "-c", 'printf "%s\\0" "$@"', "sh"]


@pytest.fixture(autouse=True)
def _no_launcher(monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK"):
        monkeypatch.delenv(name, raising=False)


def collect(*arguments, **options):
    """`pasta collect` in a process of its own."""
    command = [sys.executable, "-m", "pasta", "collect", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, timeout=300, check=False, **options)


def test_each_wrapper_is_a_collector_that_no_tool_chooses_by_itself():
    assert set(WRAPPERS) == {"nsys", "rocprofv3", "cuda.counters"}
    for name in WRAPPERS:
        assert COLLECTORS[name].by_name_only
        assert COLLECTORS[name].outside
    assert not collectors_for(["kernel"], []).keys() & WRAPPERS.keys()


def test_nsys_is_told_what_needs_no_privileges():
    command = WRAPPERS["nsys"].around(["./a.out", "x y"], Path("/t/100%/nsys"), Focus())
    assert command[:2] == ["nsys", "profile"]
    assert command[-2:] == ["./a.out", "x y"]
    assert set(command[2:-2]) == {
        "--output=/t/100%%/nsys/report",
        "--export=sqlite",
        "--trace=cuda,nvtx,osrt",
        "--sample=none",
        "--cpuctxsw=none",
        "--show-output=true",
        "--stats=false",
    }


def test_rocprofv3_names_a_file_for_each_process():
    command = WRAPPERS["rocprofv3"].around(["./a.out", "x y"], Path("/t/rocprofv3"), Focus())
    assert command == [
        *("rocprofv3", "--runtime-trace", "--output-format", "json"),
        *("--output-directory", "/t/rocprofv3", "--", "./a.out", "x y"),
    ]


@pytest.mark.parametrize(
    ("name", "program", "product"),
    [
        ("nsys", "nsys", "Nsight Systems"),
        ("rocprofv3", "rocprofv3", "ROCm"),
        ("cuda.counters", "ncu", "Nsight Compute"),
    ],
)
def test_an_absent_tool_is_one_line_before_anything_runs(
    tmp_path, monkeypatch, name, program, product
):
    without(monkeypatch, program)
    done = collect("--with", name, "-o", tmp_path / "t", "--", "touch", tmp_path / "ran")
    assert (done.returncode, done.stdout) == (2, b"")
    assert done.stderr.decode() == (
        f"pasta: {program}: not found; install {product} or put it on PATH,"
        f" or leave out --with {name}\n"
    )
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("other", "level"),
    [
        ("torch", "timeline"),
        ("cuda", "kernels"),
        ("rocprofv3", "runtime"),
        ("cuda.counters", "stalls"),
    ],
)
def test_two_that_record_devices_are_refused(monkeypatch, tmp_path, other, level):
    for wrapper in WRAPPERS.values():
        install(monkeypatch, tmp_path, wrapper.program)
    with pytest.raises(CollectError) as error:
        wrapper_of({"nsys": "report", other: level})
    assert str(error.value) == (
        f"--with nsys: {other}:{level} records devices too, and CUPTI serves one of them at a"
        " time; leave out one"
    )


def test_others_may_record_beside_it(monkeypatch, tmp_path):
    install(monkeypatch, tmp_path, "nsys")
    assert wrapper_of({"torch": "operators"}) is None
    for level in ("operators", "touch"):
        assert wrapper_of({"torch": level, "nsys": "report"}) is WRAPPERS["nsys"]
    assert wrapper_of({"nvml": "samples", "nsys": "report"}) is WRAPPERS["nsys"]


@pytest.mark.parametrize("name", sorted(WRAPPERS))
def test_arguments_streams_and_the_exit_code_are_the_programs_own(tmp_path, monkeypatch, name):
    noted = install(monkeypatch, tmp_path / "bin", WRAPPERS[name].program)
    out = tmp_path / "my 100% trace"
    command = ["sh", "-c", 'cat; echo complaint >&2; printf "%s\\0" "$@"; exit 3', "sh", *ODD]
    done = collect("--with", name, "-o", out, "--", *command, input=b"typed\n")
    assert done.returncode == 3
    assert done.stdout == b"typed\n" + b"".join(text.encode() + b"\0" for text in ODD)
    first, *rest = done.stderr.decode().splitlines()
    assert first == "complaint"
    assert json.loads(noted.read_text())[-len(command) :] == command
    assert (out / name).is_dir()
    assert rest[1:] == [f"pasta: {name}: left no {WRAPPERS[name].files} in {out / name}"]
    trace = Trace.open(out)
    assert trace.info["ended"] == "exit 3"
    assert losses(trace) == {"the tool left no file to import": 1}


def test_a_tool_that_fails_before_it_runs_the_program_tells_its_own_code(tmp_path, monkeypatch):
    bin_folder = tmp_path / "bin"
    install(monkeypatch, bin_folder, "nsys")
    (bin_folder / "nsys").write_text("#!/bin/sh\necho unrecognised option >&2\nexit 7\n")
    done = collect("--with", "nsys", "-o", tmp_path / "t", "--", "touch", tmp_path / "ran")
    assert done.returncode == 7
    assert done.stderr.decode().splitlines()[0] == "unrecognised option"
    assert "left no *.sqlite" in done.stderr.decode()
    assert not (tmp_path / "ran").exists()
    assert Trace.open(tmp_path / "t").info["ended"] == "exit 7"


def test_signals_reach_the_tool(tmp_path, monkeypatch):
    bin_folder = tmp_path / "bin"
    install(monkeypatch, bin_folder, "rocprofv3")
    # As the real one does, this stand-in becomes the program.
    (bin_folder / "rocprofv3").write_text(
        '#!/bin/sh\nwhile [ "$1" != -- ]; do shift; done; shift; exec "$@"\n'
    )
    source = "import os, time; print(os.getpid(), flush=True); time.sleep(600)"
    command = [sys.executable, "-m", "pasta", "collect", "--with", "rocprofv3", "-o"]
    running = subprocess.Popen(
        [*command, tmp_path / "t", "--", sys.executable, "-c", source],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True,
    )  # fmt: skip
    assert running.stdout is not None
    program = int(running.stdout.readline())
    os.kill(running.pid, signal.SIGTERM)
    running.communicate(timeout=120)
    assert running.returncode == 128 + signal.SIGTERM
    with pytest.raises(ProcessLookupError):
        os.kill(program, 0)
    assert Trace.open(tmp_path / "t").info["ended"] == "signal 15 (SIGTERM)"


def test_ranks_of_one_program_have_a_folder_each(tmp_path, monkeypatch):
    install(monkeypatch, tmp_path / "bin", "nsys", "output.with_suffix('.sqlite').write_text('x')")
    for rank in range(2):
        for name, value in {"RANK": rank, "WORLD_SIZE": 2, "PASTA_RUN": "r"}.items():
            monkeypatch.setenv(name, str(value))
        record_command(["true"], tmp_path / "t", {"nsys": "report"}, Selection())
    found = sorted(str(p.relative_to(tmp_path / "t")) for p in (tmp_path / "t").rglob("*.sqlite"))
    assert found == [f"rank-0000{rank}/nsys/report.sqlite" for rank in range(2)]
    assert Trace.open(tmp_path / "t").info["state"] == "complete"
