"""The rows that come of what a launch left on the device; the device is a stand-in."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import polars as pl
import pyarrow as pa
import pytest

from pasta.collect.channel import Channel
from pasta.collect.toolkits import find_headers
from pasta.collect.wire import TEXT, TEXTS, WIRE_TABLES, Decoder

SOURCE = Path(__file__).with_name("memory_analyst.cpp")
PAGE = 2 << 20
KEYS = ["space", "object_id", "block", "pc", "granularity"]
UNIQUE = ["unique_read", "unique_written", "unique_bytes"]
COUNTS = ["reads", "writes", "atomics"]
BYTES = ["bytes_read", "bytes_written"]
NONE = (None, None, None)
pytestmark = pytest.mark.native


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    compiler = shutil.which("c++") or shutil.which("g++") or shutil.which("clang++")
    headers = [find_headers(name) for name in ("cuda.h", "crt/host_defines.h", "sanitizer.h")]
    if compiler is None or None in headers:
        pytest.skip("there is no C++ compiler, or no header of CUDA or Compute Sanitizer")
    made = tmp_path_factory.mktemp("native") / "memory_analyst"
    flags = ["-std=c++20", "-O1", "-Wall", "-Wextra", "-Werror", "-Wno-missing-field-initializers"]
    folders = [f"-isystem{folder}" for folder in headers]
    command = [compiler, *flags, *folders, str(SOURCE), "-o", str(made), "-pthread", "-ldl"]
    subprocess.run(command, check=True)
    return made


def rows(program, what, level, **options):
    """Run the program; return the rows that arrived, by table."""
    settings = {"cuda.memory": {"level": level, **options}}
    tables: dict[str, list[pa.Table]] = {}
    with Channel.create("analyst", tables=WIRE_TABLES) as channel:
        environment = {**os.environ, "PASTA_COLLECT": json.dumps(settings)}
        subprocess.run([program, str(channel.folder), what], check=True, env=environment)
        decoder = None
        while (batch := channel.poll()) is not None:
            with batch:
                decoder = decoder or Decoder(batch.producer)
                if batch.table in (TEXT, TEXTS):
                    decoder.learn(batch.table, batch.rows)
                else:
                    tables.setdefault(batch.table, []).append(decoder.rows(batch.table, batch.rows))
        assert channel.losses() == []
    return {name: pl.from_arrow(pa.concat_tables(parts)) for name, parts in tables.items()}


def touched(tables):
    assert set(tables["touch"]["launch_id"]) == {42}
    return set(tables["touch"].select(KEYS + UNIQUE + COUNTS + BYTES).rows())


def losses(tables, reason):
    return tables["loss"].filter(pl.col("reason").str.contains(reason))["count"].to_list()


def test_objects_tensors_and_what_is_in_none_at_level_touch(program):
    tables = rows(program, "objects", "touch")
    assert touched(tables) == {
        (
            "global",
            0,
            None,
            None,
            512,
            4 * 512,
            512 + 476 + 512,
            5 * 512 + 476,
            14,
            14,
            2,
            4156,
            64,
        ),
        ("shared", 0, None, None, 0, *NONE, 0, 13, 0, 0, 104),
        ("device", 1, None, None, 512, 512, 476, 988, *NONE, None, None),
        ("device", 2, None, None, 512, 512, 0, 512, *NONE, None, None),
        ("device", 3, None, None, 512, 0, 512, 512, *NONE, None, None),
        ("tensor", 1, None, None, 512, 512, 0, 512, *NONE, None, None),
        ("tensor", 0, None, None, 512, 512, 988, 1500, *NONE, None, None),
        ("unknown", 0, None, None, 512, 1024, 512, 1024, 17, 0, 0, None, None),
    }


def test_counts_are_of_objects_and_blocks(program):
    tables = rows(program, "objects", "counts")
    told = {row[:4] + row[8:11] for row in touched(tables)}
    assert told == {
        ("global", 0, None, None, 14, 14, 2),
        ("shared", 0, None, None, 0, 13, 0),
        ("device", 1, None, None, 5, 3, 0),
        ("device", 1, 0, None, 5, 3, 0),
        ("device", 2, None, None, 7, 0, 0),
        ("device", 2, 0, None, 7, 0, 0),
        ("device", 3, None, None, 0, 11, 0),
        ("device", 3, 1, None, 0, 11, 0),
        ("tensor", 1, None, None, 7, 0, 0),
        ("tensor", 0, None, None, 5, 14, 0),
        ("unknown", 0, None, None, 18, 0, 2),
    }
    blocks = tables["touch"].filter(pl.col("block").is_not_null())
    assert blocks.select("granularity", *UNIQUE, *BYTES).unique().rows() == [
        (65536, *NONE, None, None)
    ]


def test_sizes_are_metrics_and_what_is_not_known_is_a_loss(program):
    tables = rows(program, "objects", "touch")
    metrics = tables["metric"].select("name", "value", "unit").rows()
    assert sorted(metrics) == [
        ("global_atomics_4", 2.0, "accesses"),
        ("global_reads_4", 13.0, "accesses"),
        ("global_reads_other", 1.0, "accesses"),
        ("global_writes_4", 14.0, "accesses"),
        ("shared_writes_8", 13.0, "accesses"),
    ]
    assert losses(tables, "TMA") == [2]
    memory = tables["memory"].select("event", "object_id").rows()
    assert memory.count(("release", 1)) == memory.count(("allocate", 1)) == 1


SPANNED_KEYS = [("device", 2), ("device", 3), ("tensor", 1), ("tensor", 0), ("global", 0)]
SPANNED = {
    "mapped loads": [
        *((65536, 0, 65536), (1536, 512, 2048), (4096, 0, 4096)),
        *((63488, 988, 64476), (68608, 1500, 69596)),
    ],
    "mapped stores": [
        *((512, 65536, 65536), (0, 2048, 2048), (512, 4096, 4096)),
        *((512, 63964, 64476), (2048, 68572, 69596)),
    ],
    "mapped both": [(None, None, either) for either in (65536, 2048, 4096, 64476, 69596)],
}
"""Maps span 64 KiB of the second object, of which a granule was seen to be read, and three granules of the third, of
which another was seen to be written."""


@pytest.mark.parametrize("what", SPANNED)
def test_what_tensor_maps_span_counts_whole_beside_what_was_seen(program, what):
    tables = rows(program, what, "touch")
    found = {row[:2]: row[5:8] for row in touched(tables)}
    assert [found[key] for key in SPANNED_KEYS] == SPANNED[what]
    assert found["device", 1] == (512, 476, 988)
    assert found["unknown", 0] == (1024, 512, 1024)


def test_pages_without_room_count_as_a_whole(program):
    tables = rows(program, "whole", "touch")
    assert touched(tables) == {
        ("global", 0, None, None, PAGE, 512, 128 << 10, 512 + (128 << 10), 5, 0, 0, 20, 0),
        ("device", 1, None, None, 512, 512, 0, 512, *NONE, None, None),
        ("device", 3, None, None, PAGE, 0, 128 << 10, 128 << 10, *NONE, None, None),
        ("tensor", 0, None, None, 512, 512, 0, 512, *NONE, None, None),
    }
    assert losses(tables, "2 MiB") == [1]


def test_what_tensor_maps_span_of_a_page_without_room_counts_once(program):
    found = {
        row[:2] + row[4:5]: row[5:8]
        for row in touched(rows(program, "whole mapped loads", "touch"))
    }
    size, spanned = 128 << 10, 3 * 512
    assert found["device", 3, 512] == (spanned, 0, spanned)
    assert found["device", 3, PAGE] == (0, size, size - spanned)
    assert found["global", 0, PAGE][1:] == (size, 512 + 65536 + size)


def test_tallies_are_instructions_and_events(program):
    tables = rows(program, "tallies", "touch", instructions="yes", events="yes")
    instructions = tables["touch"].filter(pl.col("pc").is_not_null())
    assert set(instructions.select("space", "pc", *COUNTS, *BYTES).rows()) == {
        ("global", 0x120, 0, 8, 0, 0, 128),
        ("global", 0x130, 2, 0, 0, None, None),
    }
    events = tables["event"].select("kind", "pc", "count", "launch_id").rows()
    assert sorted(events) == [("barrier", 0x140, 256, 42), ("matrix_product", 0x150, 4, 42)]
    assert losses(tables, "instructions") == [6]


@pytest.mark.parametrize(("banks", "status"), [("moving", 0), ("stuck", 5), ("polling", 5)])
def test_a_launch_is_waited_for_while_records_are_read_but_not_for_good(program, banks, status):
    """At level `access` a kernel may take seconds; one that polls memory for the host makes records too."""
    settings = {"cuda.memory": {"level": "access", "wait_ms": "60"}}
    with Channel.create("waits", tables=WIRE_TABLES) as channel:
        environment = {**os.environ, "PASTA_COLLECT": json.dumps(settings)}
        command = [program, str(channel.folder), banks]
        assert (
            subprocess.run(command, check=False, env=environment, timeout=60).returncode == status
        )
