"""Pythons that sample themselves: whose time it is, whatever a program does, and what is told of the rest."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest

from pasta.collect.companions.cpu import own_samples
from pasta.collect.companions.cpu.own_samples import python_of, sampler_rung, samples_itself
from pasta.collect.target.compiled import NATIVE
from pasta.errors import CollectError
from tests.collect.companions.cpu.sampled_programs import (
    SPLIT_PY,
    assert_split,
    sampled,
    weight_of,
)
from tests.collect.recorded_programs import losses, table

FREQUENCY = 99
NANOSECONDS = 1e9
SPIN_C = """
#include <pthread.h>
#include <time.h>
static void *spin(void *nothing) {
    struct timespec now;
    do clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    while (now.tv_sec * 1000000000L + now.tv_nsec < 500000000L);
    return nothing;
}
void spin_beside(void) {
    pthread_t thread;
    pthread_create(&thread, 0, spin, 0);
    pthread_join(thread, 0);
}
"""
JUMPS_C = """
#include <setjmp.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/time.h>
#include <time.h>
static sigjmp_buf place;
static volatile int armed;
static volatile int jumped;
static void jump(int number) {
    if (!armed) return;
    armed = 0;
    jumped++;
    siglongjmp(place, 1);
}
int jumps(void) {
    struct sigaction action = {.sa_handler = jump};
    sigaction(SIGALRM, &action, 0);
    struct timespec now;
    do {
        if (!sigsetjmp(place, 1)) {
            struct itimerval soon = {{0, 0}, {0, 200 + rand() % 2000}};
            armed = 1;
            setitimer(ITIMER_REAL, &soon, 0);
            for (volatile long i = 0; i < 3000000 && armed; i++);
            armed = 0;
        }
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    } while (now.tv_sec < 4);
    return jumped;
}
"""
FOR_A_THREAD = """
def spend_in_thread(seconds):
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        for i in range(2000):
            pass
"""


@pytest.fixture(autouse=True)
def _sampler():
    if lacks := sampler_rung().lacks:
        pytest.skip(lacks)


def python(source: str, interpreter: str = sys.executable) -> list[str]:
    return [interpreter, "-c", SPLIT_PY + FOR_A_THREAD + source]


def python_of_version(version: str) -> str | None:
    """Find a Python of a version; what pyenv puts on the path runs only those that are switched on."""
    path = shutil.which(f"python{version}")
    if path is None or Path(path).parent.name != "shims":
        return path
    of_pyenv = Path(path).parent.with_name("versions").glob(f"{version}.*/bin/python{version}")
    return next(map(str, sorted(of_pyenv)), None)


def library_of(folder: Path, text: str) -> str:
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("there is no C compiler")
    source, library = folder / "library.c", folder / "library.so"
    source.write_text(text)
    options = ["-O1", "-shared", "-fPIC", "-pthread"]
    subprocess.run([compiler, *options, source, "-o", library], check=True)
    return str(library)


def seconds_of(trace, *functions: str) -> float:
    return sum(weight_of(trace, function) for function in functions) / NANOSECONDS


@pytest.mark.parametrize("version", ["own", *sorted(own_samples.KNOWN)])
def test_time_is_where_the_program_spends_it_and_sums_are_the_systems(tmp_path, version):
    number = version.removeprefix("cpython ")
    interpreter = sys.executable if version == "own" else python_of_version(number)
    if interpreter is None or not samples_itself([interpreter]):
        pytest.skip(f"there is no such Python here: {version}")
    done, trace = sampled(python("work(3)", interpreter), tmp_path / "t", "best")
    assert done.exit_code == 0
    assert not losses(trace)
    assert_split(trace, NANOSECONDS / FREQUENCY, slack=0.03)
    assert seconds_of(trace, "work") == pytest.approx(3, abs=0.1)
    assert set(table(trace, "frame")["language"]) == {"python"}
    assert set(table(trace, "frame").filter(pl.col("function") == "heavy")["line"]) == {12}


def test_samples_have_their_times(tmp_path):
    _, trace = sampled(python("heavy(0.5); time.sleep(0.5); light(0.5)"), tmp_path / "t", "python")
    frames, samples = table(trace, "frame"), table(trace, "sample")
    ends = {}
    for function in ("heavy", "light"):
        stacks = frames.filter(pl.col("function") == function).select("stack_id").unique()
        times = samples.join(stacks, on="stack_id")["ts"]
        ends[function] = (times.min(), times.max())
    assert ends["light"][0] - ends["heavy"][1] > 0.4e9


def test_threads_have_their_names_and_all_their_time(tmp_path):
    source = """
