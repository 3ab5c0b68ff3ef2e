"""The CPU engine: Polars' streaming engine on all cores. The default, always there."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from pasta.errors import EngineError
from pasta.pipeline.engines.base import Engine


class CpuEngine(Engine):
    """Runs plans on CPU cores; memory is bounded where the plan allows streaming."""

    name = "cpu"

    def collect(self, plans: Sequence[pl.LazyFrame]) -> list[pl.DataFrame]:
        """Run `plans` in one pass over what they share."""
        try:
            return pl.collect_all(plans, engine="streaming")
        except pl.exceptions.PolarsError as error:
            raise EngineError(f"the cpu engine failed: {' '.join(str(error).split())}") from error
