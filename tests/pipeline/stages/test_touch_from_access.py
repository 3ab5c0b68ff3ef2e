"""The stage `touch_from_access`, by hand and against a loop over bytes."""

from __future__ import annotations

from collections import defaultdict

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pasta.errors import ConfigError
from pasta.pipeline.stages.lifetimes import lifetimes
from pasta.pipeline.stages.touch_from_access import touch_from_access
from pasta.trace import empty_table

READ, WRITE, ATOMIC, PREFETCH = range(4)
SPACES = ["global", "shared", "local", "generic", "remote_shared", "texture"]
COLUMNS = ["reads", "writes", "atomics", "bytes_read", "bytes_written"]
UNIQUE = ["unique_read", "unique_written", "unique_bytes"]


def table(name, rows):
    complete = [{"rank": 0, "pid": 1, "device": 0, **row} for row in rows]
    return pl.DataFrame(complete, schema=empty_table(name).schema)


def allocate(ts, space, address, size, thing):
    return {"ts": ts, "event": "allocate", "space": space, "address": address, "bytes": size, "object_id": thing}  # fmt: skip


def release(ts, space, address, size, thing):
    return {**allocate(ts, space, address, size, thing), "event": "release"}


def access(launch, op, address, size=4, space=0):
    return {"launch_id": launch, "op": op, "address": address, "bytes": size, "space": space}


def kernel(launch, ts):
    return {"launch_id": launch, "ts": ts}


def run(accesses, memory, kernels, **arguments):
    lives = lifetimes(table("memory", memory))
    found = touch_from_access(table("access", accesses), lives, table("kernel", kernels), **arguments)  # fmt: skip
    assert found.schema == empty_table("touch").schema
    return found


def row(found, space, thing=0, block=None, launch=1):
    is_block = pl.col("block").is_null() if block is None else pl.col("block") == block
    one = found.filter(is_block, space=space, object_id=thing, launch_id=launch)
    return one.to_dicts()[0] if one.height else None


MEMORY = [
    allocate(0, "device", 0x1000, 0x300, 1),
    allocate(0, "pinned", 0x1300, 0x100, 2),
    allocate(1, "tensor", 0x1000, 0x100, 7),
]


def test_counts_and_bytes_belong_to_the_object_of_the_first_byte():
    """512-byte granules 0x1000 and 0x1200; the access at 0x12FE reaches into object 2."""
    accesses = [
        access(1, READ, 0x1000),
        access(1, READ, 0x1000),
        access(1, WRITE, 0x10FC),
        access(1, ATOMIC, 0x1100, 8),
        access(1, READ, 0x12FE),
        access(1, PREFETCH, 0x1000),
        access(1, WRITE, 0x2000),
    ]
    found = run(accesses, MEMORY, [kernel(1, 5)])
    whole = row(found, "global")
    assert [whole[name] for name in COLUMNS] == [3, 2, 1, 20, 16]
    assert [whole[name] for name in UNIQUE] == [1024, 1024, 1536]
    device, tensor, outside = row(found, "device", 1), row(found, "tensor", 7), row(found, "tensor")
    assert [device[name] for name in COLUMNS] == [3, 1, 1, 20, 12]
    assert [device[name] for name in UNIQUE] == [0x300, 0x200, 0x300]
    assert [tensor[name] for name in COLUMNS] == [2, 1, 0, 8, 4]
    assert [tensor[name] for name in UNIQUE] == [0x100, 0x100, 0x100]
    assert [outside[name] for name in COLUMNS] == [1, 0, 1, 12, 8]
    assert [outside[name] for name in UNIQUE] == [0x200, 0x100, 0x200]
    assert row(found, "pinned", 2) is None
    unknown = row(found, "unknown")
    assert [unknown[name] for name in COLUMNS] == [0, 1, 0, 0, 4]
    assert unknown["unique_bytes"] is None


