"""What the memory collector's library reads out of its settings."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from pasta.collect.cuda_memory import MemoryOptions

SOURCE = Path(__file__).with_name("memory_options.cpp")
EVERY_ONE = 2**64 - 1


@pytest.fixture(scope="module")
def ask(tmp_path_factory):
    """A function that runs the program with settings of `cuda.memory`; what it prints."""
    compiler = shutil.which("c++") or shutil.which("g++") or shutil.which("clang++")
    if compiler is None:
        pytest.skip("there is no C++ compiler")
    made = tmp_path_factory.mktemp("native") / "memory_options"
    flags = ["-std=c++20", "-O1", "-Wall", "-Wextra", "-Werror", "-Wno-missing-field-initializers"]
    subprocess.run([compiler, *flags, str(SOURCE), "-o", str(made)], check=True)

    def asked(settings, *arguments):
        told = {"offset": 1, "torch": {"level": "operators"}, "cuda.memory": settings, "idle": True}
        environment = {**os.environ, "PASTA_COLLECT": json.dumps(told)}
        command = [str(made), *map(str, arguments)]
        return subprocess.run(
            command, env=environment, check=True, capture_output=True
        ).stdout.decode()

    return asked


@pytest.mark.parametrize(
    "text",
    [
        r"^void (gemm|conv)\d+<.*\"f\"}, \\{1\}>$",
        'say "level": "counts" and }',
        "tab\t, new\nline, \x01, \x7f, back\\",
        "Gerät, 行列, \U0001f525, \\u0041",
        "",
    ],
)
def test_a_text_survives_json(ask, text):
    settings = {"level": "touch", "match": text, "range": "last"}
    assert ask(settings, "text", "match") == text
    assert ask(settings, "text", "range") == "last"
    assert ask(settings, "text", "level") == "touch"
    assert ask(settings, "text", "blocks") == "(none)"


@pytest.mark.parametrize(
    ("text", "chosen"),
    [
        ("", range(20)),
        ("3:", range(3, 20)),
        (":4", range(5)),
        ("3:9", range(3, 10)),
        ("3:9:4", range(3, 10, 4)),
        ("1::6", range(1, 20, 6)),
        ("::7", range(0, 20, 7)),
        ("5:5", [5]),
    ],
)
def test_ranges_of_launches(ask, text, chosen):
    *numbers, whole = ask({}, "range", text, 20).split()
    assert numbers == [str(number) for number in chosen]
    assert whole == ("some" if text else "all")


def test_what_is_not_told_has_its_default(ask):
    assert ask({"level": "touch"}, "options", "any") == (
        "touch_ records=0 counts=0 spaces=0 tensor_loads=1 switched=0 events=0 stacks=0 serial=0 granule=512 block=65536"
        f" device={64 << 20} blocks=0:{EVERY_ONE} 1"
    )


def test_options_arrive_as_the_launcher_tells_them(ask):
    options = MemoryOptions(
        granularity=4096,
        block=8192,
        blocks="2:5",
        every_space=True,
        tensor_loads="none",
        switched=True,
        events=True,
        serial=True,
        device_bytes=9 << 20,
    )
    settings = options.in_program() | {"level": "counts", "match": r"gemm_\d+\(", "stacks": True}
    assert ask(settings, "options", "gemm_12(int)", "gemm_x(int)") == (
        "counts_ records=0 counts=1 spaces=1 tensor_loads=2 switched=1 events=1 stacks=1 serial=1 granule=4096 block=8192"
        f" device={9 << 20} blocks=2:5 1 0"
    )


@pytest.mark.parametrize(
    ("settings", "patches"),
    [
        ({"level": "access"}, "access_ records=1 counts=1"),
        ({"level": "touch", "instructions": "yes"}, "instructions_ records=0 counts=1"),
        ({"level": "access", "instructions": "yes"}, "access_ records=1 counts=1"),
    ],
)
def test_levels_choose_patches(ask, settings, patches):
    assert ask(settings, "options").startswith(patches)


@pytest.mark.parametrize("granularity", ["16", "48", "4194304", "x"])
def test_a_granularity_that_cannot_be_is_left_alone(ask, granularity):
    assert "granule=512 " in ask({"level": "touch", "granularity": granularity}, "options")


def test_blocks_are_never_smaller_than_granules(ask):
    assert "granule=131072 block=131072" in ask({"granularity": "131072"}, "options")


def test_an_expression_that_the_library_does_not_know_leaves_nothing_out(ask):
    assert ask({"level": "touch", "match": "(?P<name>gemm)"}, "options", "other").endswith(" 1")
