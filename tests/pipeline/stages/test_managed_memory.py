"""The stage `managed_memory` against a device memory that is walked page by page."""

from __future__ import annotations

import math

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pasta.errors import ConfigError
from pasta.pipeline.stages.managed_memory import managed_memory
from tests.pipeline.test_within import assert_works_within

PAGE, BLOCK = 4, 16
TYPES = {
    "device": pl.Int32,
    "policy": pl.String,
    "ts": pl.Int64,
    "address": pl.UInt64,
    "bytes": pl.Int64,
    "prefetch": pl.Boolean,
    "held": pl.Boolean,
}
USES = st.lists(
    st.tuples(
        st.integers(0, 1),
        st.sampled_from(["a", "b"]),
        st.none() | st.integers(0, 6),
        st.none() | st.integers(0, 120),
        st.integers(-1, 40),
        st.booleans(),
        st.booleans(),
    ),
    max_size=25,
)
DEFAULTS = {"by": ["device"], "policy": "policy", "order": ["ts"], "page": PAGE, "block": BLOCK}
COUNTS = [
    "faults",
    "fault_bytes",
    "prefetch_bytes",
    "new_bytes",
    "evictions",
    "bytes_out",
    "wasted_bytes",
    "fitting_faults",
    "fitting_bytes",
]


class Memory:
    """A device memory in which every page is looked at: pages of blocks, the last used at the end."""

    def __init__(self, blocks):
        self.blocks, self.resident, self.seen = blocks, {}, set()
        self.counts = dict.fromkeys(COUNTS[:7], 0)

    def use(self, page, prefetch, held):
        block = page * PAGE // BLOCK
        if block not in self.resident and len(self.resident) == self.blocks:
            gone = self.resident.pop(next(iter(self.resident)))
            self.counts["evictions"] += 1
            self.counts["bytes_out"] += PAGE * len(gone)
            self.counts["wasted_bytes"] += PAGE * sum(unused for unused in gone.values())
        pages = self.resident.pop(block, {})
        self.resident[block] = pages
        if page not in pages:
            comes = page in self.seen or held
            kind = ("prefetch_bytes" if prefetch else "fault_bytes") if comes else "new_bytes"
            self.counts[kind] += PAGE
            self.counts["faults"] += not prefetch
        pages[page] = prefetch and pages.get(page, True)
        self.seen.add(page)


