"""Probes are judged before they are set; hits are exact; calls nest as they did."""

from __future__ import annotations

import shutil
from pathlib import Path

import polars as pl
import pytest

from pasta.collect.companions.options import HostOptions
from pasta.collect.ebpf import bpftrace, probe_places
from pasta.collect.ebpf import calls as calls_module
from pasta.collect.ebpf import probes as probes_module
from pasta.collect.ebpf.calls import Calls
from pasta.collect.ebpf.instructions import emulated
from pasta.collect.ebpf.probe_places import places
from pasta.collect.ebpf.probes import RECORDS, Probes
from pasta.collect.losses import Losses
from pasta.collect.recording import record_command
from pasta.collect.selection import Selection
from pasta.errors import CollectError
from pasta.trace import Trace
from pasta.trace_writer import TraceWriter
from tests.collect.ebpf.machine import compiled, needs_bpftrace
from tests.collect.recorded_programs import losses, table

# A USDT probe as sys/sdt.h makes it, a function of each kind, and calls that call themselves.
PROGRAM = r"""
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>
__asm__(".text\n.globl begins_with_push, begins_with_lea\n"
        ".type begins_with_push, @function\nbegins_with_push: push %rbp\n mov %rsp,%rbp\n pop %rbp\n ret\n"
        ".size begins_with_push, .-begins_with_push\n"
        ".type begins_with_lea, @function\nbegins_with_lea: lea 8(%rdi),%rax\n push %rbp\n pop %rbp\n ret\n"
        ".size begins_with_lea, .-begins_with_lea\n");
void begins_with_push(void), begins_with_lea(void);
__attribute__((noinline)) static void has_probe(void) {
  __asm__ volatile("990: nop\n.pushsection .note.stapsdt,\"\",\"note\"\n.balign 4\n"
                   ".4byte 992f-991f, 994f-993f, 3\n991: .asciz \"stapsdt\"\n992: .balign 4\n"
                   "993: .8byte 990b, 0, 0\n.asciz \"pasta\"\n.asciz \"hit\"\n.asciz \"\"\n994: .balign 4\n"
                   ".popsection\n");
}
__attribute__((noinline)) int inner(int deep) { usleep(1000); return deep; }
__attribute__((noinline)) int outer(int deep) {
  return deep ? outer(deep - 1) + inner(deep) : inner(0) + 1;
}
static long hits;
static void *hit(void *unused) {
  for (long index = 0; index < hits; index++) {
    begins_with_push();
    has_probe();
  }
  return unused;
}
int main(int count, char **arguments) {
  pthread_t threads[2];
  hits = atol(arguments[1]);
  for (int index = 0; index < 2; index++) pthread_create(&threads[index], 0, hit, 0);
  for (int index = 0; index < 2; index++) pthread_join(threads[index], 0);
  begins_with_lea();
  return outer(2) < 0;
}
"""


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    return compiled(
        PROGRAM,
        tmp_path_factory.mktemp("probed"),
        "-fno-omit-frame-pointer",
        "-fcf-protection=none",
    )


def recorded(program: Path, out: Path, level: str, probes: list[str], hits: int = 10):
    options = HostOptions(probes=tuple(probes))
    done = record_command(
        [str(program), str(hits)], out, {"probes": level}, Selection(host=options)
    )
    return done, Trace.open(done.path)


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("55", True),  # push %rbp
        ("4157", True),  # push %r15
        ("90", True),  # nop
        ("e800000000", True),  # call
        ("0f84000000", True),  # je
        ("7405", True),
        ("f30f1efa", False),  # endbr64
        ("488d4708", False),  # lea
        ("4889e5", False),  # mov
        ("c3", False),  # ret
        ("4855", False),  # push with a needless prefix
        ("66e80000", False),
        ("", False),
    ],
)
def test_what_the_kernel_emulates(code, expected):
    assert emulated(bytes.fromhex(code)) is expected


@pytest.mark.parametrize("nop", ["0f1f00", "0f1f4000", "0f1f440000", "660f1f440000"])
def test_whether_a_long_nop_is_emulated_depends_on_the_kernel(nop):
    assert emulated(bytes.fromhex(nop), (6, 18))
    assert not emulated(bytes.fromhex(nop), (6, 1))