import threading
threads = [threading.Thread(target=spend_in_thread, args=(0.3,), name=f"wörker {i}") for i in range(4)]
[thread.start() for thread in threads]; [thread.join() for thread in threads]
"""
    _, trace = sampled(python(source), tmp_path / "t", "python")
    threads = table(trace, "thread")
    workers = threads.filter(pl.col("name").str.starts_with("wörker"))
    assert workers["name"].n_unique() == 4
    weights = table(trace, "sample").group_by("tid").agg(pl.col("weight").sum())
    assert weights.join(workers, on="tid")["weight"].to_list() == pytest.approx(
        [0.3e9] * 4, abs=6e7
    )


def test_of_a_thread_that_is_found_late_nothing_is_missed(tmp_path):
    source = """
import threading
for _ in range(15):
    thread = threading.Thread(target=spend_in_thread, args=(0.1,)); thread.start(); thread.join()
"""
    _, trace = sampled(python(source), tmp_path / "t", "python")
    assert seconds_of(trace, "spend_in_thread") == pytest.approx(1.5, abs=0.15)


def test_threads_without_python_are_told_without_a_stack(tmp_path):
    library = library_of(tmp_path, SPIN_C)
    program = f"import ctypes\nctypes.CDLL({library!r}).spin_beside()"
    _, trace = sampled(python(program), tmp_path / "t", "python")
    assert not losses(trace)
    samples = table(trace, "sample")
    beside = samples.filter(pl.col("tid") != pl.col("pid"), pl.col("stack_id") == 0)
    assert beside["weight"].sum() == pytest.approx(0.5e9, abs=5e7)


CHILDREN = {
    "a child without exec": ("""
pid = os.fork()
if not pid: heavy(0.4); os._exit(0)
light(0.4); os.waitpid(pid, 0)
""", 2),
    "another Python": ("subprocess.run([sys.executable, '-c', sys.orig_argv[2].partition('import os')[0] + 'heavy(0.4)']); light(0.4)", 2),
    "this process as another Python": ("light(0.4); os.execv(sys.executable, [sys.executable, '-c', sys.orig_argv[2].partition('import os')[0] + 'heavy(0.4)'])", 1),
}  # fmt: skip


@pytest.mark.parametrize("name", CHILDREN)
def test_children_are_sampled_too(tmp_path, name):
    source, processes = CHILDREN[name]
    _, trace = sampled(python(f"\nimport os, subprocess\n{source}"), tmp_path / "t", "python")
    assert table(trace, "sample")["pid"].n_unique() == processes
    assert seconds_of(trace, "heavy") == pytest.approx(0.4, abs=0.1)
    assert seconds_of(trace, "light") == pytest.approx(0.4, abs=0.1)


@pytest.mark.parametrize(
    ("end", "told"),
    [
        ("os._exit(3)", "exit 3"),
        ("os.kill(os.getpid(), 9)", "signal 9 (SIGKILL)"),
        ("os.execv('/bin/sh', ['sh', '-c', 'exit 4'])", "exit 4"),
        ("threading.Thread(target=heavy, args=(9,), daemon=True).start()", "exit 0"),
    ],
)
def test_however_it_ends_what_came_before_is_there(tmp_path, end, told):
    source = f"\nimport os, threading\nlight(0.5); time.sleep(0.2); {end}"
    done, trace = sampled(python(source), tmp_path / "t", "python")
    assert str(done.end) == told
    assert seconds_of(trace, "light") == pytest.approx(0.5, abs=0.06)


def test_a_program_of_50_ms_is_seen(tmp_path):
    _, trace = sampled(python("heavy(0.05)"), tmp_path / "t", "python")
    assert 1 <= round(seconds_of(trace, "heavy") * FREQUENCY) <= 8


def test_frames_that_come_and_go_while_a_sample_is_taken_do_no_harm(tmp_path):
    """Memory of frames is given back as deep calls return, and that of code as it is thrown away."""
    source = """
