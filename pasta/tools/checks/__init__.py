"""What to know before a trace is believed: one sentence for each thing about it that is not as usual.

Every check reads its few columns in a stream, so that memory stays bounded whatever the trace's size.
"""

from __future__ import annotations

import polars as pl

from pasta.tools.checks.activity import activity_warnings
from pasta.tools.checks.clocks import clock_warnings
from pasta.tools.checks.launches import launch_warnings
from pasta.tools.checks.steps import step_warnings
from pasta.tools.checks.streams import stream_warnings
from pasta.tools.checks.times import time_warnings
from pasta.trace import Trace


def trace_warnings(trace: Trace, counts: pl.DataFrame) -> list[str]:
    """Return what is unusual about a trace, what makes its times doubtful first.

    Args:
        trace: the trace.
        counts: `rank`, `table`, `rows`, `start_ts` and `end_ts` of each table of each rank.
    """
    return [
        *activity_warnings(trace, counts),
        *clock_warnings(trace),
        *time_warnings(trace),
        *launch_warnings(trace),
        *stream_warnings(trace),
        *step_warnings(trace),
    ]
