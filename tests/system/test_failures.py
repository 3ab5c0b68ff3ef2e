"""What becomes of the programs of other hosts where one fails, is lost, or never begins."""

from __future__ import annotations

import os
import random
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from pasta.cli_system import run as command_line
from pasta.collect.runs import FOLDER
from pasta.errors import CollectError
from pasta.system import coordinator
from pasta.system import run as runs
from pasta.system.graph import Entity, Node, System
from pasta.system.member import Member
from pasta.system.messages import Connection
from pasta.system.run import SENT, Outcome, Request, run_system
from pasta.trace import Trace
from tests.collect.recorded_programs import WRITTEN
from tests.system.test_run import run, spans
from tests.trace_join.two_runs import memory_run, program, timeline_run

WAITS = f"""{WRITTEN}
ME = os.environ["PASTA_ENTITY"]
if ME == "head":
    with pasta.annotate("of head"):
        pass
    wait_until_written()
    open("head.began", "w").close()
    time.sleep(600)
while not os.path.exists("head.began"):
    time.sleep(0.01)
"""
TWO = "  head: {}\n  far: {}\n"


def test_where_one_program_fails_the_others_are_ended_and_kept(tmp_path):
    done = run(tmp_path, TWO, program=WAITS + "sys.exit(3)")
    assert done.returncode == 3
    assert "head: the program ended with signal 15 (SIGTERM)" in done.stderr
    assert "far failed first; programs that still ran were ended" in done.stderr
    assert spans(tmp_path) == [(0, "of head")]


def test_where_one_host_is_lost_the_others_are_ended_and_kept(tmp_path):
    done = run(tmp_path, TWO, program=WAITS + "os.kill(os.getppid(), 9)")
    assert done.returncode == 1
    assert "far: connection lost; its trace is not here" in done.stderr
    assert "head: the program ended with signal 15 (SIGTERM)" in done.stderr
    assert spans(tmp_path) == [(0, "of head")]


def test_the_others_go_on_where_that_is_wanted(tmp_path):
    known = f"t/{SENT}/far"  # where its trace is put, when the end of its program is known
    goes_on = f"while not os.path.exists({known!r}): time.sleep(0.01)\n    sys.exit(5)"
    program = WAITS.replace("time.sleep(600)", goes_on) + "sys.exit(3)"
    done = run(tmp_path, TWO, "--keep-going", program=program)
    assert done.returncode == 3  # the first in time, not the first in the file
    assert "head: the program ended with exit 5" in done.stderr
    assert "were ended" not in done.stderr


def request(*command: str) -> Request:
    defaults = command_line.make_context("run", ["system.yaml", "-o", "t"]).params
    left = ("source", "out", "address", "wait", "keep_going", "command", "live")
    options = {name: value for name, value in defaults.items() if name not in left}
    options["collectors"] = ("torch:operators",)
    return Request(System((Entity("head"), Entity("far"))), command, options)


def test_a_program_that_does_not_end_when_it_is_asked_to_is_killed(tmp_path, monkeypatch):
    monkeypatch.setattr(coordinator, "_KILL_SECONDS", 0.5)
    deaf = "trap '' TERM; touch deaf; while :; do sleep 0.1; done"
    fails = "while [ ! -e deaf ]; do sleep 0.1; done; exit 4"
    script = f'if [ "$PASTA_ENTITY" = head ]; then {deaf}; fi; {fails}'
    monkeypatch.chdir(tmp_path)
    outcome = run_system(request("sh", "-c", script), tmp_path / "t", print)
    assert outcome.exit_code == 4
    assert "head: the program ended with signal 9 (SIGKILL)" in outcome.lines


def launched(told: Path) -> bool:
    """Whether a launcher has written its process id, to the end of the line."""
    return told.exists() and told.read_text().endswith("\n")


def test_a_program_that_ends_while_it_is_killed_is_no_failure(monkeypatch):
    with subprocess.Popen(["true"]) as program:
        looks = [os.pidfd_open(program.pid), None]
    handle = looks[0]
    monkeypatch.setattr(Member, "_program", property(lambda _: looks.pop(0)), raising=False)
    Member.__new__(Member)._kill()
    os.close(handle)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interruption_before_the_programs_begin_ends_all(tmp_path, number):
    slow = "{launch: \"sh -c 'echo $$ > slow; exec sleep 100'\"}"
    (tmp_path / "system.yaml").write_text(f"version: 1\nentities:\n  head: {{}}\n  far: {slow}\n")
    command = [sys.executable, "-m", "pasta", "system", "run", "system.yaml", "-o", "t"]
    command += ["--with", "torch:operators", "--", "touch", "began"]
    with subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True) as process:
        until = time.monotonic() + 300
        while not launched(tmp_path / "slow") and time.monotonic() < until:
            time.sleep(0.05)
        time.sleep(1)
        process.send_signal(number)
        assert process.wait(300) == 2
        assert "interrupted before the programs began" in process.stderr.read()
    assert not (tmp_path / "began").exists()
    assert not Path("/proc", (tmp_path / "slow").read_text().strip()).exists()


def test_a_connection_notices_that_the_other_end_is_silent():
    ends = socket.create_server(("127.0.0.1", 0))
    here = socket.create_connection(ends.getsockname())
    connection = Connection(here, "far")
    try:
        assert here.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
        asked = [socket.TCP_KEEPIDLE, socket.TCP_KEEPINTVL, socket.TCP_KEEPCNT]
        idle, every, most = (here.getsockopt(socket.IPPROTO_TCP, each) for each in asked)
        assert idle + every * most <= 60
    finally:
        connection.close()
        ends.close()


