"""What is said of real traces is what an independent look at their JSON finds."""

from __future__ import annotations

import gzip
import json
import re
import tempfile
from collections import defaultdict
from decimal import Decimal
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pasta
from pasta.collect.importing import import_trace
from tests.conftest import write_trace

CALLS = ("cuda_runtime", "cuda_driver")
FILES = {
    "hta_alexnet_critical_path": None,
    "hta_df_index_resolver_rank1of2": None,
    "hta_large_integer_rank70": "come without any call or copy",
    "hta_mi250_minitoy_rocm6.2": "1 of 2 steps (50.0 %) have no kernels",
    "hta_negative_queue_cudagraph_rank0": "705 of 6,080 kernels (11.6 %) have no launch",
    "hta_ns_resolution_rank0": None,
    "hta_triton_example": "parts of the run without any event",
    "tracelens_b200_eager_rank0of8": "74 of 768 kernels (9.6 %) begin before the one before them",
    "tracelens_h100_bert_small": None,
    "tracelens_mi210_gpu_only": None,
    "tracelens_mi300_bert_small": None,
    "tracelens_sglang_decode_hipgraph": None,
}
"""Sample -> what is unusual about it, but that old profiles are of whole microseconds."""


@pytest.mark.parametrize("name", FILES)
def test_samples(samples, tmp_path, name):
    file = samples / "kineto" / f"{name}.json.gz"
    import_trace([file], tmp_path / "t")
    _, *said = pasta.run("summary", trace=tmp_path / "t").findings
    said = [one for one in said if not one.startswith("all times are whole microseconds")]
    expected = FILES[name]
    assert len(said) == 0 if expected is None else any(expected in one for one in said), said
    for number in re.findall(r"\((\d+\.\d) %\)", " ".join(said)):
        assert 0 < float(number) <= 100
    events = json.loads(gzip.decompress(file.read_bytes()), parse_float=Decimal)["traceEvents"]
    kernels = [event for event in events if event.get("cat") == "kernel"]
    for phrase, number in (
        ("have no launch", _without_launch(events, kernels)),
        ("begin before", _overlapping(kernels)),
    ):
        found = [one for one in said if phrase in one]
        assert bool(found) == bool(number)
        if found:
            assert found[0].startswith(f"{number} of {len(kernels):,} kernels")


def _without_launch(events, kernels):
    calls = {event["args"]["correlation"] for event in events if event.get("cat") in CALLS}
    return sum(kernel["args"]["correlation"] not in calls for kernel in kernels) if calls else 0


def _overlapping(kernels):
    streams = defaultdict(list)
    for kernel in kernels:
        args, begin = kernel.get("args", {}), int(kernel["ts"] * 1000)
        key = (kernel["pid"], args.get("device"), args.get("context"), args.get("stream"))
        streams[key].append((begin, begin + int(kernel["dur"] * 1000)))
    found = 0
    for intervals in streams.values():
        latest = -1
        for begin, end in sorted(intervals):
            found += begin < latest and end > begin
            latest = max(latest, end)
    return found


LONG = (1 << 63) - 1
ROW = st.fixed_dictionaries(
    {
        "ts": st.one_of(st.none(), st.integers(-LONG, LONG), st.integers(0, 10**6)),
        "dur": st.one_of(st.none(), st.integers(0, LONG), st.integers(0, 10**4)),
        "rank": st.sampled_from([0, 1, None]),
        "pid": st.sampled_from([1, None]),
        "name": st.sampled_from(["a", "", None]),
    }
)
LAUNCHED = st.builds(lambda row, n: {**row, "correlation": n}, ROW, st.sampled_from([0, 1, None]))


@settings(max_examples=60, deadline=None)
@given(
    kernel=st.lists(LAUNCHED, max_size=8),
    call=st.lists(LAUNCHED, max_size=5),
    span=st.lists(ROW.map(lambda row: {**row, "level": "step"}), max_size=5),
)
def test_whatever_a_trace_holds_shares_are_shares(kernel, call, span):
    with tempfile.TemporaryDirectory() as folder:
        given_ = {"kernel": kernel, "call": call, "span": span}
        trace = write_trace(
            Path(folder) / "t", **{name: rows for name, rows in given_.items() if rows}
        )
        said = " ".join(pasta.run("summary", trace=trace).findings[1:])
    assert all(0 < float(number) <= 100 for number in re.findall(r"([-\d.]+) %", said)), said