def test_an_access_marks_every_granule_it_reaches_into_but_counts_once():
    """A bulk copy of 0x500 bytes from 0x1180 begins in object 1 and goes on in object 2."""
    accesses = [access(1, READ, 0x1180, 0x500)]
    found = run(accesses, MEMORY, [kernel(1, 5)], granularity=0x100, blocks=True)
    first, second = row(found, "device", 1), row(found, "pinned", 2)
    assert (first["reads"], first["bytes_read"], first["unique_bytes"]) == (1, 0x500, 0x200)
    assert (second["reads"], second["bytes_read"], second["unique_bytes"]) == (0, 0, 0x100)
    assert row(found, "global")["unique_bytes"] == 0x600
    assert found.filter(pl.col("block").is_not_null()).select("object_id", "block", "reads").rows() == [(1, 1, 1)]  # fmt: skip


def test_blocks_are_numbered_from_the_granule_in_which_the_object_begins():
    memory = [allocate(0, "device", 0x1300, 0x300, 4)]
    accesses = [access(1, READ, 0x1300), access(1, WRITE, 0x1400), access(1, READ, 0x1404)]
    blocks = run(accesses, memory, [kernel(1, 5)], blocks=True).drop_nulls("block")
    assert blocks.select("block", "granularity", "reads", "writes").rows() == [(0, 512, 1, 0), (1, 512, 1, 1)]  # fmt: skip


def test_objects_count_only_while_they_are_alive():
    memory = [
        allocate(0, "device", 0x1000, 0x200, 1),
        release(10, "device", 0x1000, 0x200, 1),
        allocate(20, "device", 0x1000, 0x400, 2),
    ]
    kernels = [kernel(launch, ts) for launch, ts in ((1, 5), (2, 10), (3, 20))]
    accesses = [access(launch, READ, 0x1000) for launch in (1, 2, 3, 4)]
    found = run(accesses, memory, kernels)
    assert [row(found, "device", 1, launch=n) is not None for n in (1, 2, 3, 4)] == [True, False, False, False]  # fmt: skip
    assert row(found, "device", 2, launch=3)["unique_bytes"] == 512
    assert [row(found, "unknown", launch=n) is not None for n in (1, 2, 3, 4)] == [False, True, False, True]  # fmt: skip
    assert found.filter(space="tensor").is_empty()


def test_other_spaces_are_counted_only():
    accesses = [access(1, READ, 16, 16, space=1), access(1, WRITE, 32, 4, space=2)]
    found = run(accesses, [], [kernel(1, 5)])
    columns = ["space", "reads", "writes", "bytes_read", "bytes_written", "granularity", "unique_bytes"]  # fmt: skip
    assert found.select(columns).rows() == [
        ("local", 0, 1, 0, 4, 0, None),
        ("shared", 1, 0, 16, 0, 0, None),
    ]


def test_an_access_without_an_address_is_counted_and_in_no_object():
    memory = [allocate(0, "device", 0, 4_096, 1)]
    found = run([access(1, READ, None), access(1, WRITE, 8)], memory, [kernel(1, 5)])
    assert [row(found, "global")[name] for name in COLUMNS] == [1, 1, 0, 4, 4]
    assert [row(found, "device", 1)[name] for name in COLUMNS + UNIQUE] == [0, 1, 0, 0, 4, 0, 512, 512]  # fmt: skip


def test_a_row_may_stand_for_several_accesses():
    accesses = [access(1, READ, 0x1000), access(1, ATOMIC, 0x1004)]
    weighed = table("access", accesses).with_columns(times=pl.Series([5, 2]))
    lives = lifetimes(table("memory", MEMORY))
    found = touch_from_access(weighed, lives, table("kernel", [kernel(1, 5)]), count="times")
    assert [row(found, "device", 1)[name] for name in COLUMNS] == [5, 0, 2, 28, 8]


def test_a_granule_is_at_least_a_byte():
    with pytest.raises(ConfigError, match="must be 1 byte or more, got 0"):
        run([], MEMORY, [], granularity=0)


