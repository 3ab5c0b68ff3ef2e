"""Each figure with its truth from raw events, and with what HolisticTraceAnalysis asks instead."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from . import truths
from .raw import Event
from .rules import under, ways

Rows = list[Event]
Value = float | int | None


@dataclass(frozen=True)
class Row:
    """What was found of one figure: by pasta, in raw events, by HTA; and why HTA differs, if known.

    `why` is empty where HTA does not differ and None where what differs is not explained.
    """

    figure: str
    ours: Value | str
    truth: Value | str
    hta: Value | str
    why: str | None

    @property
    def right(self) -> bool:
        """Tell whether pasta gives what the raw events say."""
        return _same(self.ours, self.truth)

    @property
    def hta_right(self) -> bool:
        """Tell whether HTA gives what the raw events say, as far as it gives decimals."""
        return self.why == "" or _same(self.hta, self.truth)


def _same(one: Value | str, two: Value | str) -> bool:
    if isinstance(one, str) or isinstance(two, str):
        return one == two
    return equal(two, one, 12)


@dataclass(frozen=True)
class Figure:
    """A number that both sides give of a rank.

    `truth` computes it from raw events; `said` takes it from what HTA says, in its units of
    `unit`; `as_hta` computes HTA's own question where it asks another, told by `why`: a value, or
    the least and the most, since events that begin together have no order there.
    """

    name: str
    truth: Callable[[Rows], Value]
    said: Callable[[dict[str, Any]], Value]
    unit: int = 1000
    as_hta: Callable[[Rows], Any] | None = None
    why: str = ""
    decimals: int = 12
    """To how many decimals HTA rounds what is no integer."""


def _launched(part: Callable[[list[Any]], int], find: Callable[[Rows], list[Any]]) -> Callable[[Rows], int]:  # fmt: skip
    return lambda rows: part(find(rows))


def _bandwidth(name: str) -> Figure:
    return Figure(
        f"GB/s of {name}",
        lambda rows: truths.bandwidth(rows, name),
        lambda hta: hta["bandwidth"].get(name),
        unit=1,
        as_hta=lambda rows: truths.bandwidth_as_hta(rows, name),
        why="takes the mean over copies, each alike however long",
    )


_BY_NAMES = "knows launches by four names of calls, and counts one for each work"
_PARTS: dict[str, tuple[str, Callable[[list[Any]], int]]] = {
    "launches": ("launches", len),
    "time of launching calls": ("calls", lambda found: sum(call.dur for call, _, _ in found)),
    "launched work": ("work", lambda found: sum(dur for _, _, dur in found)),
    "delay after calls": ("delay", truths.delay),
}

FIGURES = [
    Figure("span", truths.span, lambda hta: hta["temporal"]["span"]),
    Figure("idle", truths.idle, lambda hta: hta["temporal"]["idle"]),
    Figure("compute", truths.compute, lambda hta: hta["temporal"]["compute"]),
    Figure("not hidden", truths.not_hidden, lambda hta: hta["temporal"]["other"]),
    Figure("hidden", truths.hidden_percent, lambda hta: hta["overlap"], unit=1, decimals=2),
    Figure("kernel names", truths.kernel_names, lambda hta: len(hta["kernels"]), unit=1),
    Figure(
        "kernel time",
        truths.kernel_time,
        lambda hta: sum(row["sum"] for row in hta["kernels"].values()),
    ),
    Figure(
        "largest kernel",
        truths.largest_kernel,
        lambda hta: max(row["sum"] for row in hta["kernels"].values()),
    ),
    Figure(
        "host late",
        truths.host_late,
        lambda hta: hta["idle"].get("host_wait", 0),
        as_hta=truths.host_late_as_hta,
        why="adds up streams, and gives a gap to the host as a whole where its call begins in it",
    ),
    Figure(
        "longest queue",
        truths.longest_queue,
        lambda hta: max(hta["queue"].values()),
        unit=1,
        as_hta=truths.longest_queue_as_hta,
        why="counts a launch until its work begins, by some names of calls",
    ),
    *(_bandwidth(name) for name in ("Memcpy DtoD", "Memcpy DtoH", "Memcpy HtoD", "Memset")),
    *(
        Figure(
            name,
            _launched(part, truths.launches),
            lambda hta, key=key: hta["launches"][key],
            unit=1 if name == "launches" else 1000,
            as_hta=_launched(part, truths.launches_as_hta),
            why=_BY_NAMES,
        )
        for name, (key, part) in _PARTS.items()
    ),
]


def equal(one: Value, two: Value, decimals: int) -> bool:
    """Tell whether two values are one; what is no integer, but for so many decimals and 1e-9."""
    if one is None or two is None:
        return one is two
    if isinstance(one, int):
        return one == two
    return abs(one - two) <= max(0.51 * 10**-decimals, 1e-9 * abs(one))


def agrees(found: Any, said: Value, decimals: int) -> bool:
    """Tell whether a value that was found, or a range, is or holds what HTA says."""
    if not isinstance(found, tuple):
        return equal(found, said, decimals)
    least, most = found
    return said is not None and least * (1 - 1e-9) <= said <= most * (1 + 1e-9)


def explanation(figure: Figure, variants: dict[tuple[str, ...], Rows], said: Value) -> str | None:
    """Return by which rules the raw events give what HTA says, None where by none."""
    for compute in dict.fromkeys((figure.truth, figure.as_hta or figure.truth)):
        for rules, events in variants.items():
            try:
                found = compute(events)
            except (ValueError, IndexError):  # Of what is left, nothing can be computed.
                continue
            if agrees(found, said, figure.decimals):
                texts = [figure.why] if compute is figure.as_hta else []
                return "; ".join([*texts, *rules])
    return None


def rows(events: Rows, ours: dict[str, Value], said: dict[str, Any]) -> list[Row]:
    """Return all figures of one rank of which a side has anything to say."""
    variants = {rules: under(events, rules) for rules in ways()}
    found = (_row(figure, variants, ours.get(figure.name), said) for figure in FIGURES)
    return [row for row in found if row is not None]


def _row(figure: Figure, variants: dict[tuple[str, ...], Rows], mine: Value, said: dict[str, Any]) -> Row | None:  # fmt: skip
    try:
        truth = figure.truth(variants[()])
    except (ValueError, IndexError):  # A trace of which this cannot be computed.
        truth = None
    try:
        theirs = figure.said(said)
    except (KeyError, TypeError, AttributeError):  # Of an analysis that ended in an error.
        return Row(figure.name, mine, truth, "error", "ends in an error")
    if truth is None and mine is None and theirs is None:
        return None
    scaled = theirs if theirs is None or figure.unit == 1 else round(theirs * figure.unit)
    return Row(figure.name, mine, truth, scaled, explanation(figure, variants, scaled))
