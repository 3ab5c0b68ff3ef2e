"""Rows that native collectors gather column by column, and what they read of the environment."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pyarrow as pa
import pytest

from pasta.collect.channel import Channel
from pasta.collect.wire import TEXT, TEXTS, WIRE_TABLES, Decoder

SOURCE = Path(__file__).with_name("table_writer.cpp")


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    compiler = shutil.which("c++") or shutil.which("g++") or shutil.which("clang++")
    if compiler is None:
        pytest.skip("there is no C++ compiler")
    made = tmp_path_factory.mktemp("native") / "table_writer"
    flags = ["-std=c++20", "-O1", "-Wall", "-Wextra", "-Werror", "-Wno-missing-field-initializers"]
    subprocess.run([compiler, *flags, str(SOURCE), "-o", str(made), "-pthread"], check=True)
    return made


def run(program, rows, settings, **variables):
    """Run the program; return what it printed and the rows that arrived."""
    tables = []
    with Channel.create("table-writer", tables=WIRE_TABLES) as channel:
        environment = {**os.environ, "PASTA_COLLECT": json.dumps(settings), **variables}
        done = subprocess.run(
            [program, str(channel.folder), str(rows)],
            check=True,
            capture_output=True,
            text=True,
            env=environment,
        )
        decoder = None
        while (batch := channel.poll()) is not None:
            with batch:
                decoder = decoder or Decoder(batch.producer)
                if batch.table in (TEXT, TEXTS):
                    decoder.learn(batch.table, batch.rows)
                else:
                    assert batch.table == "copy"
                    tables.append(decoder.rows(batch.table, batch.rows))
        assert channel.losses() == []
    return done.stdout.strip(), pa.concat_tables(tables).to_pylist()


def test_rows_arrive_with_nulls_and_texts(program):
    settings = {"offset": 17, "torch": {"level": "touch"}, "cuda": {"level": "calls"}}
    told, rows = run(program, 5000, settings, RANK="3", WORLD_SIZE="4")
    assert told == "17 calls 0"
    assert [row["ts"] for row in rows] == [1000 + row for row in range(5000)]
    assert [row["dur"] for row in rows[:6]] == [None, 1, 2, 3, 4, None]
    assert [row["device"] for row in rows[:4]] == [0, 1, 2, 0]
    assert rows[4999]["correlation"] == 4999 << 40
    assert {row["rank"] for row in rows} == {3}
    assert [row["kind"] for row in rows[:2]] == ["Gerät ?", "HtoD"]


@pytest.mark.parametrize(
    ("variables", "rank"),
    [
        ({"RANK": "5", "WORLD_SIZE": "4"}, 0),
        ({"RANK": "x", "WORLD_SIZE": "4"}, 0),
        ({"RANK": "", "WORLD_SIZE": "", "SLURM_PROCID": "2", "SLURM_NTASKS": "8"}, 2),
    ],
)
def test_a_rank_is_believed_if_it_makes_sense(program, variables, rank):
    told, rows = run(program, 1, {"offset": -5, "torch": {"level": "calls"}}, **variables)
    assert told == "-5 none 0"
    assert [row["rank"] for row in rows] == [rank]


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"cuda": {"level": "calls", "stacks": True}}, "0 calls 1"),
        ({"cuda": {"level": "calls", "match": 'a{2}"\\}', "stacks": True}}, "0 calls 1"),
        ({"cuda": {"level": "calls", "stacks": False}, "torch": {"stacks": True}}, "0 calls 0"),
        ({"torch": {"stacks": True}}, "0 none 0"),
    ],
)
def test_settings_are_read_from_a_collectors_own_object(program, settings, told):
    assert run(program, 1, settings)[0] == told


def test_why_something_was_lost_is_told_where_names_have_no_room(program):
    told, rows = run(program, 1, {}, NAMELESS="yes")
    assert int(told.split()[0]) > 1
    assert [row["kind"] for row in rows[1:]] == [None, "a reason"]


def test_names_that_found_no_room_are_told_with_later_rows(program):
    with Channel.create("stalled", tables=WIRE_TABLES, slots=8, block_seconds=0) as channel:
        environment = {**os.environ, "PASTA_COLLECT": "{}", "STALLED": "yes"}
        command = [program, str(channel.folder), "0"]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        with subprocess.Popen(command, **pipes, text=True, env=environment) as running:
            assert running.stdout.readline() == "full\n"
            rows, decoder = polled(channel, None)
            assert 0 < len(rows) < 40
            running.communicate("go on\n")
            rows, decoder = polled(channel, decoder)
        assert channel.losses()
    assert [row["kind"] for row in rows] == [f"name {name}" for name in range(40)]
    assert decoder.unknown == 0


def polled(channel, decoder):
    """The rows that are there, and who knows the texts."""
    tables = []
    while (batch := channel.poll()) is not None:
        with batch:
            decoder = decoder or Decoder(batch.producer)
            if batch.table == TEXT:
                decoder.learn(batch.table, batch.rows)
            else:
                tables.append(decoder.rows(batch.table, batch.rows))
    return pa.concat_tables(tables).to_pylist(), decoder
