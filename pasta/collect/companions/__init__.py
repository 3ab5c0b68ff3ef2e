"""Companions: programs that watch the recorded program from beside it, such as perf."""
