"""The tree of a known pattern of forks, programs and threads is exact."""

from __future__ import annotations

import subprocess
import sys

import pytest

from pasta.collect.ebpf import stack_texts
from pasta.collect.ebpf.processes import unescaped
from pasta.collect.ebpf.task_tree import Start, TaskTree, exit_code, group_status
from pasta.collect.losses import Losses
from pasta.collect.recording import record_command
from pasta.collect.selection import Selection
from pasta.trace import Trace
from pasta.trace_writer import TraceWriter
from tests.collect.ebpf.machine import compiled, needs_bpftrace
from tests.collect.recorded_programs import losses, table

# Says what it starts, as `KIND PARENT CHILD`, in a file: each is gone at once.
PATTERN = r"""
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
static int said;
static void say(const char *kind, int parent, int child) {
  char line[100];
  int size = snprintf(line, sizeof line, "%s %d %d\n", kind, parent, child);
  if (write(said, line, size) != size) abort();
}
static void *short_thread(void *unused) {
  pthread_setname_np(pthread_self(), "short one");
  say("thread", getpid(), gettid());
  return unused;
}
static void *replaces_all(void *path) {
  say("replaced", getpid(), gettid());
  execl(path, "true", "by a thread", (char *)0);
  return path;
}
int main(int count, char **arguments) {
  int status;
  said = open(arguments[1], O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  for (int index = 0; index < 20; index++) {
    int child = fork();
    if (child == 0) _exit(index);
    say("fork", getpid(), child);
    waitpid(child, &status, 0);
  }
  int child = fork();
  if (child == 0) {
    int grandchild = fork();
    if (grandchild == 0) {
      usleep(50000);
      _exit(9);
    }
    say("double", getpid(), grandchild);
    _exit(0);
  }
  say("middle", getpid(), child);
  waitpid(child, &status, 0);
  child = vfork();
  if (child == 0) {
    execl("/bin/sh", "sh", "-c", "exit 7", (char *)0);
    _exit(1);
  }
  say("vfork", getpid(), child);
  waitpid(child, &status, 0);
  child = fork();
  if (child == 0) {
    kill(getpid(), SIGKILL);
    pause();
  }
  say("killed", getpid(), child);
  waitpid(child, &status, 0);
  child = fork();
  if (child == 0) {
    pthread_t thread;
    pthread_create(&thread, 0, replaces_all, "/bin/true");
    pause();
  }
  say("exec", getpid(), child);
  waitpid(child, &status, 0);
  for (int index = 0; index < 5; index++) {
    pthread_t thread;
    pthread_create(&thread, 0, short_thread, 0);
    pthread_join(thread, 0);
  }
  usleep(1500000);
  return 5;
}
"""


@pytest.fixture(scope="module")
def pattern(tmp_path_factory):
    """The trace of the program, and what it said: kind -> pairs of parent and child."""
    folder = tmp_path_factory.mktemp("pattern")
    program = compiled(PATTERN, folder, "-fno-omit-frame-pointer")
    command = [str(program), str(folder / "said")]
    done = record_command(command, folder / "t", {"processes": "tree"}, Selection())
    said: dict[str, list[tuple[int, int]]] = {}
    for line in (folder / "said").read_text().splitlines():
        kind, parent, child = line.split()
        said.setdefault(kind, []).append((int(parent), int(child)))
    return Trace.open(done.path), said


PROCESSES = ("fork", "middle", "double", "vfork", "killed", "exec")


@needs_bpftrace
def test_each_process_has_its_parent(pattern):
    trace, said = pattern
    rows = table(trace, "process")
    expected = {child: parent for kind in PROCESSES for parent, child in said[kind]}
    root = said["fork"][0][0]
    found = {row["pid"]: row["parent_pid"] for row in rows.to_dicts() if row["pid"] != root}
    assert found == expected
    assert losses(trace).keys() <= {stack_texts._NAMELESS}  # of children that were gone at once


