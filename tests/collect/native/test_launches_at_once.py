"""Each launch has what it did, whatever other threads do meanwhile; the GPU is a stand-in."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import polars as pl
import pyarrow as pa
import pytest

from pasta.collect.channel import Channel
from pasta.collect.wire import TEXT, TEXTS, WIRE_TABLES, Decoder
from tests.collect.native.cubin_help import LOAD, MOVE, STORE, cubin
from tests.collect.native.threads_help import THREAD_SANITIZER, compiled, output_of

SOURCE = Path(__file__).with_name("launches_at_once.cpp")
LAUNCHES = {"streams": 500, "failed": 600, "contexts": 160, "closing": 2, "trouble": 600}
pytestmark = pytest.mark.native


@pytest.fixture(scope="module", params=[(), THREAD_SANITIZER], ids=["plain", "thread_sanitizer"])
def program(request, tmp_path_factory):
    return compiled(tmp_path_factory.mktemp("native"), SOURCE, request.param)


def tables_of(program, *what):
    tables: dict[str, list[pa.Table]] = {}
    with Channel.create("launches", tables=WIRE_TABLES) as channel:
        with ThreadPoolExecutor() as threads:
            running = threads.submit(output_of, program, channel.folder, *what)
            decoder = None
            while True:
                ended, batch = running.done(), channel.poll()
                if batch is None and ended:
                    break
                if batch is None:
                    time.sleep(0.001)
                    continue
                with batch:
                    decoder = decoder or Decoder(batch.producer)
                    if batch.table in (TEXT, TEXTS):
                        decoder.learn(batch.table, batch.rows)
                    else:
                        rows = decoder.rows(batch.table, batch.rows)
                        tables.setdefault(batch.table, []).append(rows)
            told = running.result()
        assert channel.losses() == []
    found = {name: pl.from_arrow(pa.concat_tables(parts)) for name, parts in tables.items()}
    return found, told


@pytest.mark.parametrize("what", LAUNCHES)
def test_each_launch_has_what_its_kernel_did(program, what):
    tables, _ = tables_of(program, what)
    launches = tables["kernel"].select("launch_id", "grid_x")
    touch = tables["touch"].filter(object_id=0, space="global")
    touched = launches.join(touch, on="launch_id", how="left").sort("launch_id")
    assert launches.height == LAUNCHES[what]
    wrong = touched.filter(pl.col("reads").ne_missing(pl.col("grid_x").cast(pl.Int64)))
    assert wrong.is_empty()
    assert touched["unique_read"].to_list() == [512] * LAUNCHES[what]
    assert touched["launch_id"].n_unique() == LAUNCHES[what]
    losses = dict(tables["loss"].select("reason", "count").rows()) if "loss" in tables else {}
    failures = {"Compute Sanitizer: copy: failed": 3, "Compute Sanitizer: clearing: failed": 3}
    assert losses == (failures if what == "trouble" else {})


PATCHED = """\
not watched: 0
watched: 2
no longer: 0
captured: 1
one more module: 2
replayed while watched: 2
replayed later: 2
"""


def test_patches_stay_from_a_graph_on_in_its_context(program):
    tables, told = tables_of(program, "graphs")
    assert told == PATCHED
    launches = tables["kernel"].sort("launch_id").select("launch_id", "name", "grid_x")
    touch = tables["touch"].filter(object_id=0, space="global").select("launch_id", "reads")
    did = launches.join(touch, on="launch_id").drop("launch_id").rows()
    graph = "CUDA graph of {} kernels"
    assert did == [
        ("kernel", 2, 2),
        ("kernel", 3, 3),
        (graph.format(3), 9, 27),
        (graph.format(2), 10, 10),  # its kernel in the other context has no counts
    ]
    graphs = tables["kernel"].sort("launch_id").filter(pl.col("graph_id") > 0)["graph_id"].to_list()
    assert graphs == [1, 1, 1, 2]
    losses = dict(tables["loss"].select("reason", "count").rows())
    elsewhere = [count for reason, count in losses.items() if "another device" in reason]
    assert elsewhere == [1]
    assert not any("another thread" in reason for reason in losses)


def test_tensor_copies_are_told_by_the_maps_that_a_launch_is_given(program, tmp_path):
    module = tmp_path / "module"
    module.write_bytes(cubin({"loads": [LOAD], "stores": [STORE], "adds": [MOVE]}))
    tables, _ = tables_of(program, "maps", module)
    launches = tables["kernel"].select("launch_id", "name")
    touch = tables["touch"].filter(space="device").join(launches, on="launch_id").sort("launch_id")
    told = touch.select("name", "unique_read", "unique_written", "unique_bytes").rows()
    seen, spanned = 512, 4096  # the first granule of the object, and what the map spans
    assert told == [
        ("loads", seen + spanned, 0, seen + spanned),
        ("stores", seen, spanned, seen + spanned),
        ("adds", seen, 0, seen),
        ("loads", seen, 0, seen),
        ("loads", seen + spanned, 0, seen + spanned),
        ("CUDA graph of 3 kernels", seen + spanned, 0, seen + spanned),
        ("CUDA graph of 3 kernels", seen, 0, seen),  # its arguments have changed
    ]
    losses = dict(tables["loss"].select("reason", "count").rows())
    by_maps = [count for reason, count in losses.items() if "told by the tensor maps" in reason]
    not_told = [count for reason, count in losses.items() if "no tensor map among" in reason]
    in_part = [count for reason, count in losses.items() if "a further tensor map" in reason]
    assert (by_maps, not_told, in_part) == ([3 + 1], [1 + 1 + 2], [1])
