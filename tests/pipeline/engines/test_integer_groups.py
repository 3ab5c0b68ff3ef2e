"""What of libcudf's groups goes to the kernel, with a stand-in for libcudf; what that finds, GPUs test."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import pytest

from pasta.pipeline.engines import integer_groups
from pasta.pipeline.engines.group_sums import _near_table


class Column:
    """A stand-in for libcudf's: so many rows of a kind."""

    def __init__(self, kind="INT64", rows=integer_groups.LEAST_ROWS, nulls=0):
        self.kind, self.rows, self.nulls = kind, rows, nulls

    def type(self):
        return SimpleNamespace(id=lambda: SimpleNamespace(name=self.kind))

    def size(self):
        return self.rows

    def null_count(self):
        return self.nulls


class Keys:
    def __init__(self, *columns):
        self.held = list(columns)

    def columns(self):
        return self.held


class Request:
    def __init__(self, values, aggregations):
        self.given = values, aggregations


class GroupBy:
    def __init__(self, keys, null_handling=None, keys_are_sorted="no"):
        self.given = keys, null_handling, keys_are_sorted

    def aggregate(self, requests, stream=None, mr=None):
        return "libcudf", requests, stream, mr


def aggregation(name):
    return SimpleNamespace(kind=lambda: SimpleNamespace(name=name))


@pytest.fixture
def libcudf(monkeypatch):
    """A stand-in that is mended; the kernel has found what is in `found`."""
    made = SimpleNamespace(
        groupby=SimpleNamespace(GroupBy=GroupBy, GroupByRequest=Request),
        types=SimpleNamespace(Sorted=SimpleNamespace(YES="yes")),
        found="kernel",
    )
    monkeypatch.setitem(sys.modules, "pylibcudf", made)
    monkeypatch.setattr(integer_groups, "_aggregated", lambda *_given: made.found)
    integer_groups.mend.__wrapped__()
    return made


def aggregated(libcudf, keys, asked, **how):
    requests = [
        libcudf.groupby.GroupByRequest(values, list(map(aggregation, names)))
        for values, *names in asked
    ]
    return libcudf.groupby.GroupBy(Keys(*keys), **how).aggregate(requests, "stream")


ALL = (Column(), "COUNT_ALL")


@pytest.mark.parametrize(
    ("keys", "asked"),
    [
        ([Column()], [ALL]),
        ([Column("UINT64"), Column("INT8")], [ALL, (Column("INT32"), "SUM")]),
        ([Column()], [(Column(), "SUM", "COUNT_VALID", "COUNT_ALL")]),
        ([Column()], [(Column("STRING", nulls=3), "COUNT_ALL")]),
        ([Column()], [(Column(), *["SUM"] * 8)]),
    ],
)
def test_counts_and_sums_of_many_rows_by_integers_are_for_the_kernel(libcudf, keys, asked):
    assert aggregated(libcudf, keys, asked) == "kernel"
    libcudf.found = None
    assert aggregated(libcudf, keys, asked)[0] == "libcudf"


@pytest.mark.parametrize(
    ("keys", "asked"),
    [
        ([Column(rows=integer_groups.LEAST_ROWS - 1)], [ALL]),
        ([Column("STRING")], [ALL]),
        ([Column(), Column("FLOAT64")], [ALL]),
        ([Column(nulls=1)], [ALL]),
        ([Column()], []),
        ([Column()], [(Column("FLOAT64"), "SUM")]),
        ([Column()], [(Column("UINT64"), "SUM")]),
        ([Column()], [(Column(nulls=1), "SUM")]),
        ([Column()], [(Column(nulls=1), "COUNT_VALID")]),
        ([Column()], [ALL, (Column(), "MAX")]),
        ([Column()], [(Column(), *["SUM"] * 9)]),
    ],
)
def test_all_else_is_left_to_libcudf(libcudf, keys, asked):
    assert aggregated(libcudf, keys, asked)[0] == "libcudf"


def test_sorted_keys_are_left_to_libcudf(libcudf):
    assert aggregated(libcudf, [Column()], [ALL], keys_are_sorted="yes")[0] == "libcudf"
    assert aggregated(libcudf, [Column()], [ALL], keys_are_sorted="no") == "kernel"
    request = libcudf.groupby.GroupByRequest(Column(), [aggregation("COUNT_ALL")])
    in_order = libcudf.groupby.GroupBy(Keys(Column()), "include", "yes")
    assert in_order.aggregate([request], "stream")[0] == "libcudf"


@pytest.mark.parametrize("where", [{}, {"stream": "stream", "mr": "memory"}])
def test_without_a_stream_and_with_another_memory_libcudf_does_it(libcudf, where):
    request = libcudf.groupby.GroupByRequest(Column(), [aggregation("COUNT_ALL")])
    assert libcudf.groupby.GroupBy(Keys(Column())).aggregate([request], **where)[0] == "libcudf"


@pytest.mark.parametrize("sums", range(9))
def test_the_table_of_a_block_fits_into_shared_memory(sums):
    bits, size = _near_table(sums)
    assert size == (8 + 4 * (1 + 2 * sums)) << bits
    assert size <= 96 << 10
    assert bits == 12 or size * 2 > 96 << 10
