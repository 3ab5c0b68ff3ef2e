"""Small programs that are recorded, and what the tests of recording share."""

from __future__ import annotations

import os
import shlex
import sys
import textwrap
from collections.abc import Sequence
from pathlib import Path

import polars as pl

from pasta.collect.channel import SHARED_MEMORY
from pasta.collect.recording import Recorded, Watcher, record_command
from pasta.collect.selection import Selection
from pasta.trace import Trace

ROOT = Path(__file__).parents[2]

# For programs that end at once: what they have recorded so far is in the channel.
WRITTEN = textwrap.dedent(
    """
    import os, signal, subprocess, sys, time
    import pasta

    def session():
        return sys.modules["pasta_target.session"].current()

    def wait_until_written():
        while any(map(len, session()._tables)):
            time.sleep(0.005)
        with session()._flushing:
            pass
    """
)
ANNOTATES = """
import sys, pasta
with pasta.annotate(sys.argv[1]):
    pass
"""


def python(source: str, *arguments: str, options: tuple[str, ...] = ()) -> list[str]:
    """The command of a Python program."""
    return [sys.executable, *options, "-c", textwrap.dedent(source), *arguments]


def quoted(command: list[str]) -> str:
    """The command as a shell reads it."""
    return shlex.join(command)


def recorded(
    out: Path, command: list[str], *, watchers: Sequence[Watcher] = (), **selection: object
) -> tuple[Recorded, Trace]:
    """Record a program in this process; return what came of it, and the trace."""
    done = record_command(command, out, {"torch": "touch"}, Selection(**selection), watchers)
    assert not list(SHARED_MEMORY.glob(f"pasta-{os.getpid()}-*"))
    return done, Trace.open(out)


def table(trace: Trace, name: str) -> pl.DataFrame:
    """A table, empty where the trace lacks it."""
    return trace.scan(name).collect() if name in trace.tables() else pl.DataFrame()


def annotations(trace: Trace) -> list[str]:
    """Names of the annotations, in the order of time."""
    spans = table(trace, "span")
    if spans.is_empty():
        return []
    return spans.filter(pl.col("level") == "annotation").sort("ts")["name"].to_list()


def losses(trace: Trace) -> dict[str, int]:
    """Count of what was lost, by reason."""
    found = table(trace, "loss")
    return dict(found.group_by("reason").agg(pl.col("count").sum()).rows()) if len(found) else {}