sys.setrecursionlimit(100_000)
def deep(n): return n and deep(n - 1)
body = chr(10).join(f'    x = {i}' for i in range(20_000))
end = time.process_time() + 3
while time.process_time() < end:
    deep(5000)
    exec(compile(f'def thrown_away():{chr(10)}{body}{chr(10)}thrown_away()', '<made>', 'exec'), {})
"""
    done, trace = sampled(python(source), tmp_path / "t", "python", frequency=997)
    assert done.exit_code == 0
    assert seconds_of(trace, "<module>") > 2
    assert any("256 frames" in reason for reason in losses(trace))


def test_time_in_more_places_than_there_is_room_for_is_told_without_a_stack(tmp_path):
    """Each chain of 250 calls is of functions of its own, and runs for longer than from one tick to the next."""
    source = """
sys.setrecursionlimit(10_000)
def call(inner): inner()
def chain(number):
    inner = lambda: spend(0.012)
    for depth in range(250):
        code = call.__code__.replace(co_qualname=f"f{number}_{depth}")
        inner = type(call)(code, {}, None, (inner,))
    return inner
chains = [chain(number) for number in range(320)]
for each in chains: each()
"""
    _, trace = sampled(python(source), tmp_path / "t", "python", frequency=250)
    beyond = (
        "samples of call stacks with places beyond the first 65536 different ones: without a stack"
    )
    assert losses(trace)[beyond] > 10
    samples, frames = table(trace, "sample"), table(trace, "frame")
    assert 60_000 < frames.select("function", "file", "line").n_unique() <= 65536
    bare = samples.filter(pl.col("stack_id") == 0)["weight"].sum()
    assert 0.1e9 < bare < 0.5 * samples["weight"].sum()


def test_system_calls_are_not_cut_short(tmp_path):
    source = """
import os, select
reading, writing = os.pipe()
for _ in range(200):
    spend(0.002)
    began = time.monotonic(); select.poll().poll(5); time.sleep(0.001)
    assert time.monotonic() - began >= 0.006
"""
    done, _ = sampled(python(source), tmp_path / "t", "python", frequency=997)
    assert done.exit_code == 0


def test_a_program_that_uses_the_signal_itself_keeps_it(tmp_path):
    source = """
import os, signal
taken = []
light(0.3)
signal.signal(signal.SIGURG, lambda *_: taken.append(1))
for _ in range(20): heavy(0.025); os.kill(os.getpid(), signal.SIGURG)
assert len(taken) > 10
"""
    done, trace = sampled(python(source), tmp_path / "t", "python")
    assert done.exit_code == 0
    assert "the program took SIGURG for itself: not sampled from then on" in losses(trace)
    assert any("of 0." in reason and "were not sampled" in reason for reason in losses(trace))


def test_a_program_that_resets_its_signals_goes_on(tmp_path):
    source = """
import signal
heavy(0.1)
for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
    signal.signal(number, signal.SIG_DFL)
heavy(0.2)
"""
    done, trace = sampled(python(source), tmp_path / "t", "python", frequency=997)
    assert done.exit_code == 0
    assert "the program took SIGURG for itself: not sampled from then on" in losses(trace)


def test_another_profiler_beside_it_has_its_own_signal(tmp_path):
    source = """
import signal
taken = []
signal.signal(signal.SIGPROF, lambda *_: taken.append(1))
signal.setitimer(signal.ITIMER_PROF, 0.01, 0.01)
heavy(0.5)
signal.setitimer(signal.ITIMER_PROF, 0)
assert len(taken) > 10
"""
    done, trace = sampled(python(source), tmp_path / "t", "python")
    assert done.exit_code == 0
    assert not losses(trace)
    assert seconds_of(trace, "heavy") == pytest.approx(0.5, abs=0.06)


def test_a_handler_that_leaves_by_a_long_jump_does_no_harm(tmp_path):
    """It may have interrupted one that takes a sample."""
    library = library_of(tmp_path, JUMPS_C)
    source = f"""
import ctypes
jumps = ctypes.CDLL({library!r}).jumps
def deep(n): return deep(n - 1) if n else jumps()
assert deep(200) > 100
light(0.5)
"""
    done, trace = sampled(python(source), tmp_path / "t", "python", frequency=997)
    assert done.exit_code == 0
    assert seconds_of(trace, "light") == pytest.approx(0.5, abs=0.06)


def test_functions_that_get_the_memory_of_others_have_their_own_names(tmp_path):
    source = """
