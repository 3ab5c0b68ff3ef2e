"""Traces of random rows: crossing, empty and unfinished intervals, and names that are markup."""

from __future__ import annotations

from hypothesis import strategies as st

from pasta.testing import write_trace

BASE = 1_700_000_000_000_000_123
HOSTILE = [
    '"',
    "\\",
    "a;b",
    "</script>",
    "\x00\x1f",
    "\u2028",
    "é😀",
    "void f<int, 2>(float*)",
    "",
    " x  y ",
]
NAMES = st.sampled_from(HOSTILE) | st.text(st.characters(exclude_categories=["Cs"]), max_size=6)
STARTS = st.integers(0, 40)
DURATIONS = st.integers(0, 20) | st.just(0)


@st.composite
def tables(draw, *, names=NAMES, durations=DURATIONS):
    """Return rows of `span`, `call` and `kernel` of two processes, in any order."""
    spans = draw(
        st.lists(st.tuples(st.sampled_from([7, 8]), STARTS, durations, names), max_size=12)
    )
    work = draw(st.lists(st.tuples(st.sampled_from([7, 8]), STARTS, durations, names), max_size=6))
    return {
        "span": [
            {"pid": 7, "tid": tid, "ts": BASE + ts, "dur": dur, "name": name, "level": "operator",
             "span_id": number, "parent_id": 0, "external_id": 0}
            for number, (tid, ts, dur, name) in enumerate(spans, 1)
        ],
        "call": [
            {"pid": pid, "tid": 9, "ts": BASE + ts, "dur": 1, "name": "cudaLaunchKernel",
             "correlation": number, "external_id": 0}
            for number, (pid, ts, _, _) in enumerate(work, 1)
        ],
        "kernel": [
            {"pid": pid, "device": 0, "context": 1, "stream": 3, "ts": BASE + ts + 2, "dur": dur,
             "name": name, "correlation": number, "external_id": 0, "launch_id": number}
            for number, (pid, ts, dur, name) in enumerate(work, 1)
        ],
    }  # fmt: skip


def trace_of(folder, rows):
    """Write a trace; a table without rows is left out."""
    return write_trace(folder, **{table: found for table, found in rows.items() if found})


def intervals(rows, table, *columns):
    """Return some columns of the rows of a table, sorted; what has no name is called as its table."""
    return sorted(
        (
            tuple(row["name"] or table if c == "name" else row[c] for c in columns)
            for row in rows[table]
        ),
        key=repr,
    )
