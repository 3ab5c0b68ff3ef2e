"""Files of NVIDIA's tools."""

from __future__ import annotations

from tests.fuzz.content import Content, one_file

_NAMES = [
    *("ID", "Process ID", "Process Name", "Host Name", "Kernel Name", "Context", "Stream"),
    *("Block Size", "Grid Size", "Device", "CC", "sm__cycles.sum", "dram__bytes.sum"),
]
_UNITS = [*[""] * 11, "cycle", "Kbyte"]
_LAUNCHES = [
    ["0", "77", "a.out", "host", "add(int)", "1", "7", "(256, 1, 1)", "(4, 2, 1)", "0", "9.0", "1,024.5", "3"],
    ["1", "77", "a.out", "host", "f<int, 2>", "1", "7", "(32, 1, 1)", "(1, 1, 1)", "0", "9.0", "n/a", "12.75"],
]  # fmt: skip
_SOURCE = [
    ["Kernel Name", "add(int)"],
    ["Line No", "Source", "# Samples", "sm__cycles.sum"],
    ["3", 'x = y; // ""quoted""', "5", "12"],
]


def _lines(rows: list[list[str]]) -> str:
    return "".join(",".join(f'"{cell}"' for cell in row) + "\n" for row in rows)


def ncu_csv() -> list[Content]:
    """Return raw pages, one with a page of source lines and messages of ncu before it."""
    page = _lines([_NAMES, _UNITS, *_LAUNCHES])
    talk = "==PROF== Connected to process 77 (/bin/a.out)\n"
    return [one_file(page), one_file(talk + _lines(_SOURCE) + page + talk)]