def pages_of(row):
    _, _, _, address, size, _, _ = row
    if address is None or size <= 0:
        return range(0)
    return range(address // PAGE, (address + size - 1) // PAGE + 1)


def walk(rows, memory, oversubscription):
    """For each device, policy and step: the sizes and the counts, and the memories at the end."""
    rows = [row for row in rows if pages_of(row)]
    steps = sorted(
        {row[:3] for row in rows}, key=lambda s: (s[0], s[1], s[2] is not None, s[2] or 0)
    )
    used = {
        device: len(
            {p * PAGE // BLOCK for r in rows if r[0] == device and not r[5] for p in pages_of(r)}
        )
        for device in (0, 1)
    }
    found, memories = [], {}
    for device, policy, ts in steps:
        wanted = memory // BLOCK if memory else math.ceil(used[device] / oversubscription)
        blocks = max(wanted, 1)
        kept = memories.setdefault((device, policy), (Memory(blocks), Memory(10**9)))
        for each in kept:
            each.counts = dict.fromkeys(each.counts, 0)
        here = [row for row in rows if row[:3] == (device, policy, ts)]
        block_uses = [
            (
                not row[5],
                block,
                place,
                [p for p in pages_of(row) if p * PAGE // BLOCK == block],
                row,
            )
            for place, row in enumerate(here)
            for block in {p * PAGE // BLOCK for p in pages_of(row)}
        ]
        for *_, pages, row in sorted(block_uses, key=lambda use: use[:3]):
            for page in pages:
                for each in kept:
                    each.use(page, row[5], row[6])
        limited, unlimited = (each.counts for each in kept)
        fitting = (unlimited["faults"], unlimited["fault_bytes"] + unlimited["prefetch_bytes"])
        sizes = (used[device] * BLOCK, blocks * BLOCK)
        found.append((device, policy, ts, *sizes, *limited.values(), *fitting))
    return found, {key: kept[0] for key, kept in memories.items()}


def frame(rows):
    return pl.DataFrame(rows, schema=TYPES, orient="row")


@given(USES, st.sampled_from([0, 5, 16, 40, 64, 200]), st.sampled_from([0.5, 1.0, 1.5, 3.0]))
def test_equals_a_walk_page_by_page(rows, memory, oversubscription):
    found = managed_memory(
        frame(rows), memory=memory, oversubscription=oversubscription, **DEFAULTS
    )
    expected, memories = walk(rows, memory, oversubscription)
    assert found.columns == ["device", "policy", "ts", "used_bytes", "memory_bytes", *COUNTS]
    assert found.rows() == expected
    for (device, policy), kept in memories.items():
        sums = found.filter(device=device, policy=policy).sum().row(0, named=True)
        came = sums["fault_bytes"] + sums["prefetch_bytes"] + sums["new_bytes"]
        resident = sum(len(pages) for pages in kept.resident.values()) * PAGE
        assert came - sums["bytes_out"] == resident
        assert sums["wasted_bytes"] <= sums["bytes_out"]


@settings(max_examples=30)
@given(USES)
def test_more_memory_never_means_more_faults_without_advice(rows):
    """LRU is a stack algorithm: what a small memory holds, a larger one holds too."""
    demand = [(*row[:5], False, row[6]) for row in rows]
    faults, moved = [], []
    for blocks in range(1, 11):
        found = managed_memory(frame(demand), memory=blocks * BLOCK, **DEFAULTS)
        faults.append(found["faults"].sum())
        moved.append((found["fault_bytes"] + found["bytes_out"]).sum())
    assert faults == sorted(faults, reverse=True)
    assert moved == sorted(moved, reverse=True)
    assert faults[-1] == found["fitting_faults"].sum()


@given(USES)
def test_nothing_faults_where_all_fits_and_was_prefetched(rows):
    ahead = [(*row[:5], True, row[6]) for row in rows]
    demand = [(*row[:5], False, row[6]) for row in rows]
    found = managed_memory(frame(ahead + demand), memory=1_600, **DEFAULTS)
    assert found.select("faults", "evictions", "bytes_out", "wasted_bytes").sum().row(0) == (0,) * 4


@settings(max_examples=30)
@given(USES)
def test_each_device_is_simulated_for_itself(rows):
    of_processes = frame(rows).with_columns(trace=pl.lit("t"), rank=pl.col("device"))
    arguments = {**DEFAULTS, "by": ["trace", "rank"], "memory": 2 * BLOCK, "oversubscription": 1.0}
    assert_works_within("managed_memory", [of_processes.sort("rank")], arguments)


def uses(*steps):
    """Steps of `(address, bytes, prefetch)` that held data before."""
    return frame([(0, "a", ts, *use, True) for ts, step in enumerate(steps) for use in step])


def test_a_loop_that_is_one_block_too_large_misses_always():
    loop = [[(0, 16, False)], [(16, 16, False)], [(32, 16, False)]]
    found = managed_memory(uses(*loop, *loop), memory=2 * BLOCK, **DEFAULTS)
    assert found["faults"].to_list() == [4] * 6
    assert found["bytes_out"].to_list() == [0, 0, 16, 16, 16, 16]
    assert found["fitting_faults"].to_list() == [4, 4, 4, 0, 0, 0]


def test_a_prefetch_that_is_too_large_evicts_itself():
    found = managed_memory(uses([(0, 64, True), (0, 4, False)]), memory=2 * BLOCK, **DEFAULTS)
    row = found.row(0, named=True)
    assert (row["prefetch_bytes"], row["faults"], row["fault_bytes"]) == (64, 1, 4)
    assert (row["evictions"], row["bytes_out"], row["wasted_bytes"]) == (3, 48, 48)


def test_new_pages_move_nothing_until_they_come_back():
    rows = [(0, "a", ts, address, 16, False, False) for ts, address in enumerate([0, 16, 0])]
    found = managed_memory(frame(rows), memory=BLOCK, **DEFAULTS)
    assert found["new_bytes"].to_list() == [16, 16, 0]
    assert found["fault_bytes"].to_list() == [0, 0, 16]
    assert found["faults"].to_list() == [4, 4, 4]


def test_the_memory_of_a_factor_is_that_part_of_what_is_used():
    rows = uses([(0, 96, False)], [(200, 64, True)])
    found = managed_memory(rows, oversubscription=4.0, **DEFAULTS)
    assert found.select("used_bytes", "memory_bytes").row(0) == (96, 32)


def test_real_sizes_high_in_the_address_space():
    whole = (0, "a", 0, (1 << 57) - (1 << 21), 1 << 21, False, False)
    beyond = (0, "a", 0, 2**64 - 1, 1 << 21, False, False)
    found = managed_memory(frame([whole, beyond]), by=["device"], policy="policy", order=["ts"])
    assert found.select("faults", "new_bytes", "used_bytes").row(0) == (32, 1 << 21, 1 << 21)


def test_empty():
    found = managed_memory(frame([]), **DEFAULTS)
    assert found.height == 0
    assert found.schema["ts"] == pl.Int64
    assert {found.schema[name] for name in COUNTS} == {pl.Int64}


@pytest.mark.parametrize(
    ("arguments", "path"),
    [
        ({"block": 10}, "block"),
        ({"page": 1, "block": 128}, "block"),
        ({"page": 0}, "block"),
        ({"memory": -1}, "memory"),
        ({"oversubscription": 0.0}, "oversubscription"),
        ({"oversubscription": math.nan}, "oversubscription"),
    ],
)
def test_mistakes(arguments, path):
    with pytest.raises(ConfigError) as error:
        managed_memory(frame([]), **{**DEFAULTS, **arguments})
    assert error.value.path == path
