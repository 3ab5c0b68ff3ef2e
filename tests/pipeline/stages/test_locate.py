"""The stage `locate`."""

from __future__ import annotations

import polars as pl
import pytest

from pasta.errors import ConfigError
from pasta.pipeline.stages.lifetimes import lifetimes
from pasta.pipeline.stages.locate import locate
from pasta.trace import empty_table


def memory(*events):
    """Rows of `memory` from (ts, event, space, address, bytes)."""
    rows = [
        {"rank": 0, "pid": 1, "device": 0, "object_id": 0}
        | dict(zip(("ts", "event", "space", "address", "bytes"), event, strict=True))
        for event in events
    ]
    return pl.DataFrame(rows, schema=empty_table("memory").schema)


OBJECTS = lifetimes(
    memory(
        (5, "release", "tensor", 0x900, 0x10),
        (10, "allocate", "tensor", 0x100, 0x40),
        (11, "allocate", "tensor", 0x140, 0x40),
        (12, "allocate", "pool", 0x100, 0x1000),
        (20, "release", "tensor", 0x100, 0x40),
        (30, "allocate", "tensor", 0x100, 0x10),
    )
)
FIRST, SECOND, REUSED, BEFORE = (
    OBJECTS.filter(space="tensor", address=address, ts=ts)["object_id"].item()
    if ts
    else OBJECTS.filter(began_before=True)["object_id"].item()
    for address, ts in ((0x100, 10), (0x140, 11), (0x100, 30), (0x900, None))
)


def accesses(*rows, space="tensor", device=0):
    columns = {"address": pl.UInt64, "ts": pl.Int64}
    return pl.DataFrame(rows, schema=columns, orient="row").select(
        pl.lit(0, pl.Int32).alias("rank"),
        pl.lit(1, pl.Int64).alias("pid"),
        pl.lit(device, pl.Int32).alias("device"),
        pl.lit(space).alias("space"),
        pl.all(),
    )


def test_an_address_belongs_to_the_object_that_is_live():
    asked = accesses((0x13F, 15), (0x140, 15), (0x100, 25), (0x108, 30), (0x110, 30), (0x17F, 99))
    found = locate(asked, OBJECTS)
    assert found["object_id"].to_list() == [FIRST, SECOND, 0, REUSED, 0, SECOND]
    assert found["offset"].to_list() == [0x3F, 0, None, 8, None, 0x3F]
    assert found["known"].to_list() == [True, True, False, True, False, True]
    assert found.select(asked.columns).equals(asked)


def test_what_began_before_the_trace_lives_from_its_start():
    found = locate(accesses((0x900, -(10**18)), (0x90F, 4), (0x900, 5), (0x910, 4)), OBJECTS)
    assert found["object_id"].to_list() == [BEFORE, BEFORE, 0, 0]


def test_spaces_devices_and_processes_do_not_mix():
    assert locate(accesses((0x400, 15)), OBJECTS)["object_id"].to_list() == [0]
    pool = locate(accesses((0x400, 15), (0x100, 25), space="pool"), OBJECTS)
    assert pool["offset"].to_list() == [0x300, 0]
    assert not locate(accesses((0x120, 15), device=1), OBJECTS)["known"].item()


def test_without_a_time_the_last_to_begin_counts():
    found = locate(accesses((0x100, None), (0x120, None)), OBJECTS, time=None)
    assert found["object_id"].to_list() == [REUSED, FIRST]


def test_nulls_are_unknown():
    found = locate(accesses((0x120, None), (None, 15)), OBJECTS)
    assert found["object_id"].to_list() == [0, 0]


def test_several_spaces_need_the_key():
    keys = ["rank", "pid", "device"]
    with pytest.raises(ConfigError, match=r"several spaces \(pool, tensor\)"):
        locate(accesses((0x120, 15)), OBJECTS, by=keys)
    found = locate(accesses((0x120, 15)), OBJECTS.filter(space="tensor"), by=keys)
    assert found["object_id"].to_list() == [FIRST]


def test_empty_inputs():
    nothing = locate(accesses((0x120, 15)), OBJECTS.clear())
    assert nothing["object_id"].to_list() == [0]
    assert locate(accesses(), OBJECTS.clear()).schema == nothing.schema
    assert nothing.schema["object_id"] == pl.UInt64
    assert nothing.schema["offset"] == pl.Int64


def test_missing_columns_are_named():
    with pytest.raises(ConfigError, match="accesses: needs column 'pc'"):
        locate(accesses(), OBJECTS, address="pc")
