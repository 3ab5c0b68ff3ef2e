"""All checks, as text for people and as JSON for programs."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import pasta
from pasta.doctor import installation
from pasta.doctor.check import Check, Status

Report = Mapping[str, Sequence[Check]]
"""Area -> its checks."""


def examine() -> Report:
    """Look at everything; takes some seconds, more where a vendor's library hangs.

    Where pasta itself is broken, nothing else is looked at.
    """
    report = {"pasta itself": list(_until_it_fails(installation.checks))}
    if is_broken(report):
        return report
    from pasta.doctor import access, host, machine, recording
    from pasta.doctor.facts import gather

    facts = gather()
    looks: dict[str, Callable[[], Iterable[Check]]] = {
        "this machine": lambda: machine.checks(facts),
        "permissions and other profilers": lambda: access.checks(facts),
        "what watches programs from beside them": host.checks,
        "what pasta collect --with can record": lambda: recording.checks(facts),
    }
    for area, look in looks.items():
        report[area] = list(_until_it_fails(look))
    return report


def _until_it_fails(look: Callable[[], Iterable[Check]]) -> Iterator[Check]:
    """Yield the checks of an area; a machine that nobody thought of costs the rest of that area."""
    try:
        yield from look()
    except Exception as error:  # noqa: BLE001 - reported
        yield Check(Status.UNKNOWN, "the rest", f"a check failed: {error!r}")


def is_broken(report: Report) -> bool:
    """Whether pasta itself does not work."""
    return any(check.status is Status.BROKEN for checks in report.values() for check in checks)


def as_text(report: Report) -> str:
    """Return lines: status, what, how it stands; below it, what to do."""
    names = [check.name for checks in report.values() for check in checks]
    width = max(map(len, names))
    indent = " " * (2 + max(map(len, Status)) + 2 + width + 2)
    lines = []
    for area, checks in report.items():
        lines += [area]
        for check in checks:
            status = f"{check.status:<{max(map(len, Status))}}"
            lines.append(f"  {status}  {check.name:<{width}}  {check.found}")
            if check.advice:
                lines.append(f"{indent}-> {check.advice}")
        lines.append("")
    end = "is broken: see above" if is_broken(report) else "works"
    return "\n".join([*lines, f"pasta {pasta.__version__} {end}"])


def as_json(report: Report) -> str:
    """Return one line: `pasta`, its version; `broken`; `checks`, each with its area."""
    rows = [
        {
            "area": area,
            "status": check.status,
            "name": check.name,
            "found": check.found,
            "advice": check.advice,
        }
        for area, checks in report.items()
        for check in checks
    ]
    return json.dumps({"pasta": pasta.__version__, "broken": is_broken(report), "checks": rows})
