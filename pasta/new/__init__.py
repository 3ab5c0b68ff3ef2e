"""`pasta new`: the files that a tool, stage, importer or collector of one's own begins with.

They are made of the plain files in `templates`, in which `{{word}}` stands for a value.
"""

from __future__ import annotations

import keyword
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pasta.errors import PastaError, naming_files
from pasta.new.layout import Layout, layout_of
from pasta.tools.units import printable

KINDS = ("tool", "stage", "importer", "collector")

_TEMPLATES = Path(__file__).parent / "templates"
_NAME = re.compile(r"[a-z][a-z0-9_]{0,39}")
_USED_IN_STAGES = {"pl", "stage"}
"""Names of the modules and functions that a stage's file uses; its own function cannot have them."""


@dataclass(frozen=True)
class Made:
    """What was written.

    Attributes:
        files: the new files.
        hints: what to do next, in order, a line each.
    """

    files: list[Path]
    hints: list[str]


def make(kind: str, name: str, folder: Path) -> Made:
    """Write a working example of a `kind`, with its page and its test, for its owner to change.

    Inside a clone of pasta they go to where pasta keeps such things; elsewhere into `folder`, as a
    project of its own that pasta finds once it is installed. No file is ever overwritten.

    Args:
        kind: one of `KINDS`.
        name: of the new piece.
        folder: an existing or a new folder.

    Raises:
        PastaError: the name is not allowed or taken, or a file is in the way.
    """
    _check_name(kind, name)
    layout = layout_of(kind, name, folder)
    for path in layout.files.values():
        if path.exists():
            raise PastaError(f"{path} is there already; choose another name, or remove it yourself")
    values = _values(name, layout)
    written: list[Path] = []
    try:
        for template, path in layout.files.items():
            with naming_files(path):
                path.parent.mkdir(parents=True, exist_ok=True)
                with path.open("x", encoding="utf-8") as file:
                    written.append(path)
                    file.write(_filled(template, values))
    except BaseException:
        for path in written:
            path.unlink(missing_ok=True)
        raise
    return Made(list(layout.files.values()), layout.hints)


def _check_name(kind: str, name: str) -> None:
    if not _NAME.fullmatch(name) or keyword.iskeyword(name):
        raise PastaError(
            f"'{printable(name)}' is no name for {kind}s: a name is a lowercase letter, then lowercase"
            " letters, digits and _, 40 in all, and no word of Python"
        )
    if kind == "stage" and name in _USED_IN_STAGES:
        raise PastaError(f"a stage's file uses '{name}' for something else; choose another name")
    if name in _taken(kind):
        raise PastaError(f"there is already a {kind} '{name}'; choose another name")


def _taken(kind: str) -> Mapping[str, object] | set[str]:
    """Return the names of what pasta has of a kind."""
    if kind == "tool":
        from pasta.tools.shipped import shipped_tools

        return shipped_tools()
    if kind == "stage":
        from pasta.pipeline.stage import STAGES

        return set(STAGES)
    if kind == "importer":
        from pasta.collect.importer import IMPORTERS

        return set(IMPORTERS)
    from pasta.collect.collectors import COLLECTORS

    return COLLECTORS


def _values(name: str, layout: Layout) -> dict[str, str]:
    return {
        **layout.values,
        "name": name,
        "class_name": "".join(word.capitalize() for word in [*name.split("_"), "importer"]),
    }


def _filled(template: str, values: Mapping[str, str]) -> str:
    text = (_TEMPLATES / f"{template}.template").read_text(encoding="utf-8")
    for word, value in values.items():
        text = text.replace(f"{{{{{word}}}}}", value)
    return text
