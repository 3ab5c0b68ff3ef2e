"""Native call stacks: interned by their addresses, named later, with chosen code cut off."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import polars as pl
import pytest

from pasta.collect.channel import Channel
from pasta.collect.wire import TEXT, TEXTS, WIRE_TABLES, Decoder

SOURCE = Path(__file__).with_name("native_stacks.cpp")
FLAGS = ("-std=c++20", "-O0", "-Wall", "-Wextra", "-Werror", "-Wno-missing-field-initializers")


def compiled(folder, *arguments):
    compiler = shutil.which("c++") or shutil.which("g++") or shutil.which("clang++")
    if compiler is None:
        pytest.skip("there is no C++ compiler")
    made = folder / "native_stacks"
    command = [compiler, *FLAGS, *arguments, str(SOURCE), "-o", str(made), "-pthread"]
    subprocess.run(command, check=True)
    return made


def run(program):
    """Return the lines that the program printed, and the frames that it wrote."""
    batches, decoder = [], None
    with Channel.create("native-stacks", tables=WIRE_TABLES) as channel:
        done = subprocess.run(
            [program, str(channel.folder)], check=True, capture_output=True, text=True
        )
        while (batch := channel.poll()) is not None:
            with batch:
                decoder = decoder or Decoder(batch.producer)
                if batch.table in (TEXT, TEXTS):
                    decoder.learn(batch.table, batch.rows)
                else:
                    assert batch.table == "frame"
                    batches.append(pl.from_arrow(decoder.rows(batch.table, batch.rows)))
        assert channel.losses() == []
    return done.stdout.splitlines(), pl.concat(batches)


@pytest.fixture(scope="module")
def printed_and_frames(tmp_path_factory):
    return run(compiled(tmp_path_factory.mktemp("native")))


def functions(frames, number):
    """Names of the frames of a stack, outermost first."""
    stack = frames.filter(pl.col("stack_id") == (1 << 32) + number).sort("depth")
    assert stack["depth"].to_list() == [*range(stack.height)]
    return stack["function"].to_list()


def test_a_stack_has_one_id_and_others_have_others(printed_and_frames):
    printed, frames = printed_and_frames
    assert printed[1:] == ["1", "1", "2", "0", "3"]
    assert frames["stack_id"].unique().sort().to_list() == [(1 << 32) + n for n in range(4)]


def test_frames_lead_from_the_outermost_function_to_the_innermost(printed_and_frames):
    _, frames = printed_and_frames
    of_double, of_integer = functions(frames, 1), functions(frames, 2)
    assert of_double[-2:] == [
        "unsigned long probe::Model::forward<double>(double)",
        "probe::inner(int)",
    ]
    assert of_integer[-2] == "unsigned long probe::Model::forward<int>(int)"
    assert "main" in of_double
    assert of_double.index("main") < of_double.index("probe::inner(int)")
    assert "main" not in functions(frames, 3)
    assert functions(frames, 3)[-1] == "probe::descend(int)"


def test_frames_say_in_which_file_they_are(printed_and_frames):
    _, frames = printed_and_frames
    inside = frames.filter(pl.col("function").str.starts_with("probe::"))
    assert set(inside["library"]) == {"native_stacks"}
    assert any(name.startswith("libc.so") for name in frames["library"])
    assert set(frames["language"]) == {"c++"}
    assert set(frames["file"]) == {""}
    assert set(frames["line"]) == {0}


def test_a_deep_stack_keeps_its_innermost_frames(printed_and_frames):
    printed, frames = printed_and_frames
    assert printed[0].startswith("1 native call stacks of more than 256 frames")
    assert functions(frames, 0) == ["probe::descend(int)"] * 256


@pytest.mark.parametrize("options", [("-O0",), ("-O2",), ("-O3", "-fno-omit-frame-pointer")])
def test_frames_that_are_remembered_are_those_that_a_walk_of_all_finds(tmp_path, options):
    """Random recursions, with frames of varying size, of functions that leave and come back."""
    program = compiled(tmp_path, *options)
    done = subprocess.run([program, "wander"], check=True, capture_output=True, text=True)
    wrong, checked, different = map(int, done.stdout.split())
    assert wrong == 0
    assert checked - different > 1000
    assert different > 1000


def test_a_stripped_program_is_told_by_places(tmp_path):
    _, frames = run(compiled(tmp_path, "-s"))
    places = functions(frames, 1)[-2:]
    assert all(place.startswith("native_stacks+0x") for place in places)
    assert places[0] != functions(frames, 2)[-2]
