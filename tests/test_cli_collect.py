from __future__ import annotations

import json
import os
import pty
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import polars as pl
import pytest
from click.testing import CliRunner

from pasta.cli_collect import collect, control, selection
from pasta.collect.channel import SHARED_MEMORY
from pasta.errors import PastaError
from pasta.trace import Trace
from tests.collect.recorded_programs import ANNOTATES, ROOT, WRITTEN, annotations, python, table

PASTA = [sys.executable, "-m", "pasta"]
# Says that it runs and is recorded, then ends when it is told to.
WAITS = WRITTEN + (
    "with pasta.annotate('before'): pass\n"
    "wait_until_written()\n"
    "print('ready', flush=True)\n"
    "sys.exit(int(sys.stdin.readline()))\n"
)


@pytest.fixture(autouse=True)
def _pasta_in_programs(monkeypatch):
    """Programs find this pasta, whether it is installed or not, and think of no launcher."""
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def out(tmp_path):
    return tmp_path / "a trace"


def collected(
    out: Path, command: list[str], *options: str, **settings
) -> subprocess.CompletedProcess:
    arguments = [*PASTA, "collect", *options, "-o", str(out), "--", *command]
    return subprocess.run(arguments, capture_output=True, text=True, check=False, **settings)


def channels_of(pid: int) -> list[Path]:
    return list(SHARED_MEMORY.glob(f"pasta-{pid}-*"))


def wait_until(condition) -> None:
    for _ in range(30_000):
        if condition():
            return
        time.sleep(0.01)
    raise AssertionError("it did not happen")


def test_the_programs_output_input_and_code_are_its_own(out):
    source = """
    import json, sys, pasta
    with pasta.annotate("a"):
        print(json.dumps(sys.argv[1:]), input())
    print("to the error stream", file=sys.stderr)
    sys.exit(3)
    """
    words = ["a b", "", "*", "$HOME", "'\"", "line\nline", "-o", "--with", "--", "x"]
    done = collected(out, python(source, *words), input="typed\n")
    assert done.stdout == f"{json.dumps(words)} typed\n"
    first, second, *rest = done.stderr.splitlines()
    assert first == "to the error stream"
    assert second.startswith(f"pasta: the program ended with exit 3; trace in {out} (process 1,")
    assert rest == []
    assert done.returncode == 3
    assert annotations(Trace.open(out)) == ["a"]


def test_a_killed_program_is_told_as_by_a_shell_and_its_trace_is_complete(out):
    source = WRITTEN + (
        "with pasta.annotate('before'): pass\n"
        "wait_until_written()\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    done = collected(out, python(source))
    assert done.returncode == 137
    trace = Trace.open(out)
    assert trace.info["ended"] == "signal 9 (SIGKILL)"
    assert annotations(trace) == ["before"]
    assert table(trace, "process")["exit_code"].to_list() == [-9]


def test_a_missing_program_is_one_line(out):
    done = collected(out, ["no-such-program"])
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.count("\n") == 1
    assert "no-such-program: no such program" in done.stderr
    assert not out.exists()


def test_a_program_that_could_not_be_recorded_is_told(out):
    done = collected(out, ["sh", "-c", "echo ran"])
    assert (done.returncode, done.stdout) == (0, "ran\n")
    assert "nothing was recorded in it" in done.stderr.splitlines()[-1]


def start(out: Path, command: list[str], *options: str) -> subprocess.Popen:
    return subprocess.Popen(
        [*PASTA, "collect", *options, "-o", str(out), "--", *command],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)], ids=["term", "int"]
)
def test_a_signal_to_pasta_ends_the_program_and_the_trace_is_written(out, number, code):
    with start(out, python(WAITS)) as pasta:
        assert pasta.stdout.readline() == "ready\n"
        pasta.send_signal(number)
        errors = pasta.stderr.read()  # not communicate: it would end the program's input
        assert pasta.wait() == code
    assert errors.splitlines()[-1].startswith(f"pasta: the program ended with signal {int(number)}")
    trace = Trace.open(out)
    assert trace.info["state"] == "complete"
    assert annotations(trace) == ["before"]
    assert channels_of(pasta.pid) == []


