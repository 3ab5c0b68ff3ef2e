"""Generated traces are like the real one, and the same however they are cut."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import polars as pl
import pytest
from polars.testing import assert_frame_equal

import pasta
from benchmarks.generate import Durations, Generator, Size, Template, random_bits
from pasta.tools.shipped import SHIPPED_TRACE
from pasta.trace import Trace
from tests.conftest import ROOT

REAL = Trace.open(SHIPPED_TRACE)
KERNELS = 2_000
ACCESSES = 30_000


@pytest.fixture(scope="module")
def template():
    return Template(REAL)


@pytest.fixture(scope="module")
def generated(template, tmp_path_factory):
    folder = tmp_path_factory.mktemp("generated") / "t"
    Generator(template, Size(3, KERNELS, ACCESSES, 700), seed=5).write(folder)
    return Trace.open(folder)


def test_the_same_rows_whatever_the_files_and_others_for_another_seed(template, generated):
    whole = Generator(template, Size(3, KERNELS, ACCESSES), seed=5)
    other = Generator(template, Size(3, KERNELS, ACCESSES), seed=6)
    for table in ("kernel", "span", "access", "memory", "process"):
        parts = [whole.part(table, rank, 0, whole.rows(table)) for rank in range(3)]
        expected = pl.concat(parts)
        found = generated.scan(table).collect().select(expected.columns)
        assert_frame_equal(found, expected)
    for table in ("kernel", "access"):
        rows = other.part(table, 0, 0, other.rows(table))
        assert not rows.equals(whole.part(table, 0, 0, whole.rows(table)))


def test_files_have_the_rows_that_were_asked_for(generated):
    assert {file.parent.parent.name for file in generated.files("span")} == {
        f"rank-{rank:05d}" for rank in range(3)
    }
    assert generated.rows("access") == ACCESSES
    assert generated.rows("kernel") == 3 * 2 * 456
    first = pl.read_parquet(generated.files("span")[0], hive_partitioning=False)
    assert first.height == 700


def test_names_are_as_frequent_and_durations_of_one_name_alike(generated):
    shares = []
    for trace in (REAL, generated):
        rows = trace.scan("kernel").group_by("name").agg(pl.len(), pl.col("dur").mean())
        shares.append(rows.sort("name").collect())
    real, found = shares
    assert found["name"].to_list() == real["name"].to_list()
    assert (found["len"] == real["len"] * 6).all()
    total = [(rows["len"] * rows["dur"]).sum() / rows["len"].sum() for rows in shares]
    assert total[1] == pytest.approx(total[0], rel=0.05)
    assert found["dur"].to_list() != real["dur"].to_list()


def test_times_go_up_and_ids_are_unique_in_a_process(generated):
    spans = generated.scan("span").collect()
    for _, rows in spans.group_by("rank"):
        assert rows["ts"].is_sorted()
        assert rows["span_id"].n_unique() == rows.height
    kernels = generated.scan("kernel").collect()
    for _, rows in kernels.group_by("rank"):
        assert rows["launch_id"].n_unique() == rows.height
        assert rows["pid"].n_unique() == 1


def test_links_between_tables_hold(generated):
    kernels, calls = generated.scan("kernel"), generated.scan("call")
    keys = ["rank", "pid", "correlation"]
    linked = [
        trace.scan("kernel").join(trace.scan("call"), on=keys, how="semi").select(pl.len())
        for trace in (REAL, generated)
    ]
    real, found = (plan.collect().item() for plan in linked)
    assert found == 6 * real > 0
    late = kernels.join(calls, on=keys).filter(pl.col("ts") < pl.col("ts_right"))
    early = REAL.scan("kernel").join(REAL.scan("call"), on=keys)
    early = early.filter(pl.col("ts") < pl.col("ts_right"))
    assert late.collect().height == 6 * early.collect().height


def test_memory_that_lives_at_the_end_of_a_cycle_is_released(generated):
    live = (
        generated.scan("memory")
        .with_columns(sign=pl.when(pl.col("event") == "allocate").then(1).otherwise(-1))
        .group_by("rank", "device", "space", "address")
        .agg(pl.col("sign").sum())
        .filter(pl.col("sign") > 0)
        .collect()
    )
    assert live.height == 0


def test_tools_find_in_it_what_they_find_in_the_real_one(generated):
    real, found = (pasta.run("launches", trace=trace) for trace in (REAL, generated))
    assert found.facts["launches"] == 6 * real.facts["launches"] > 0


def test_accesses_are_in_order_few_addresses_are_hot_and_each_launch_has_its_share(generated):
    rows = generated.scan("access").filter(rank=1).collect()
    place = ["launch_id", "request", "lane"]
    assert_frame_equal(rows.select(place), rows.select(place).sort(place))
    assert rows.select(place).is_duplicated().sum() == 0
    launches = set(generated.scan("kernel").filter(rank=1).collect()["launch_id"])
    assert set(rows["launch_id"]) == launches
    counts = rows["launch_id"].value_counts()["count"]
    assert counts.max() - counts.min() <= 1
    pages = (rows["address"] // (2 << 20)).value_counts(sort=True)["count"]
    assert pages[0] > 50 * pages.median()
    assert (rows["op"] == 1).mean() == pytest.approx(0.3, abs=0.02)
    assert (rows["address"] % 4 == 0).all()


def test_durations_end_before_the_stream_goes_on():
    rows = pl.DataFrame(
        {
            "pid": 1,
            "device": 0,
            "stream": [7, 7, 7, 8],
            "ts": [0, 100, 500, 0],
            "dur": [50, 400, 30, 7],
            "name": ["a", "a", "a", "b"],
        }
    )
    drawn = Durations(rows, np)
    row = np.repeat(np.arange(4), 500)
    found = drawn.draw(row, random_bits(np, np.arange(2_000), 1)).reshape(4, 500)
    assert [set(values.tolist()) for values in found] == [
        {50, 100, 30},
        {50, 400, 30},
        {30},
        {7},
    ]


def test_random_bits_are_even_and_differ_by_key():
    index = np.arange(100_000)
    bits = random_bits(np, index, 1, "a")
    ones = np.unpackbits(bits.view(np.uint8)).mean()
    assert ones == pytest.approx(0.5, abs=0.002)
    assert len(np.unique(bits)) == len(bits)
    assert not np.isin(bits, random_bits(np, index, 1, "b")).any()


def test_a_real_trace_without_kernels_is_refused(make_trace):
    template = Template(make_trace(span=[{"ts": 5, "dur": 2, "name": "x", "span_id": 1}]))
    with pytest.raises(ValueError, match="no kernels"):
        template.cycles(Size(1, 10))


def test_an_imported_profile_serves_as_the_real_one(samples, tmp_path):
    profile = samples / "kineto" / "tracelens_h100_bert_small.json.gz"
    made = Generator(Template(pasta.open(profile)), Size(2, 3_000))
    made.write(tmp_path / "t", ["kernel", "span", "call", "copy"])
    trace = Trace.open(tmp_path / "t")
    assert trace.rows("kernel") >= 3_000
    report = pasta.run("operator_time", trace=trace)
    assert report.facts["kernels"] == trace.rows("kernel")


def test_the_command_writes_a_trace(tmp_path):
    command = ["benchmarks/generate.py", str(tmp_path / "t"), "--kernels", "500", "--ranks", "2"]
    done = subprocess.run(
        [sys.executable, *command], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert "kernel: 912 rows" in done.stdout
    assert Trace.open(tmp_path / "t").rows("kernel") == 912
