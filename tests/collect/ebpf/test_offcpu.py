"""Off-CPU time of a program with known sleeps and waits is exact, and says where and why."""

from __future__ import annotations

import os

import polars as pl
import pytest

from pasta.collect.recording import record_command
from pasta.collect.selection import Selection
from pasta.trace import Trace
from tests.collect.ebpf.machine import compiled, needs_bpftrace
from tests.collect.recorded_programs import table

pytestmark = needs_bpftrace

# Sleeps, waits for a lock and for a child. It says of each when it began, how long it took, and how
# much of that it was on the CPU by the thread's own clock.
WAITS = r"""
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static long read_clock(clockid_t clock) {
  struct timespec at;
  clock_gettime(clock, &at);
  return at.tv_sec * 1000000000L + at.tv_nsec;
}
static _Thread_local long began, ran;
static void begin(void) {
  began = read_clock(CLOCK_MONOTONIC);
  ran = read_clock(CLOCK_THREAD_CPUTIME_ID);
}
static void told(const char *what) {
  long on_cpu = read_clock(CLOCK_THREAD_CPUTIME_ID) - ran;
  printf("%s %d %ld %ld %ld\n", what, gettid(), began, read_clock(CLOCK_MONOTONIC) - began, on_cpu);
}
static void *wait_for_lock(void *unused) {
  begin();
  pthread_mutex_lock(&lock);
  told("lock");
  pthread_mutex_unlock(&lock);
  return unused;
}
int main(void) {
  setvbuf(stdout, 0, _IOFBF, 1 << 16);
  pthread_t thread;
  pthread_mutex_lock(&lock);
  pthread_create(&thread, 0, wait_for_lock, 0);
  begin();
  usleep(400000);
  told("sleep");
  pthread_mutex_unlock(&lock);
  pthread_join(thread, 0);
  fflush(stdout);
  int child = fork();
  if (child == 0) {
    begin();
    usleep(300000);
    told("child");
    fflush(stdout);
    _exit(0);
  }
  begin();
  waitpid(child, 0, 0);
  told("wait");
  return 0;
}
"""


@pytest.fixture(scope="module")
def waits(tmp_path_factory):
    """The trace of the program, and what it said: (what, thread) -> began, took, ran, in ns."""
    folder = tmp_path_factory.mktemp("waits")
    program = compiled(WAITS, folder, "-fno-omit-frame-pointer")
    output = os.open(folder / "said", os.O_RDWR | os.O_CREAT)
    kept = os.dup(1)
    os.dup2(output, 1)
    try:
        done = record_command([str(program)], folder / "t", {"offcpu": "kernel"}, Selection())
    finally:
        os.dup2(kept, 1)
    lines = [line.split() for line in (folder / "said").read_text().splitlines()]
    said = {(line[0], int(line[1])): tuple(map(int, line[2:])) for line in lines}
    return Trace.open(done.path), said


def test_time_off_the_cpu_is_within_one_percent_of_what_the_program_measured(waits):
    trace, said = waits
    rows, offset = table(trace, "sample"), trace.info["clock"]["epoch_offset_ns"]
    assert {what for what, _ in said} == {"lock", "sleep", "child", "wait"}
    for (what, tid), (began, took, ran) in said.items():
        start, end = pl.col("ts"), pl.col("ts") + pl.col("dur")
        within = pl.min_horizontal(end, began + offset + took) - pl.max_horizontal(
            start, began + offset
        )
        away = rows.filter(pl.col("tid") == tid).select(within.clip(0).sum()).item()
        assert away == pytest.approx(took - ran, rel=0.01), what


def test_rows_are_whole(waits):
    trace, said = waits
    rows = table(trace, "sample")
    assert rows["kind"].unique().to_list() == ["off_cpu"]
    assert (rows["weight"] == rows["dur"]).all()
    assert (rows["dur"] >= 0).all()
    assert rows["pid"].n_unique() == 2
    assert {tid for _, tid in said} <= set(rows["tid"])
    by_thread = rows.sort("tid", "ts")
    follows = by_thread.select(
        (pl.col("ts") + pl.col("dur") <= pl.col("ts").shift(-1)).over("tid").fill_null(value=True)
    )
    assert follows.to_series().all()
    run = table(trace, "process").row(0, named=True)
    assert run["started"] <= rows["ts"].min()
    assert (rows["ts"] + rows["dur"]).max() <= run["ended"]


def test_stacks_say_where_and_why(waits):
    trace, said = waits
    ((sleeper, (began, took, _)),) = [
        (of, at) for (what, of), at in said.items() if what == "sleep"
    ]
    began += trace.info["clock"]["epoch_offset_ns"]
    within = (pl.col("tid") == sleeper) & pl.col("ts").is_between(began, began + took)
    rows = table(trace, "sample").filter(within).sort("dur").tail(1)
    stack = table(trace, "frame").join(rows, on=["pid", "stack_id"], how="semi").sort("depth")
    functions = stack["function"].to_list()
    assert rows["state"].to_list() == ["sleeping"]
    assert functions[-1] == "__schedule"
    assert any("sleep" in function for function in functions)