def test_ctrl_c_reaches_the_program_once_and_the_trace_is_written(out):
    source = WRITTEN + (
        "times = []\n"
        "signal.signal(signal.SIGINT, lambda *_: times.append(1))\n"
        "with pasta.annotate('before'): pass\n"
        "print('ready', flush=True)\n"
        "while not times: time.sleep(0.01)\n"
        "time.sleep(0.3)\n"
        "print('interrupted', len(times), flush=True)\n"
    )
    pid, terminal = pty.fork()
    if pid == 0:
        arguments = [*PASTA, "collect", "-o", str(out), "--", *python(source)]
        os.execv(arguments[0], arguments)
    shown, pressed = b"", False
    while True:
        try:
            shown += os.read(terminal, 4096)
        except OSError:  # how Linux tells that nobody is there any more
            break
        if b"ready" in shown and not pressed:
            pressed = True
            os.write(terminal, b"\x03")
    _, status = os.waitpid(pid, 0)
    os.close(terminal)
    assert b"interrupted 1" in shown
    assert b"Traceback" not in shown
    assert os.waitstatus_to_exitcode(status) == 0
    trace = Trace.open(out)
    assert (trace.info["state"], trace.info["ended"]) == ("complete", "exit 0")
    assert annotations(trace) == ["before"]


def test_a_program_outlives_pasta_and_shared_memory_is_clean(out, tmp_path):
    code = tmp_path / "code"
    told = f"{sys.executable} -c {quoted(WAITS)}; echo $? > {quoted(str(code))}"
    with start(out, ["sh", "-c", told]) as pasta:
        assert pasta.stdout.readline() == "ready\n"
        assert channels_of(pasta.pid)
        pasta.kill()
        pasta.wait()
        wait_until(lambda: not channels_of(pasta.pid))
        pasta.stdin.write("7\n")
        pasta.stdin.flush()
        wait_until(lambda: code.exists() and code.read_text())
    assert code.read_text() == "7\n"
    wait_until(lambda: Trace.open(out).info["state"] == "complete")  # by the channel's guard


def quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"


def in_own_mounts(script: str) -> list[str]:
    """A command in a mount namespace of its own; skips the test where that is not allowed."""
    if shutil.which("unshare") is None:
        pytest.skip("no unshare")
    probe = "mount -t tmpfs tmpfs /dev/shm"
    if subprocess.run(
        ["unshare", "-m", "sh", "-c", probe], capture_output=True, check=False
    ).returncode:
        pytest.skip("mounts need root")
    return ["unshare", "-m", "sh", "-c", script, "sh"]