def test_a_slow_probe_is_refused_and_a_better_place_offered(program):
    with pytest.raises(CollectError, match="10 to 20 us") as refused:
        places([f"uprobe:{program}:begins_with_lea"], slow=False)
    if shutil.which("objdump"):
        assert f"uprobe:{program}:begins_with_lea+4" in str(refused.value)
    (place,), _ = places([f"uprobe:{program}:begins_with_lea+4"], slow=False)
    assert not place.slow
    (place,), _ = places([f"uprobe:{program}:begins_with_lea"], slow=True)
    assert place.slow


def test_slow_ones_of_many_are_left_out(program):
    kept, left_out = places([f"uprobe:{program}:begins_with_*"], slow=False)
    assert [place.name for place in kept] == ["begins_with_push"]
    assert left_out == ["begins_with_lea"]


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ("uprobe", "KIND:FILE:NAME"),
        ("kprobe:/bin/sh:main", "uprobe, uretprobe, usdt"),
        ("uprobe:/no/such/file:main", "give its path"),
        ("uprobe:{program}:outr", "no function 'outr'.*outer"),
        ("usdt:{program}:pasta:hat", "pasta:hit"),
        ("cuda.drivr", "cuda.driver"),
    ],
)
def test_what_makes_no_sense_is_said(program, asked, message):
    with pytest.raises(CollectError, match=message):
        places([asked.format(program=program)], slow=False)


def test_a_pattern_is_bounded(program, monkeypatch):
    monkeypatch.setattr(probe_places, "FUNCTIONS_MAX", 1)
    with pytest.raises(CollectError, match="2 functions; at most 1"):
        places([f"uprobe:{program}:begins_*"], slow=True)


@needs_bpftrace
def test_counts_are_exact_for_a_million_hits(program, tmp_path):
    probes = [f"uprobe:{program}:begins_with_push", f"usdt:{program}:pasta:hit"]
    _, trace = recorded(program, tmp_path / "t", "counts", probes, hits=500_000)
    rows = table(trace, "sample")
    by_probe = {
        row["kind"]: row["weight"]
        for row in rows.group_by("kind").agg(pl.col("weight").sum()).to_dicts()
    }
    assert by_probe == {"begins_with_push": 1_000_000, "pasta:hit": 1_000_000}
    assert rows.height == 4  # of two threads
    assert losses(trace) == {}
    functions = table(trace, "frame")["function"].to_list()
    assert "begins_with_push" in functions


@needs_bpftrace
def test_calls_are_spans_nested_as_they_were(program, tmp_path):
    probes = [f"uretprobe:{program}:outer", f"uretprobe:{program}:inner"]
    _, trace = recorded(program, tmp_path / "t", "events", probes)
    spans = table(trace, "span").sort("ts")
    assert spans["name"].to_list() == ["outer", "outer", "outer", "inner", "inner", "inner"]
    assert spans["level"].unique().to_list() == ["function"]
    parents = dict(zip(spans["span_id"], spans["name"], strict=True))
    by_id = {row["span_id"]: row for row in spans.to_dicts()}
    first, second, third, *inner = spans.to_dicts()
    assert first["parent_id"] == 0
    assert second["parent_id"] == first["span_id"]
    assert [row["parent_id"] for row in inner] == [
        third["span_id"],
        second["span_id"],
        first["span_id"],
    ]
    assert set(parents.values()) == {"outer", "inner"}
    for row in [second, third, *inner]:
        above = by_id[row["parent_id"]]
        assert above["ts"] <= row["ts"]
        assert row["ts"] + row["dur"] <= above["ts"] + above["dur"]
        assert row["dur"] >= 1_000_000
    assert losses(trace) == {}


@needs_bpftrace
def test_hits_are_samples_in_order(program, tmp_path):
    _, trace = recorded(program, tmp_path / "t", "events", [f"usdt:{program}:pasta:hit"], hits=301)
    rows = table(trace, "sample")
    assert rows.height == 602
    assert rows["kind"].unique().to_list() == ["pasta:hit"]
    assert rows.select("tid", "ts").n_unique() == 602
    assert losses(trace) == {}


@needs_bpftrace
def test_hits_of_many_probes_are_told_one_by_one(program, tmp_path, monkeypatch):
    monkeypatch.setattr(probes_module, "FEW", 0)
    _, trace = recorded(program, tmp_path / "t", "events", [f"usdt:{program}:pasta:hit"], hits=50)
    assert table(trace, "sample").height == 100
    assert losses(trace) == {}