@needs_bpftrace
def test_each_process_has_its_times_and_its_end(pattern):
    trace, said = pattern
    rows = {row["pid"]: row for row in table(trace, "process").to_dicts()}
    assert [rows[pid]["exit_code"] for _, pid in said["fork"]] == list(range(20))
    ends = {kind: rows[said[kind][0][1]]["exit_code"] for kind in PROCESSES[1:]}
    assert ends == {"middle": 0, "double": 9, "vfork": 7, "killed": -9, "exec": 0}
    root = rows[said["fork"][0][0]]
    assert root["exit_code"] == 5
    for row in rows.values():
        assert root["started"] <= row["started"] < row["ended"] <= root["ended"]
    double, middle = rows[said["double"][0][1]], rows[said["middle"][0][1]]
    assert double["ended"] > middle["ended"]


@needs_bpftrace
def test_commands_are_those_of_the_last_program(pattern):
    trace, said = pattern
    rows = {row["pid"]: row["command"] for row in table(trace, "process").to_dicts()}
    assert rows[said["vfork"][0][1]] == "sh -c 'exit 7'"
    assert rows[said["exec"][0][1]] == "true 'by a thread'"
    own = rows[said["fork"][0][0]]
    assert {rows[pid] for _, pid in said["fork"]} == {own}


@needs_bpftrace
def test_threads_end_before_their_process(pattern):
    trace, said = pattern
    rows = {(row["pid"], row["tid"]): row for row in table(trace, "thread").to_dicts()}
    processes = {row["pid"]: row for row in table(trace, "process").to_dicts()}
    replaced = said["replaced"][0]
    assert set(rows) == {*said["thread"], replaced, *((pid, pid) for pid in processes)}
    for key in said["thread"]:
        assert rows[key]["name"] == "short one"
        assert rows[key]["started"] < rows[key]["ended"] < processes[key[0]]["ended"]
    went_on = rows[replaced[0], replaced[0]]
    assert rows[replaced]["ended"] < went_on["ended"] == processes[replaced[0]]["ended"]


@needs_bpftrace
def test_who_started_it_is_in_the_code(pattern):
    trace, said = pattern
    frames = table(trace, "frame")
    for kind in ("fork", "vfork"):
        own = frames.filter(frames["pid"] == said[kind][0][1]).sort("depth")
        assert "ork" in own["function"][-1]


@needs_bpftrace
def test_the_tracing_files_may_be_missing(tmp_path):
    """Where they are not mounted, bpftrace gets a mount that is gone with it."""
    script = (
        "umount /sys/kernel/tracing; test ! -e /sys/kernel/tracing/events &&"
        f" {sys.executable} -m pasta collect --with processes -o {tmp_path}/t -- true &&"
        " test ! -e /sys/kernel/tracing/events"
    )
    subprocess.run(["unshare", "--mount", "sh", "-c", script], check=True, timeout=300)
    assert table(Trace.open(tmp_path / "t"), "thread").height == 1


@pytest.mark.parametrize(("status", "code"), [(0, 0), (768, 3), (9, -9), (139, -11)])
def test_exit_codes(status, code):
    assert exit_code(status) == code


def test_a_process_that_ends_thread_by_thread_has_the_code_of_its_first(tmp_path):
    """As where the first thread ends by `pthread_exit`."""
    tree = TaskTree(1, "host", 100)
    tree.ended(40, 2, 3, 0, group_status(0, 0))
    tree.started(10, Start(1, 2, 0, "first", 7))
    tree.started(20, Start(2, 3, 0x10000, "second", 8))
    tree.ended(30, 2, 2, 1024, group_status(0, 0))
    tree.ended(50, 9, 9, 0, None)
    writer = TraceWriter(tmp_path / "t", {})
    part, lost = writer.part(), Losses("processes")
    tree.append_to(part, lost)
    part.finish()
    writer.finish()
    (process,) = table(Trace.open(tmp_path / "t"), "process").to_dicts()
    assert (process["parent_pid"], process["started"], process["ended"]) == (1, 110, 140)
    assert process["exit_code"] == 4
    assert sum(loss.count for loss in lost) == 1


def test_bytes_that_cannot_be_shown():
    assert unescaped(r"sh\x00-c\x00\xc3\xa4") == b"sh\0-c\0\xc3\xa4"
