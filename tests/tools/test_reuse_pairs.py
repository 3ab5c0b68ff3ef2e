"""`reuse_pairs` against remembering the last writer of each granule."""

from __future__ import annotations

import tempfile
from collections import Counter
from pathlib import Path

from hypothesis import given

import pasta
from tests.conftest import write_trace
from tests.tools.test_reuse import source, walk
from tests.tools.warps import BASE, FEW, KERNELS, NAMES, PROGRAMS, granules, request, row_of


def run(rows, **parameters):
    with tempfile.TemporaryDirectory() as folder:
        trace = write_trace(Path(folder) / "t", access=rows, kernel=KERNELS)
        return pasta.run("reuse_pairs", trace=trace, top=1000, **parameters)


def test_one_kernel_reads_what_another_wrote():
    rows = [
        *request(0, row_of(BASE), op=1, pc=0x40),
        *request(0, row_of(BASE), pc=0x10, launch=2),
        *request(1, row_of(BASE + 128), pc=0x20, launch=2),
    ]
    report = run(rows)
    columns = ("writer", "writer_pc", "name", "pc", "reads", "read_bytes", "in_launch")
    assert report.tables["most_flows"].select(columns).rows() == [
        ("first", 0x40, "second", 0x10, 32, 128, 0)
    ]
    assert report.findings == [
        "second, instruction 0x10, reads 128 B that first wrote at 0x40",
        "50.0 % of 64 reads of granules are of what a recorded instruction wrote, 0 of them of what the same launch did",
    ]


def test_an_atomic_reads_what_the_one_before_it_wrote():
    rows = [row for at in range(3) for row in request(at, [BASE], op=2, block=at)]
    flows = run(rows).tables["most_flows"]
    assert flows.select("reads", "in_launch", "in_block").rows() == [(2, 2, 0)]


@FEW
@given(PROGRAMS)
def test_equals_remembering_writers(rows):
    report = run(rows)
    walked = list(walk(rows, 4))
    touched = {}
    for row in rows:
        if row["space"] == 0 and row["op"] != 3:
            for granule in granules(row, 4):
                ops = touched.setdefault((row["launch_id"], row["request"], granule), set())
                ops.add(row["op"])
    flows, pairs, writers = Counter(), Counter(), {}
    for use, _, last, row in walked:
        name = NAMES[use[0]]
        if last is not None:
            pairs[name, row["pc"], last["pc"], source(last, row)] += 1
        if use[2] in writers and touched[use] != {1}:
            writer, pc = writers[use[2]]
            flows[NAMES[writer], pc, name, row["pc"]] += 1
        if touched[use] & {1, 2}:
            writers[use[2]] = (use[0], row["pc"])
    found = report.tables["most_flows"].select("writer", "writer_pc", "name", "pc", "reads")
    assert {row[:4]: row[4] for row in found.rows()} == flows
    found = report.tables["most_pairs"].select("name", "pc", "last_pc", "after", "uses")
    assert {row[:4]: row[4] for row in found.rows()} == pairs
    by_pc = Counter((NAMES[use[0]], row["pc"]) for use, _, _, row in walked)
    found = report.tables["instructions"]
    assert {row[:2]: row[2] for row in found.select("name", "pc", "uses").rows()} == by_pc
    parts = ("first_uses", "own_warp", "other_warps", "other_blocks", "other_launches")
    assert found.select(parts).sum_horizontal().to_list() == found["uses"].to_list()
