"""`sector_heatmap` on strides that are known, and against counting each access."""

from __future__ import annotations

import tempfile
from collections import Counter, defaultdict
from pathlib import Path

from hypothesis import given

import pasta
from tests.conftest import write_trace
from tests.tools.memory_run import allocate
from tests.tools.warps import BASE, FEW, KERNELS, NAMES, PROGRAMS, granules, request, row_of

MEMORY = [allocate(1, "device", 7, BASE - 64, 4096), allocate(2, "tensor", 3, BASE, 2048)]


def run(rows, memory=MEMORY, **parameters):
    with tempfile.TemporaryDirectory() as folder:
        tables = {"memory": memory} if memory else {}
        trace = write_trace(Path(folder) / "t", access=rows, kernel=KERNELS, **tables)
        return pasta.run("sector_heatmap", trace=trace, top=1000, out=Path(folder) / "o", **parameters)  # fmt: skip


def test_a_column_of_a_matrix_leaves_words_out():
    """32 lanes 128 bytes apart: 32 sectors, one word in each; the transposed store uses all."""
    rows = [*request(0, row_of(BASE, stride=128)), *request(0, row_of(BASE), op=1, launch=2)]
    report = run(rows)
    columns = ("name", "object", "sectors", "words", "word_share", "unused_bytes", "accesses")
    assert report.tables["objects"].select(columns).rows() == [
        ("first", "global memory", 16, 16, 1 / 8, 448, 16),
        ("first", "object 3", 16, 16, 1 / 8, 448, 16),
        ("second", "object 3", 4, 32, 1.0, 0, 32),
    ]
    assert report.findings[0].startswith("first uses 12.5 % of the words in the 16 sectors")


def test_sectors_count_from_that_of_the_object():
    """An object that begins within a sector shares that with its place 0."""
    memory = [allocate(1, "device", 7, BASE + 16, 4096)]
    rows = [*request(0, [BASE + 20]), *request(1, [BASE + 36, BASE + 36])]
    hottest = run(rows, memory).tables["hottest"]
    assert hottest.select("object", "place", "accesses").rows() == [
        ("object 7", 1, 2),
        ("object 7", 0, 1),
    ]


def test_warps_are_those_of_all_blocks():
    rows = [
        *request(0, [BASE], warp=0),
        *request(1, [BASE], warp=1),
        *request(2, [BASE], warp=1, block=1),
        *request(3, [BASE], warp=1, block=1),
    ]
    report = run(rows)
    assert report.tables["hottest"].select("accesses", "warps").rows() == [(4, 3)]
    assert "object 3 4 times, by 3 warps in 1 launch" in report.findings[-1]
    assert run(rows, block=1).tables["hottest"].select("accesses", "warps").rows() == [(2, 1)]


def test_memory_on_the_chip_moves_nothing_in_vain():
    report = run(request(0, [0, 128], space=1), memory=[])
    columns = ("object", "sectors", "word_share", "unused_bytes")
    assert report.tables["objects"].select(columns).rows() == [("shared memory", 2, 1 / 8, 0)]
    assert len(report.findings) == 1


@FEW
@given(PROGRAMS)
def test_equals_counting(rows):
    report = run(rows)
    sectors, words, warps = Counter(), defaultdict(set), defaultdict(set)
    for row in rows:
        if row["op"] == 3:
            continue
        key = (NAMES[row["launch_id"]], "shared memory" if row["space"] == 1 else "object 3")
        start = BASE // 32 if row["space"] == 0 else 0
        words[key] |= set(granules(row, 4))
        for sector in granules(row, 32):
            sectors[*key, sector - start] += 1
            warps[*key, sector - start].add((row["launch_id"], row["block"], row["warp"]))
    found = report.tables["hottest"].select("name", "object", "place", "accesses", "warps").rows()
    assert {row[:3]: row[3] for row in found} == sectors
    assert {row[:3]: row[4] for row in found} == {key: len(seen) for key, seen in warps.items()}
    found = report.tables["objects"].select("name", "object", "words", "accesses").rows()
    assert {row[:2]: row[2] for row in found} == {key: len(seen) for key, seen in words.items()}
    assert sum(row[3] for row in found) == sectors.total()
