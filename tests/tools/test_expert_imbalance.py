"""`expert_imbalance` on planted hot experts, and on even ones."""

from __future__ import annotations

import pasta
from pasta.testing import write_trace
from tests.tools.experts_run import experts_run

SEEDS = 100


def test_a_hot_expert_is_named_with_what_its_rank_receives(tmp_path):
    run = experts_run(3, hot=3)
    report = pasta.run("expert_imbalance", trace=write_trace(tmp_path / "t", **run))
    assert report.findings[0].startswith("of 12 intervals between all-to-alls 12 are uneven; in 12 of these matrix products take longest on device 0 of rank 3: 1.3")  # fmt: skip
    assert report.findings[1].startswith("device 0 of rank 3 receives most in all-to-alls: 175.78 KiB, 1.333 times the mean")  # fmt: skip
    assert len(report.findings) == 2
    gemms = dict.fromkeys(range(4), 0)
    for kernel in run["kernel"]:
        gemms[kernel["rank"]] += kernel["dur"] * ("gemm" in kernel["name"])
    assert dict(report.tables["ranks"].select("rank", "gemm_ns").rows()) == gemms


def test_hot_experts_are_found_in_every_seed(tmp_path):
    """Work that is 1.4 times as long is 1.27 times the mean of four ranks, and noise of 2 % never hides it."""
    traces = [write_trace(tmp_path / f"{seed}", **experts_run(seed, hot=seed % 4, factor=1.4, layers=6)) for seed in range(SEEDS)]  # fmt: skip
    report = pasta.run("expert_imbalance", trace=traces, top=10**6)
    intervals = report.tables["intervals"]
    assert intervals.height == 6 * SEEDS
    assert (intervals["rank"] == intervals["trace"].cast(int) % 4).all()
    assert intervals["time_ratio"].is_between(1.2, 1.36).all()
    told = [text for text in report.findings if "take longest" in text]
    assert len(told) == 5
    assert all(": of 6 intervals between all-to-alls 6 are uneven; in 6 of these" in text for text in told)  # fmt: skip
    assert f"... and {SEEDS - 5} more of this kind" in report.findings


def test_nothing_is_found_among_even_experts(tmp_path):
    traces = [write_trace(tmp_path / str(seed), **experts_run(seed)) for seed in range(SEEDS)]
    assert pasta.run("expert_imbalance", trace=traces).findings == []


def test_without_bytes_the_products_still_tell(tmp_path):
    report = pasta.run("expert_imbalance", trace=write_trace(tmp_path / "t", **experts_run(1, hot=2, told=False)))  # fmt: skip
    assert len(report.findings) == 1
    assert report.findings[0].startswith(
        "of 12 intervals between all-to-alls 12 are uneven; in 12 of these matrix products take longest on device 0 of rank 2"
    )


def test_a_trace_that_tells_nothing_says_so(tmp_path):
    tables = experts_run(1, ranks=1)
    alone = pasta.run("expert_imbalance", trace=write_trace(tmp_path / "one", **tables))
    assert alone.findings[0].startswith("no all-to-all that is matched")
    bare = pasta.run("expert_imbalance", trace=write_trace(tmp_path / "bare", kernel=tables["kernel"]))  # fmt: skip
    assert bare.findings[0].startswith("no all-to-all that is matched")


def test_processes_of_one_rank_and_device_are_told_apart(tmp_path):
    """Four processes that all say rank 0 and device 0, as where no launcher numbers them."""
    tables = {
        name: [{**row, "rank": 0} for row in rows] for name, rows in experts_run(3, hot=2).items()
    }
    report = pasta.run("expert_imbalance", trace=write_trace(tmp_path / "t", **tables))
    assert "on device 0 of rank 0, pid 3: 1.3" in report.findings[0]
    assert report.findings[1].startswith("device 0 of rank 0, pid 3 receives most")
    assert set(report.tables["intervals"]["pid"]) == {3}