class Loop:
    """Every byte of every access, one after the other; objects are (id, begin, end, born, died)."""

    def __init__(self, allocations, tensors, times, size):
        self.allocations, self.tensors, self.times, self.size = allocations, tensors, times, size
        self.counts = defaultdict(lambda: [0] * 5)
        self.read, self.written = defaultdict(set), defaultdict(set)

    def holder(self, objects, address, launch):
        for thing, begin, end, born, died in objects:
            if begin <= address < end and born <= self.times[launch] < died:
                return thing
        return 0

    def places(self, launch, address):
        """The rows to which an access at `address` belongs beside the launch's own."""
        thing, tensor = (self.holder(o, address, launch) for o in (self.allocations, self.tensors))
        yield (launch, "device", thing) if thing else (launch, "unknown", 0)
        if tensor or (thing and self.tensors):
            yield launch, "tensor", tensor

    def add(self, item):
        launch, op, address, length = (item[n] for n in ("launch_id", "op", "address", "bytes"))
        if op == PREFETCH:
            return
        reads, writes = op != WRITE, op != READ
        counts = [op == READ, op == WRITE, op == ATOMIC, length * reads, length * writes]
        whole = (launch, SPACES[item["space"]], 0)
        places = [whole] if whole[1] != "global" else [whole, *self.places(launch, address)]
        for place in places:
            self.counts[place] = [a + b for a, b in zip(self.counts[place], counts, strict=True)]
        if whole[1] == "global":
            for byte in range(address, address + length):
                if byte == address or byte % self.size == 0:
                    self.mark(launch, byte, reads=reads, writes=writes)

    def mark(self, launch, address, *, reads, writes):
        begin = address // self.size * self.size
        granule = set(range(begin, begin + self.size))
        marked = [((launch, "global", 0), granule)]
        for place in self.places(launch, address):
            same = {byte for byte in granule if place in self.places(launch, byte)}
            if place[1] == "tensor" and not place[2]:
                held = self.holder(self.allocations, address, launch)
                same = {b for b in same if self.holder(self.allocations, b, launch) == held}
            marked.append((place, same))
        for place, found in marked:
            self.counts[place]
            self.read[place] |= found if reads else set()
            self.written[place] |= found if writes else set()

    def rows(self):
        for place, counts in self.counts.items():
            read, written = self.read[place], self.written[place]
            if place[1] in ("global", "device", "tensor"):
                yield place, (*counts, len(read), len(written), len(read | written))
            elif any(counts):
                yield place, (*counts, None, None, None)


TIMES = {1: 5, 2: 15}
SIZES = st.sampled_from([1, 3, 8, 16])
LIVES = st.tuples(st.sampled_from([(0, 10), (0, 99), (12, 99)]), st.integers(0, 6), st.integers(1, 40))  # fmt: skip


def laid_out(lives, first_id, base):
    """Objects beside each other, with gaps: none overlap."""
    found, address = [], base
    for number, ((born, died), gap, size) in enumerate(lives):
        found.append((first_id + number, address + gap, address + gap + size, born, died))
        address += gap + size
    return found


def events(lives, space):
    for thing, begin, end, born, died in lives:
        yield allocate(born, space, begin, end - begin, thing)
        if died < 99:
            yield release(died, space, begin, end - begin, thing)


@given(
    st.lists(
        st.builds(
            access,
            st.sampled_from([1, 2]),
            st.integers(0, 3),
            st.integers(90, 230),
            st.sampled_from([1, 4, 16, 50]),
            st.sampled_from([0, 0, 0, 1, 4]),
        ),
        max_size=12,
    ),
    st.lists(LIVES, max_size=4),
    st.lists(LIVES, max_size=4),
    SIZES,
)
def test_against_a_loop_over_bytes(accesses, allocations, tensors, size):
    held, inner = laid_out(allocations, 1, 100), laid_out(tensors, 11, 103)
    memory = [*events(held, "device"), *events(inner, "tensor")]
    kernels = [kernel(launch, ts) for launch, ts in TIMES.items()]
    found = run(accesses, memory, kernels, granularity=size, blocks=True)
    whole = found.filter(pl.col("block").is_null())
    rows = {r[:3]: r[3:] for r in whole.select("launch_id", "space", "object_id", *COLUMNS, *UNIQUE).iter_rows()}  # fmt: skip
    assert len(rows) == whole.height
    loop = Loop(held, inner, TIMES, size)
    for item in accesses:
        loop.add(item)
    assert rows == dict(loop.rows())
    blocks = found.filter(pl.col("block").is_not_null()).group_by("launch_id", "object_id").agg(pl.col(COLUMNS).sum())  # fmt: skip
    for launch, thing, *counted in blocks.iter_rows():
        assert tuple(counted) == rows[launch, "device", thing][:5]
