"""What HolisticTraceAnalysis, pasta and the raw events of a trace say of the same figures.

`in_hta` is HTA's side, `ours` is pasta's. `raw` and `truths` compute each figure from the events of
the file with a few lines of their own, exactly and under HTA's rules (`rules`).
"""