def model(): spend(0.02)
def once(i):
    name = f"copy_{i:03d}"
    type(model)(model.__code__.replace(co_name=name, co_qualname=name), globals())()
for i in range(30): once(i)
"""
    _, trace = sampled(python(source), tmp_path / "t", "python")
    functions = table(trace, "frame")["function"].unique()
    assert sum(name.startswith("copy_") for name in functions) > 15


def test_only_threads_with_the_lock_where_that_is_asked_for(tmp_path):
    source = """
import threading, zlib
def without(): [zlib.compress(bytes(1_000_000), 9) for _ in range(100)]
thread = threading.Thread(target=without); thread.start(); spend_in_thread(0.5); thread.join()
"""
    _, every = sampled(python(source), tmp_path / "a", "python")
    _, held = sampled(python(source), tmp_path / "b", "python", gil=True)
    assert seconds_of(held, "spend_in_thread") > 0.3
    assert seconds_of(held, "without") < 0.5 * seconds_of(every, "without")


def test_time_that_is_not_sampled_is_told(tmp_path):
    command = [sys.executable, "-I", *python("heavy(0.6)")[1:]]
    done, trace = sampled(["sh", "-c", '"$@"; true', "sh", *command], tmp_path / "t", "python")
    (reason,) = losses(trace)
    assert done.warning == reason == own_samples.SILENT
    shared = python(
        "light(0.1); import subprocess; subprocess.run([sys.executable, '-I', '-c', sys.orig_argv[2].partition('light(0.1)')[0] + 'heavy(0.6)'])"
    )
    _, trace = sampled(shared, tmp_path / "u", "python")
    (reason,) = losses(trace)
    assert re.match(
        r"0\.\d s on the CPU of 0\.\d s that the system counted were not sampled", reason
    )


@pytest.mark.parametrize("option", [{"native": True}, {"idle": True}, {"events": ("cycles",)}])
def test_what_other_levels_do_is_refused(tmp_path, option):
    with pytest.raises(CollectError, match="--with cpu:"):
        sampled(["true"], tmp_path / "t", "python", **option)
    assert not (tmp_path / "t").exists()


def test_a_python_is_known_by_its_name_or_first_line(tmp_path):
    script, shell, isolated = tmp_path / "train", tmp_path / "run", tmp_path / "isolated"
    script.write_text(f"#!{sys.executable}\n")
    shell.write_text("#!/bin/sh\n# python\n")
    isolated.write_text(f"#!{sys.executable} -sE\n")
    for file in (script, shell, isolated):
        file.chmod(0o755)
    assert python_of([sys.executable, "x.py"]) == [sys.executable, "x.py"]
    assert python_of([str(script), "-I"]) == [sys.executable]
    assert python_of([str(shell)]) == python_of(["sh"]) == python_of(["no-such-program"]) == []
    assert samples_itself([str(script), "-I"])
    assert not samples_itself([str(isolated)])


@pytest.mark.parametrize(
    ("options", "does"),
    [
        (["-u", "x.py", "-I"], True),
        (["-m", "x", "-I"], True),
        (["-c", "-I"], True),
        (["-W", "error", "x.py"], True),
        (["-uI", "x.py"], False),
        (["-B", "-E", "x.py"], False),
        (["-Sc", "pass"], False),
    ],
)
def test_options_that_keep_it_from_loading_anything(options, does):
    assert samples_itself([sys.executable, *options]) is does


def test_the_library_knows_the_same_pythons():
    header = Path(NATIVE, "python_frames.h").read_text()
    known = {
        f"cpython {version[0]}.{version[1:]}"
        for version in re.findall(r"^    \{(3\d+),", header, re.MULTILINE)
    }
    assert known == own_samples.KNOWN


def test_an_unknown_python_is_told_and_goes_on(tmp_path):
    older = python_of_version("3.10") or python_of_version("3.9")
    if older is None or subprocess.run([older, "-c", ""], check=False).returncode:
        pytest.skip("there is no older Python")
    done, trace = sampled([older, "-c", "print(1)"], tmp_path / "t", "python")
    assert done.exit_code == 0
    assert losses(trace)