def two_recordings(monkeypatch, fails=""):
    """Have runs make traces of a program with kernels; return what each was to record."""
    made, told = program(random.Random(7), launches=10), []

    def once(_request, chosen, out):
        told.append((out.name, [sorted(each) for each in chosen]))
        {"timeline": timeline_run, "memory": memory_run}[out.name](out, made)
        return Outcome([f"recorded {out.name}"], 6 if out.name == fails else 0)

    monkeypatch.setattr(runs, "_run_once", once)
    return told


def asked(first: str, second: str) -> Request:
    nodes = [Node("gpu0", "gpu", collectors=first), Node("gpu0", "gpu", collectors=second)]
    entities = (Entity("head", nodes=(nodes[0],)), Entity("far", nodes=(nodes[1],)))
    return Request(System(entities), ["program"], {"collectors": ()})


def test_a_timeline_and_memory_are_two_runs_of_all_hosts(tmp_path, monkeypatch):
    told = two_recordings(monkeypatch)
    said: list[str] = []
    outcome = run_system(asked("cuda,cuda.memory,nvml", "cuda"), tmp_path / "t", said.append)
    assert told == [("timeline", [["cuda", "nvml"], ["cuda"]]), ("memory", [["cuda.memory"], []])]
    assert said == ["run 1 of 2: timeline", "run 2 of 2: memory"]
    assert outcome.exit_code == 0
    assert outcome.lines[-1].startswith(f"the runs are joined in {tmp_path / 't'} (")
    joined = Trace.open(tmp_path / "t")
    assert {"kernel", "touch"} <= set(joined.tables())
    assert (tmp_path / "t" / FOLDER / "memory" / "trace.json").exists()


def test_where_the_first_run_fails_there_is_no_second(tmp_path, monkeypatch):
    told = two_recordings(monkeypatch, fails="timeline")
    outcome = run_system(asked("cuda,cuda.memory", "cuda"), tmp_path / "t", print)
    assert [name for name, _ in told] == ["timeline"]
    assert outcome.exit_code == 6
    assert outcome.lines[-1] == "the timeline run failed, nothing was joined"


def test_counters_take_a_run_that_is_joined_with_no_other(tmp_path, monkeypatch):
    two_recordings(monkeypatch)
    with pytest.raises(CollectError, match=r"cuda\.counters: takes a run of its own"):
        run_system(asked("cuda,cuda.counters", "cuda"), tmp_path / "t", print)


def test_a_collector_of_another_host_that_fits_no_run_is_not_left_out_silently(tmp_path):
    with pytest.raises(CollectError, match=r"far: cuda\.counters takes a run of its own"):
        run_system(asked("cuda,cuda.memory", "cuda.counters"), tmp_path / "t", print)


HOST = """
import io, json, socket, sys, tarfile, time
token, (mode, address, name) = sys.stdin.readline().strip(), (sys.argv[1], *sys.argv[-2:])
host, port = address.rsplit(":", 1)
stream = socket.create_connection((host, int(port)))
def tell(**message):
    stream.sendall(json.dumps(message).encode() + b"\\n")
tell(name=name, token=token, nodes=None)
asked = 0
for line in stream.makefile("rb"):
    message = json.loads(line)
    if "ask" in message:
        if mode == "silent":
            open("asked", "w").close()
            continue
        asked += 1
        tell(time=time.monotonic_ns())
        if asked == 100:
            tell(ready=True)
    elif "go" in message:
        tell(ended="exit 0", code=None if mode == "senseless" else 0)
    elif "take" in message:
        file = io.BytesIO()
        with tarfile.open(fileobj=file, mode="w") as archive:
            large = tarfile.TarInfo("large")
            large.size = 100_000
            archive.addfile(large, io.BytesIO(bytes(large.size)))
        tell(trace=True)
        stream.sendall(file.getvalue()[:20_000])
        break
"""


def with_odd_host(folder: Path, mode: str) -> str:
    (folder / "host.py").write_text(HOST)
    return f"  head: {{}}\n  far: {{pasta: ['{sys.executable}', host.py, {mode}]}}\n"


@pytest.mark.parametrize("mode", ["half", "senseless"])
def test_a_host_that_sends_half_a_trace_or_what_is_no_answer_is_lost_alone(tmp_path, mode):
    done = run(tmp_path, with_odd_host(tmp_path, mode), program="import pasta")
    assert done.returncode == 1
    assert "; its trace is not here" in done.stderr
    assert "Traceback" not in done.stderr
    assert f"pasta: trace in {Path('t')} (" in done.stderr
    assert not (tmp_path / "t" / "entities").exists()


def test_an_interruption_does_not_wait_for_a_host_that_says_nothing(tmp_path):
    entities = with_odd_host(tmp_path, "silent")
    (tmp_path / "system.yaml").write_text(f"version: 1\nentities:\n{entities}")
    command = [sys.executable, "-m", "pasta", "system", "run", "system.yaml", "-o", "t"]
    command += ["--with", "torch:operators", "--", "true"]
    with subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True) as process:
        until = time.monotonic() + 300
        while not (tmp_path / "asked").exists() and time.monotonic() < until:
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        try:
            assert process.wait(300) == 2
        finally:
            process.kill()
        assert "interrupted before the programs began" in process.stderr.read()


@pytest.mark.parametrize(
    "greeting", ['{"name": "head", "token": "\u00e9"}'.encode(), b"[" * 200_000]
)
def test_who_is_no_host_of_the_run_does_not_end_it(tmp_path, greeting):
    asking = coordinator.Coordinator(System((Entity("head"),)), {}, tmp_path, wait_seconds=1)
    host, port = asking._address.split(":")
    try:
        with socket.create_connection((host, int(port))) as stranger:
            stranger.sendall(greeting + b"\n")
            with pytest.raises(CollectError, match="head: no answer within 1 s"):
                asking._await_all()
    finally:
        asking._close()
