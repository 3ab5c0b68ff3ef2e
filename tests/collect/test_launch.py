from __future__ import annotations

import os
import pty
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pasta.collect.launch import End, Program, check_command
from pasta.errors import CollectError

LAUNCHER = """
import os, sys, time
from pasta.collect.launch import Program
from pasta.errors import PastaError
try:
    with Program(sys.argv[1:], dict(os.environ)) as program:
        while (end := program.ended()) is None:
            time.sleep(0.005)
except PastaError as error:
    sys.exit(str(error))
print(end, file=sys.stderr)
sys.exit(end.shell_code)
"""
# Says when it is ready, then counts the signals that it gets until it is told to end.
COUNTER = """
import os, signal, sys, time
counts = {}
def count(number, frame):
    counts[number] = counts.get(number, 0) + 1
for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2):
    signal.signal(number, count)
print("ready", flush=True)
while sum(counts.values()) < int(sys.argv[1]):
    time.sleep(0.005)
time.sleep(0.3)  # for what comes once too often
print({signal.Signals(number).name: times for number, times in counts.items()}, flush=True)
"""


def launch(*command: str, **options) -> subprocess.CompletedProcess:
    arguments = [sys.executable, "-c", LAUNCHER, *command]
    return subprocess.run(arguments, capture_output=True, check=False, **options)


def end_of(program: Program) -> End:
    for _ in range(60_000):
        end = program.ended()
        if end is not None:
            return end
        time.sleep(0.005)
    raise AssertionError("the program did not end")


words = st.text(
    st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=20
) | st.sampled_from(["", " ", "*", "$HOME", "'", '"', "\\", "a b", "\n", "-o", "--", "~", "`x`"])


@settings(max_examples=30, deadline=None)
@given(arguments=st.lists(words, max_size=6))
def test_arguments_arrive_as_they_were_given(arguments, tmp_path_factory):
    told = tmp_path_factory.mktemp("arguments") / "told"
    script = 'out="$1"; shift; for word; do printf "%s\\0" "$word"; done > "$out"'
    command = ["bash", "-c", script, "script", str(told), *arguments]
    with Program(command, dict(os.environ)) as program:
        assert end_of(program) == End(0)
    expected = b"".join(os.fsencode(word) + b"\0" for word in arguments)
    assert told.read_bytes() == expected


def test_arguments_that_are_no_text_arrive_too():
    done = launch("printf", "%s", os.fsdecode(b"\xff\xfe"))
    assert done.stdout == b"\xff\xfe"


def test_streams_pass_byte_for_byte():
    content = bytes(range(256)) * 4096
    done = launch("bash", "-c", "tee /dev/stderr", input=content)
    assert done.stdout == content
    assert done.stderr == content + b"exit 0\n"


def test_the_environment_is_the_one_given(tmp_path):
    told = tmp_path / "told"
    given_ones = {"PATH": os.environ["PATH"], "ONLY": "this\nand that"}
    with Program(["sh", "-c", f"env -0 > '{told}'"], given_ones) as program:
        assert end_of(program) == End(0)
    entries = dict(entry.split(b"=", 1) for entry in told.read_bytes().split(b"\0")[:-1])
    assert entries.pop(b"ONLY") == b"this\nand that"
    assert set(entries) <= {b"PATH", b"PWD", b"OLDPWD", b"SHLVL", b"_"}


@pytest.mark.parametrize("code", [0, 1, 3, 255])
def test_an_exit_code_is_the_programs_own(code):
    done = launch("sh", "-c", f"exit {code}")
    assert (done.returncode, done.stderr) == (code, b"exit %d\n" % code)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGABRT, signal.SIGRTMIN])
def test_a_signal_that_ends_the_program_is_told_as_a_shell_does(number):
    done = launch("sh", "-c", f"kill -{int(number)} $$")
    assert done.returncode == 128 + number
    assert done.stderr.startswith(b"signal %d" % number)


