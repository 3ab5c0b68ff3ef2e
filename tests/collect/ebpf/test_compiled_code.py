"""Code that a program makes while it runs, as compilers at run time do, has names in all collectors' stacks."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
from pathlib import Path

import polars as pl
import pytest

from pasta.collect.companions.cpu.rungs import perf_rung
from pasta.collect.companions.options import HostOptions
from pasta.collect.recording import record_command
from pasta.collect.selection import Selection
from pasta.trace import Trace
from tests.collect.ebpf.machine import compiled, needs_bpftrace

pytestmark = [
    needs_bpftrace,
    pytest.mark.skipif(platform.machine() != "x86_64", reason="the code is for x86-64"),
]
PROBE = "uprobe:libc.so.6:getppid"
KINDS = {"on_cpu": "spin", "off_cpu": "clock_nanosleep", "getppid": "getppid"}
SOURCE = r"""
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>
/* push rbp; mov rbp, rsp; call rdi; pop rbp; ret */
static const unsigned char code[] = {0x55, 0x48, 0x89, 0xe5, 0xff, 0xd7, 0x5d, 0xc3};
__attribute__((noinline)) void spin(void) {
    clock_t end = clock() + CLOCKS_PER_SEC / 4;
    while (clock() < end) for (volatile int i = 0; i < 100000; i++);
}
__attribute__((noinline)) void nap(void) {
    struct timespec time = {0, 1000000};
    for (int i = 0; i < 50; i++) nanosleep(&time, 0);
}
__attribute__((noinline)) void hit(void) { for (int i = 0; i < 10; i++) getppid(); }
int main(void) {
    char *at = mmap(0, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memcpy(at, code, sizeof code);
    char name[64];
    snprintf(name, sizeof name, "/tmp/perf-%d.map", getpid());
    FILE *told = fopen(name, "w");
    fprintf(told, "%lx %zx py::train:/a/model.py\n", (long)at, sizeof code);
    fclose(told);
    void (*call)(void (*)(void)) = (void (*)(void (*)(void)))at;
    call(spin);
    call(hit);
    for (int i = 0; i < 10; i++) call(nap); /* names are looked up while a process lives */
    return 0;
}
"""


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    folder = tmp_path_factory.mktemp("jit")
    folder.chmod(0o755)
    return compiled(SOURCE, folder, "-fno-omit-frame-pointer")


def callers(command: list[str], out: Path, *collectors: str) -> dict[str, set[str]]:
    """Return the functions of Python in the stacks of each kind that end in the function it is for."""
    levels = {"cpu": "fp", "offcpu": "user", "probes": "counts"}
    options = HostOptions(python_frames=True, probes=(PROBE,), slow_probes=True)
    chosen = {name: levels[name] for name in collectors}
    record_command(command, out, chosen, Selection(host=options))
    trace = Trace.open(out)
    frames = trace.scan("frame").collect()
    python = frames.filter(language="python", file="/a/model.py").select(
        "pid", "stack_id", "function"
    )
    innermost = frames.filter(pl.col("depth") == pl.col("depth").max().over("pid", "stack_id"))
    found = trace.scan("sample").collect().join(python, on=["pid", "stack_id"])
    found = found.join(innermost, on=["pid", "stack_id"], suffix="_innermost")
    own = pl.col("function_innermost") == pl.col("kind").replace_strict(KINDS)
    kinds = found.filter(own).group_by("kind").agg(pl.col("function").unique())
    return {kind: set(names) for kind, names in kinds.rows()}


def test_in_every_collectors_stacks(program, tmp_path):
    if lacks := perf_rung().lacks:
        pytest.skip(lacks)
    before = set(Path("/tmp").glob("perf-*.map"))
    found = callers([str(program)], tmp_path / "t", "cpu", "offcpu", "probes")
    assert found == {kind: {"train"} for kind in KINDS}
    assert set(Path("/tmp").glob("perf-*.map")) <= before


def test_of_a_process_with_files_and_process_ids_of_its_own(program, tmp_path):
    shown = 'mount -t tmpfs none /tmp && exec "$0"'
    alone = ["unshare", "--mount", "--pid", "--fork", "--mount-proc", "sh", "-c"]
    if shutil.which("unshare") is None or subprocess.run([*alone, "true"], check=False).returncode:
        pytest.skip("this machine makes no namespaces")
    elsewhere = Path(shutil.copy(program, f"/var/tmp/pasta-test-jit-{os.getpid()}"))
    try:
        found = callers([*alone, shown, str(elsewhere)], tmp_path / "t", "offcpu", "probes")
    finally:
        elsewhere.unlink()
    assert found == {kind: {"train"} for kind in ("off_cpu", "getppid")}