def test_shared_memory_without_room_is_one_line_before_the_program_starts(out, tmp_path):
    script = 'mount -t tmpfs -o size=1m tmpfs /dev/shm && exec "$@"'
    ran = tmp_path / "ran"
    arguments = [*PASTA, "collect", "-o", str(out), "--", "touch", str(ran)]
    done = subprocess.run(
        [*in_own_mounts(script), *arguments], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert re.fullmatch(r"\S*pasta: /dev/shm: .* are free, .*\n", done.stderr)
    assert not ran.exists()
    assert not out.exists()


def test_processes_that_find_no_room_run_unrecorded_and_are_counted(out):
    script = 'mount -t tmpfs -o size=12m tmpfs /dev/shm && exec "$@"'
    child = WRITTEN + "with pasta.annotate('child'): pass\n"
    source = WRITTEN + (
        "with pasta.annotate('parent'): pass\n"
        f"subprocess.run([sys.executable, '-c', {child!r}], check=True)\n"
        "print('both ran')\n"
    )
    arguments = [*PASTA, "collect", "-o", str(out), "--", *python(source)]
    done = subprocess.run(
        [*in_own_mounts(script), *arguments], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (0, "both ran\n")
    trace = Trace.open(out)
    assert annotations(trace) == ["parent"]
    parent = table(trace, "span")["pid"][0]
    lost = table(trace, "loss").filter(pl.col("pid") != parent)
    assert lost["count"].sum() >= 3  # its run, step and annotation


def test_a_full_disk_does_not_stop_the_program_and_is_told(tmp_path):
    disk = tmp_path / "disk"
    disk.mkdir()
    script = f'mount -t tmpfs -o size=400k tmpfs {quoted(str(disk))} && exec "$@"'
    source = """
    import pasta, random
    for _ in range(60_000):
        with pasta.annotate(str(random.random())):
            pass
    print("ran")
    """
    arguments = [*PASTA, "collect", "-o", str(disk / "t"), "--", *python(source)]
    done = subprocess.run(
        [*in_own_mounts(script), *arguments], capture_output=True, text=True, check=False
    )
    assert done.stdout == "ran\n"
    assert done.returncode == 1
    last = done.stderr.splitlines()[-1]
    assert last.startswith(f"pasta: {disk / 't'}: incomplete, as it could not be written on")
    assert "No space left" in last
    assert "Traceback" not in done.stderr


def test_the_launchers_of_two_ranks_write_one_trace(out):
    """As under srun: each rank's launcher is started by one parent, this process."""
    launchers = [
        subprocess.Popen(
            [*PASTA, "collect", "-o", str(out), "--", *python(ANNOTATES, f"rank {rank}")],
            env={**os.environ, "RANK": str(rank), "WORLD_SIZE": "2"},
        )
        for rank in range(2)
    ]
    assert [launcher.wait() for launcher in launchers] == [0, 0]
    trace = Trace.open(out)
    assert (trace.info["state"], trace.info["ended"]) == ("complete", "exit 0")
    assert trace.info["ranks"] == [0, 1]
    spans = table(trace, "span").filter(pl.col("level") == "annotation")
    assert sorted(spans.select("rank", "name").rows()) == [(0, "rank 0"), (1, "rank 1")]
    processes = table(trace, "process").sort("rank")
    assert processes["world_size"].to_list() == [2, 2]
    assert processes["exit_code"].to_list() == [0, 0]


def asked(*arguments: str) -> str:
    done = subprocess.run(
        [*PASTA, "control", *arguments], capture_output=True, text=True, check=True
    )
    return done.stdout


def told(pid: str) -> dict[str, str]:
    """Return what `pasta control PID status` says."""
    return dict(line.split(": ", 1) for line in asked(pid, "status").splitlines())


def test_a_running_program_is_told_to_record_and_to_stop(out):
    source = WRITTEN + (
        "print(os.getpid(), flush=True)\n"
        "for line in sys.stdin:\n"
        "    wanted, name = line.split()\n"
        "    while session().recording != (wanted == 'on'): time.sleep(0.01)\n"
        "    for number in range(3):\n"
        "        with pasta.annotate(f'{name} {number}'): pass\n"
        "        pasta.step()\n"
        "    print('done', flush=True)\n"
    )
    with start(out, python(source), "--idle") as pasta:
        pid = pasta.stdout.readline().strip()

        def run(line: str) -> None:
            pasta.stdin.write(line + "\n")
            pasta.stdin.flush()
            assert pasta.stdout.readline() == "done\n"

        run("off idle")
        assert asked(pid, "start") == f"asked process {pid} to start recording\n"
        run("on started")
        asked(str(pasta.pid), "stop")
        run("off stopped")
        assert "2 steps" in asked(pid, "start", "--steps", "2")
        run("on again")
        run("off over")
        status = told(pid)
        until = time.monotonic() + 300
        while status["processes"] == "0" and time.monotonic() < until:  # it is written each second
            time.sleep(0.1)
            status = told(pid)
        pasta.stdin.close()
        errors = pasta.stderr.read()
    assert pasta.returncode == 0, errors
    assert status["path"] == str(out)
    assert status["processes"] == "1"
    # The first call of `step` begins a step, as does each later one.
    expected = [f"started {number}" for number in range(3)] + ["again 0", "again 1"]
    assert annotations(Trace.open(out)) == expected


def test_control_of_no_recording_is_one_line():
    with pytest.raises(PastaError, match="process 1: no recording of it runs here"):
        CliRunner().invoke(control, ["1", "start"], catch_exceptions=False)
    with pytest.raises(PastaError, match="--steps goes with start"):
        CliRunner().invoke(control, ["1", "stop", "--steps", "2"], catch_exceptions=False)


NOTHING_SELECTED = {
    "steps": None,
    "seconds": None,
    "match": None,
    "max_bytes": None,
    "idle": False,
    "serialize": False,
    "stacks": False,
    "cycle_seconds": None,
    "counters": None,
    "ranges": (),
    "period_seconds": 0.1,
    "granularity": None,
    "block": None,
    "launches": "",
    "blocks": "",
    "records": "written",
    "all_spaces": False,
    "tensor_loads": "",
    "switch_patches": False,
    "instructions": False,
    "events": False,
    "within": "",
    "serial": False,
    "device_memory": None,
    "frequency": 99,
    "sampled_events": (),
    "python_frames": False,
    "native": False,
    "gil": False,
    "idle_threads": False,
    "probes": (),
    "slow_probes": False,
}


@pytest.mark.parametrize(
    ("option", "text", "value"),
    [
        ("steps", "3:5", (3, 5, 1)),
        ("steps", "3:", (3, None, 1)),
        ("steps", ":5", (0, 5, 1)),
        ("steps", "0::100", (0, None, 100)),
        ("steps", "7:7:2", (7, 7, 2)),
        ("max_bytes", "500", 500),
        ("max_bytes", "3k", 3 << 10),
        ("max_bytes", "500M", 500 << 20),
        ("max_bytes", "2GiB", 2 << 30),
        ("match", "aten::(mm|addmm)", "aten::(mm|addmm)"),
        ("counters", "a.sum, b.avg,", ("a.sum", "b.avg")),
    ],
)
def test_what_options_select(option, text, value):
    chosen = selection({**NOTHING_SELECTED, option: text})
    assert getattr(chosen, option) == value


def test_what_is_to_become_of_records_is_told_the_memory_collector_alone():
    chosen = selection({**NOTHING_SELECTED, "records": "counted"})
    assert chosen.in_collector("cuda.memory") == {"records": "counted"}
    assert chosen.in_collector("cuda") == {}


@pytest.mark.parametrize(
    ("option", "text", "message"),
    [
        ("steps", "3", "expected FIRST:LAST"),
        ("steps", "5:3", "selects no step"),
        ("steps", "0:5:0", "selects no step"),
        ("steps", "-1:5", "expected FIRST:LAST"),
        ("max_bytes", "much", "expected a size"),
        ("max_bytes", "5X", "expected a size"),
        ("match", "(", "no regular expression"),
        ("match", "(?<=a)b", "no regular expression"),
    ],
)
def test_options_that_select_nothing_are_one_line(option, text, message):
    with pytest.raises(PastaError, match=message) as caught:
        selection({**NOTHING_SELECTED, option: text})
    assert f"--{option.replace('_', '-')} {text}" in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("option", [["--counters", "a.sum"], ["--nvtx-include", "step/"]])
def test_options_of_a_collector_that_does_not_run_are_refused(tmp_path, option):
    done = CliRunner().invoke(collect, [*option, "-o", str(tmp_path / "t"), "--", "true"])
    assert str(done.exception) == f"{option[0]} goes with --with cuda.counters"
    assert not list(tmp_path.iterdir())


def test_a_command_is_required():
    done = CliRunner().invoke(collect, ["-o", "t", "--"])
    assert done.exit_code == 2
    assert "COMMAND" in done.output


@pytest.mark.parametrize("world_size", ["1", "2"])
def test_a_trace_that_cannot_be_made_is_told(tmp_path, monkeypatch, world_size):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setenv("WORLD_SIZE", world_size)
    done = collected(tmp_path / "file" / "t", ["true"])
    assert done.returncode == 2
    assert done.stderr.endswith("file/t: cannot be made (Not a directory); choose another -o\n")
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("option", "value"),
    [("--seconds", "nan"), ("--seconds", "inf"), ("--period", "nan"), ("--cycle", "inf")],
)
def test_a_time_that_is_no_number_is_refused(tmp_path, option, value):
    refused = CliRunner().invoke(collect, [option, value, "-o", str(tmp_path / "t"), "--", "true"])
    assert refused.exit_code == 2
    assert f"Invalid value for '{option}': {value} is no number of seconds" in refused.output
    assert not (tmp_path / "t").exists()


def test_a_command_with_a_name_that_is_no_utf8_is_recorded(out):
    done = collected(out, python("import pasta\nwith pasta.annotate('x'): pass", "\udcff.bin"))
    assert done.returncode == 0
    trace = Trace.open(out)
    assert trace.info["state"] == "complete"
    assert str(trace.info["command"]).endswith("'?.bin'")
    assert "x" in set(table(trace, "span")["name"])