def test_ends_have_names():
    assert [str(End(code)) for code in (0, 3, -9, -35)] == [
        "exit 0",
        "exit 3",
        "signal 9 (SIGKILL)",
        "signal 35",
    ]
    assert [End(code).shell_code for code in (0, 3, -9)] == [0, 3, 137]


def test_the_end_has_its_time_however_late_it_is_asked_for():
    began = time.monotonic_ns()
    with Program(["sh", "-c", "sleep 0.05"], dict(os.environ)) as program:
        program._waiter.join()
        seen = time.monotonic_ns()
        time.sleep(0.02)
        assert began + 50_000_000 <= program.ended_ns <= seen
        assert str(end_of(program)) == "exit 0"
        assert program.ended_ns <= seen


def test_a_signal_that_comes_before_the_program_has_an_id_reaches_it():
    program = Program(["sleep", "60"], dict(os.environ))
    program._pass_on(signal.SIGTERM)
    with program:
        assert end_of(program) == End(-signal.SIGTERM)


def test_signals_to_the_launcher_reach_the_program_once_each():
    command = [sys.executable, "-c", LAUNCHER, sys.executable, "-c", COUNTER, "4"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, start_new_session=True) as launcher:
        assert launcher.stdout.readline() == b"ready\n"
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1):
            launcher.send_signal(number)
        told = launcher.stdout.read()
    assert eval(told) == {"SIGINT": 1, "SIGTERM": 1, "SIGHUP": 1, "SIGUSR1": 1}
    assert launcher.returncode == 0


