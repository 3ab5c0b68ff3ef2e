"""The kinds of charts that a report may hold, and what each shows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class ChartKind:
    """A kind of chart.

    Attributes:
        roles: what it shows, each a column: name -> whether it is a number.
        optional: what it may show beside, likewise.
        columns: whether it shows any number of columns, listed under `columns`.
        numbers: whether these must be numbers.
        log: whether `log: true` makes its axes logarithmic.
    """

    roles: Mapping[str, bool] = field(default_factory=dict)
    optional: Mapping[str, bool] = field(default_factory=dict)
    columns: bool = False
    numbers: bool = True
    log: bool = False

    @property
    def keys(self) -> set[str]:
        """The keys that it takes in YAML."""
        keys = {*self.roles, *self.optional}
        return keys | ({"columns"} if self.columns else set()) | ({"log"} if self.log else set())

    def is_number(self, role: str) -> bool:
        """Tell whether what plays a role must be a number."""
        return self.roles.get(role, self.optional.get(role, False))


CHARTS = {
    "bar": ChartKind({"x": False, "y": True}, {"series": False}),
    "line": ChartKind({"x": True, "y": True}, {"series": False}),
    "heatmap": ChartKind({"x": True, "y": True, "value": True}),
    "scatter": ChartKind(
        {"x": True, "y": True}, {"label": False, "series": False, "path": False}, log=True
    ),
    "interval": ChartKind(
        {"x": True, "value": True, "y": False}, {"label": False, "series": False}
    ),
    "flame": ChartKind(
        {"x": False, "y": True},
        {
            "node": True,
            "parent": True,
            "unit": False,
            "cold": True,
            "change": True,
            "before": True,
            "after": True,
        },
    ),
    "source": ChartKind({"file": False, "line": True, "text": False, "value": True}),
    "parallel": ChartKind(
        {}, {"label": False, "series": False, "value": True}, columns=True, log=True
    ),
    "network": ChartKind(
        {"x": False, "links": False}, {"series": False}, columns=True, numbers=False
    ),
}
"""By name: `bar`s and `line`s of y over x; `heatmap`, sums of value at x and y; `scatter`, points, those of one path joined by a line; `interval`s that
begin at x, are as long as value and lie on lane y; `flame`, y of frames x with the ids node and parent,
or of call paths x (frames from the outermost in, joined by semicolons); `source`, the lines of files, coloured by value; `parallel`, a line through the columns
of each row, as strong as its value; `network`, nodes x, in groups by series, joined with those that the list `links` names, with the
columns shown of the one that is clicked."""
ROLES = sorted({role for kind in CHARTS.values() for role in (*kind.roles, *kind.optional)})