@needs_bpftrace
def test_what_a_process_had_gathered_that_outlives_the_program_is_there(tmp_path):
    source = """
    #include <pthread.h>
    #include <unistd.h>
    __attribute__((noinline)) int called(int value) { __asm__ volatile(""); return value + 1; }
    static void *becomes(void *name) {
      called(0);
      execl("/bin/true", "true", (char *)0);
      return name;
    }
    int main(int count, char **arguments) {
      if (!fork()) {
        for (int index = 0; index < 3; index++) called(index);
        creat_ready(arguments[1]);
        sleep(2);
        return 0;
      }
      while (access(arguments[1], F_OK)) usleep(1000);
      pthread_t thread;
      pthread_create(&thread, 0, becomes, 0);
      sleep(10);
      return 1;
    }
    """.replace("creat_ready(arguments[1])", "close(creat(arguments[1], 0600))")
    source = source.replace("#include <unistd.h>", "#include <fcntl.h>\n#include <unistd.h>")
    options = ("-fno-omit-frame-pointer", "-fcf-protection=none")
    program = compiled(source, tmp_path, *options)
    asked = HostOptions(probes=(f"uretprobe:{program}:called",), slow_probes=True)
    command = [str(program), str(tmp_path / "ready")]
    done = record_command(command, tmp_path / "t", {"probes": "events"}, Selection(host=asked))
    assert str(done.end) == "exit 0"
    trace = Trace.open(done.path)
    spans = table(trace, "span").filter(name="called")
    assert spans.height == 4 < RECORDS
    assert spans["dur"].null_count() == 0
    assert spans["pid"].n_unique() == 2


@needs_bpftrace
def test_hits_that_are_lost_are_counted(program, tmp_path, monkeypatch):
    """Room for one page of lines on each CPU is not enough for all that come at once."""
    monkeypatch.setitem(bpftrace._SETTINGS, "BPFTRACE_PERF_RB_PAGES", "1")
    _, trace = recorded(
        program, tmp_path / "t", "events", [f"usdt:{program}:pasta:hit"], hits=50_000
    )
    counted = losses(trace)
    lost = counted.get(Probes.missing, 0) + counted.get(calls_module._UNKNOWN, 0)
    assert table(trace, "sample").height + lost == 100_000


@needs_bpftrace
def test_python_tells_of_its_collections_of_garbage(tmp_path):
    python = Path("/usr/bin/python3")
    if not python.exists() or b"gc__start" not in python.read_bytes():
        pytest.skip("no Python with USDT probes here")
    options = HostOptions(probes=(f"usdt:{python}:python:gc__start",))
    code = """
import gc, os, sys
gc.disable()
for _ in range(1000):
    gc.collect()
print(sum(generation["collections"] for generation in gc.get_stats()), file=open(sys.argv[1], "w"), flush=True)
os._exit(0)
"""
    command = [str(python), "-I", "-S", "-c", code, str(tmp_path / "said")]
    done = record_command(command, tmp_path / "t", {"probes": "counts"}, Selection(host=options))
    collections = int((tmp_path / "said").read_text())
    assert collections >= 1000
    assert table(Trace.open(done.path), "sample")["weight"].sum() == collections


def test_calls_that_never_return_and_returns_that_never_began(tmp_path):
    writer = TraceWriter(tmp_path / "t", {})
    part, lost = writer.part(), Losses("probes")
    calls = Calls(part, lost, 1000)
    calls.know(1, "outer", 5, 6, 0)
    calls.know(2, "thrown", 5, 6, 0)
    calls.end(30, 5, 6, "outer")
    calls.take("B", 10, 1)
    calls.take("B", 20, 2)
    calls.end(40, 5, 6, "outer")
    calls.take("H", 50, 9)
    calls.finish()
    part.finish()
    writer.finish()
    spans = table(Trace.open(tmp_path / "t"), "span").sort("ts")
    assert spans.select("name", "ts", "dur").rows() == [("outer", 1010, 20), ("thrown", 1020, None)]
    assert {loss.reason: loss.count for loss in lost} == {
        calls_module._NO_RETURN: 1,
        calls_module._NO_BEGIN: 1,
        calls_module._UNKNOWN: 1,
    }