def test_a_signal_that_the_program_does_not_catch_ends_both():
    command = [sys.executable, "-c", LAUNCHER, "sh", "-c", "echo ready; exec sleep 60"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as launcher:
        assert launcher.stdout.readline() == b"ready\n"
        launcher.terminate()
        _, errors = launcher.communicate()
    assert (launcher.returncode, errors) == (143, b"signal 15 (SIGTERM)\n")


def test_what_is_ignored_stays_ignored():
    done = launch("sh", "-c", "kill -HUP $PPID; kill -HUP $$; echo lives", preexec_fn=ignore_hangup)
    assert (done.returncode, done.stdout) == (0, b"lives\n")


def ignore_hangup() -> None:
    signal.signal(signal.SIGHUP, signal.SIG_IGN)


def test_a_program_that_writes_to_nobody_ends_as_ever():
    done = launch("bash", "-c", "yes | head -1; echo ${PIPESTATUS[0]}")
    assert (done.stdout, done.stderr) == (b"y\n141\n", b"exit 0\n")


def run_on_terminal(command: list[str], keys: bytes) -> tuple[int, str]:
    """Run a command in front of a terminal of its own; press keys when it is ready."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.execvp(command[0], command)
    shown = b""
    pressed = False
    while True:
        try:
            read = os.read(terminal, 4096)
        except OSError:
            break
        if not read:
            break
        shown += read
        if b"ready" in shown and not pressed:
            pressed = True
            os.write(terminal, keys)
    _, status = os.waitpid(pid, 0)
    os.close(terminal)
    return os.waitstatus_to_exitcode(status), shown.decode()


def test_ctrl_c_on_a_terminal_reaches_the_program_exactly_once():
    command = [sys.executable, "-c", LAUNCHER, sys.executable, "-c", COUNTER, "1"]
    code, shown = run_on_terminal(command, b"\x03")
    assert "{'SIGINT': 1}" in shown
    assert "exit 0" in shown
    assert "Traceback" not in shown
    assert code == 0


def test_ctrl_c_ends_a_program_that_does_not_catch_it():
    command = [sys.executable, "-c", LAUNCHER, "sh", "-c", "echo ready; exec sleep 60"]
    code, shown = run_on_terminal(command, b"\x03")
    assert "signal 2 (SIGINT)" in shown
    assert "Traceback" not in shown
    assert code == 130


def test_a_program_is_found_by_name_by_path_and_relatively(tmp_path):
    program = tmp_path / "my program"
    program.write_text("#!/bin/sh\necho here\n")
    program.chmod(0o755)
    assert launch(str(program)).stdout == b"here\n"
    assert launch("./my program", cwd=tmp_path).stdout == b"here\n"
    path = f"{tmp_path}{os.pathsep}{os.environ['PATH']}"
    assert launch("my program", env={**os.environ, "PATH": path}).stdout == b"here\n"


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("no-such-program", "no-such-program: no such program"),
        ("./absent", "./absent: no such program"),
        ("data", "./data: it is not executable"),
        ("", "no program to run"),
    ],
)
def test_what_cannot_be_run_is_one_line(tmp_path, monkeypatch, name, message):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data").write_text("no program")
    command = [f"./{name}" if name == "data" else name] if name else []
    with pytest.raises(CollectError, match=r"name the program|give one after") as caught:
        check_command(command)
    assert str(caught.value).startswith(message)
    assert "\n" not in str(caught.value)


def test_a_program_of_no_known_format_is_one_line_and_handlers_are_back(tmp_path):
    broken = tmp_path / "broken"
    broken.write_bytes(b"\x7fELF is all that it has of one")
    broken.chmod(0o755)
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    with pytest.raises(CollectError, match=r"broken: cannot be run \("), Program([str(broken)], {}):
        pass
    after = {number: signal.getsignal(number) for number in before}
    assert after == before


def test_handlers_are_back_after_a_program():
    before = signal.getsignal(signal.SIGTERM)
    with Program([shutil.which("true") or "true"], dict(os.environ)) as program:
        assert signal.getsignal(signal.SIGTERM) != before
        assert end_of(program) == End(0)
        os.kill(os.getpid(), signal.SIGTERM)  # comes too late for the program, and ends nobody
    assert signal.getsignal(signal.SIGTERM) == before
    assert not Path(f"/proc/{program.pid}").exists()


def test_a_gated_program_waits_until_it_is_let_go(tmp_path):
    begun = tmp_path / "begun"
    with Program(["touch", str(begun)], dict(os.environ), gated=True) as program:
        time.sleep(0.2)
        assert program.ended() is None
        assert not begun.exists()
        program.release()
        assert end_of(program) == End(0)
    assert begun.exists()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_a_gated_program_may_be_ended_while_it_waits(number, tmp_path):
    begun = tmp_path / "begun"
    with Program(["touch", str(begun)], dict(os.environ), gated=True) as program:
        os.kill(program.pid, number)
        assert end_of(program) == End(-number)
        program.release()
    assert not begun.exists()


def test_a_gated_program_that_is_never_let_go_never_begins(tmp_path):
    begun = tmp_path / "begun"
    with Program(["touch", str(begun)], dict(os.environ), gated=True) as program:
        pid = program.pid
    assert not begun.exists()
    assert not Path(f"/proc/{pid}").exists()


def test_a_gated_program_that_cannot_be_run_is_told(tmp_path):
    script = tmp_path / "script"
    script.write_text("#!/no/such/interpreter\n")
    script.chmod(0o755)
    with (
        pytest.raises(CollectError, match="cannot be run"),
        Program([str(script)], dict(os.environ), gated=True) as program,
    ):
        program.release()


@settings(max_examples=10, deadline=None)
@given(arguments=st.lists(words, max_size=6))
def test_arguments_pass_the_gate_as_they_were_given(arguments, tmp_path_factory):
    told = tmp_path_factory.mktemp("arguments") / "told"
    script = 'out="$1"; shift; for word; do printf "%s\\0" "$word"; done > "$out"'
    command = ["bash", "-c", script, "script", str(told), *arguments]
    with Program(command, dict(os.environ), gated=True) as program:
        program.release()
        assert end_of(program) == End(0)
    expected = b"".join(os.fsencode(word) + b"\0" for word in arguments)
    assert told.read_bytes() == expected
