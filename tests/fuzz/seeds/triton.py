"""Files of Triton and of NVBit: kernels without a timeline."""

from __future__ import annotations

import json

from tests.collect.importers.test_nvbit_text import LAUNCH, access
from tests.collect.importers.test_proton import TREE
from tests.collect.importers.test_triton_log import compilation, launch
from tests.fuzz.content import Content, one_file


def proton() -> list[Content]:
    """Return a tree of frames."""
    return [one_file(json.dumps(TREE))]


def triton_log() -> list[Content]:
    """Return launches and compilations, one a line."""
    entries = [
        compilation(["make_ttir", 30], ["make_llir", 50]),
        launch(),
        launch(grid=[5], stream=None),
    ]
    return [one_file("".join(json.dumps(entry) + "\n" for entry in entries), "json lines")]


def nvbit_text() -> list[Content]:
    """Return a launch and its accesses."""
    lines = [
        "------------- NVBit (NVidia Binary Instrumentation Tool v1.7.1) Loaded --------------",
        LAUNCH.format(0),
        access(0, "1,0,0", 3, "LDG.E.64", [0x7F8A01800000, 0, 0x7F8A01800010]),
        "output of the program",
        access(0, "3,1,0", 2, "STG.E", [0xFFFFFFFFFFFFFFFF], pc="pc 0x1a0 - "),
        LAUNCH.format(1),
        access(1, "0,0,0", 0, "ATOMG.E.ADD", [0x7F8A01800000]),
    ]
    return [one_file("\n".join(lines) + "\n")]
