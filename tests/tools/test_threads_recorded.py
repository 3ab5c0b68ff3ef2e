"""`threads` on a program that was really recorded, and says itself for how long it waited where."""

from __future__ import annotations

import os

import pytest

import pasta
from pasta.collect.recording import record_command
from pasta.collect.selection import Selection
from tests.collect.ebpf.machine import compiled, needs_bpftrace

pytestmark = needs_bpftrace

CHILD_SLEEPS = 300_000_000

# A thread waits for a lock while the main one sleeps with it; then a child sleeps, and the main thread waits for it.
# In the end each CPU is busy for a while: an idle one may keep what it has recorded.
WAITS = r"""
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static long now(void) {
  struct timespec at;
  clock_gettime(CLOCK_MONOTONIC, &at);
  return at.tv_sec * 1000000000L + at.tv_nsec;
}
static void told(const char *what, long began) {
  printf("%s %ld\n", what, now() - began);
  fflush(stdout);
}
static void *wait_for_lock(void *unused) {
  pthread_setname_np(pthread_self(), "waiter");
  long began = now();
  pthread_mutex_lock(&lock);
  told("lock", began);
  pthread_mutex_unlock(&lock);
  return unused;
}
__attribute__((noinline)) static void spawn_waiter(pthread_t *thread) {
  pthread_create(thread, 0, wait_for_lock, 0);
  __asm__ volatile("");
}
static void *spin(void *cpu) {
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET((long)cpu, &one);
  pthread_setaffinity_np(pthread_self(), sizeof one, &one);
  pthread_setname_np(pthread_self(), "spinner");
  for (long began = now(); now() - began < 300000000L;) {
  }
  return 0;
}
int main(void) {
  pthread_t thread;
  pthread_setname_np(pthread_self(), "sleeper");
  pthread_mutex_lock(&lock);
  spawn_waiter(&thread);
  long began = now();
  usleep(400000);
  told("sleep", began);
  pthread_mutex_unlock(&lock);
  pthread_join(thread, 0);
  if (fork() == 0) {
    usleep(300000);
    _exit(3);
  }
  began = now();
  wait(0);
  told("child", began);
  long cpus = sysconf(_SC_NPROCESSORS_ONLN);
  pthread_t spinners[cpus];
  for (long cpu = 0; cpu < cpus; cpu++) pthread_create(&spinners[cpu], 0, spin, (void *)cpu);
  for (long cpu = 0; cpu < cpus; cpu++) pthread_join(spinners[cpu], 0);
  return 0;
}
"""


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    """What `threads` says of the program, and what the program says, ns."""
    folder = tmp_path_factory.mktemp("threads")
    program = compiled(WAITS, folder, "-fno-omit-frame-pointer")
    said = folder / "said"
    command = ["sh", "-c", f"exec {program} > {said}"]
    chosen = {"processes": "tree", "offcpu": "kernel"}
    found = record_command(command, folder / "t", chosen, Selection())
    assert found.exit_code == 0
    pairs = (line.split() for line in said.read_text().splitlines())
    return pasta.run("threads", trace=found.path), {what: int(took) for what, took in pairs}


def of(report, name, pid=None):
    """The row of the thread of a name, in the process of an id."""
    rows = report.tables["threads"].to_dicts()
    (row,) = [
        row for row in rows if row["thread"].startswith(name) and row["pid"] == (pid or row["pid"])
    ]
    return row


def parent_and_child(report):
    parent, child = report.tables["tree"].to_dicts()
    return parent, child


def test_each_thread_is_off_the_cpu_for_as_long_as_it_says(recorded):
    report, said = recorded
    parent, _ = parent_and_child(report)
    waiter, sleeper = of(report, "waiter"), of(report, "sleeper", parent["pid"])
    assert waiter["waits_for"] == "lock or condition"
    assert waiter["wait_ns"] == pytest.approx(said["lock"], rel=0.02)
    assert waiter["wait_ns"] <= waiter["off_cpu_ns"] <= waiter["lived_ns"]
    assert 0.98 * (said["sleep"] + said["child"]) <= sleeper["off_cpu_ns"] <= sleeper["lived_ns"]
    assert sleeper["lived_ns"] <= parent["lived_ns"]


def test_time_is_told_by_what_is_waited_for(recorded):
    report, said = recorded
    waited = dict(report.tables["of.reasons"].select("waits_for", "wait_ns").rows())
    assert waited["sleep"] >= 0.98 * (said["sleep"] + CHILD_SLEEPS)
    assert waited["sleep"] <= 1.02 * (said["sleep"] + said["child"])
    assert waited["child process"] == pytest.approx(said["child"], rel=0.02)
    assert waited["lock or condition"] >= 0.98 * said["lock"]


def test_who_spawned_whom_is_told(recorded):
    report, _ = recorded
    parent, child = parent_and_child(report)
    assert child["parent_pid"] == parent["pid"]
    assert (parent["exit_code"], child["exit_code"]) == (0, 3)
    assert (parent["threads"], child["threads"]) == (2 + os.cpu_count(), 1)
    assert "fork" in child["spawned_at"].lower()
    assert of(report, "waiter")["spawned_at"] is not None
    assert f"{3 + os.cpu_count()} threads are off the CPU for " in report.findings[0]
