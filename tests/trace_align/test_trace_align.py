"""`pasta trace align` gives all ranks one clock, and says when it cannot."""

from __future__ import annotations

import json
import tarfile

import polars as pl
import pytest
from click.testing import CliRunner

from pasta import api
from pasta.cli import cli
from pasta.collect.importing import import_trace
from pasta.errors import TraceError
from pasta.tools.many_ranks import clocks
from pasta.trace import Trace
from pasta.trace_align import align_trace, clock_offsets
from pasta.trace_combine import TIMES
from tests.conftest import write_trace

SHIFT = 11_560_000_000
SKEW = 1_600_000
MS = 1_000_000


def ranks_of(folder, shift: int, *, count: int = 12, operation: str = "allreduce") -> Trace:
    """Two ranks, the second started 1.6 ms late and with a clock that is `shift` ahead."""
    tables: dict[str, list[dict]] = {"collective": [], "kernel": [], "process": [], "loss": []}
    for rank, late, ahead in ((0, 0, 0), (1, SKEW, shift)):
        for place in range(count):
            end = (10 * place + 9) * MS + 700 * rank * (place % 2)
            begin = (10 * place + 2) * MS + late
            own = {"rank": rank, "device": 0, "ts": begin + ahead, "dur": end - begin, "stream": 7}
            tables["kernel"].append({**own, "launch_id": place + 1, "name": "ncclAllReduce"})
            tables["collective"].append(
                {
                    **own, "launch_id": place + 1, "communicator": "world", "sequence": place,
                    "sequence_source": "recorded", "operation": operation, "members": [0, 1],
                }
            )  # fmt: skip
        times = {"started": late + ahead, "ended": 200 * MS + ahead}
        tables["process"].append({"rank": rank, **times})
        tables["loss"].append(
            {"rank": rank, "collector": "c", "reason": "r", "count": 1, "first_ts": MS + ahead}
        )
    return write_trace(folder, **tables)


def test_a_shifted_clock_is_brought_back_and_the_true_skew_stays(tmp_path):
    trace = ranks_of(tmp_path / "t", SHIFT)
    aligned = align_trace(trace, tmp_path / "a")
    (_, one) = aligned.offsets
    assert abs(one.offset - SHIFT) <= one.residual_p95 <= 700
    assert one.shift == -one.offset
    found = Trace.open(tmp_path / "a")
    starts = dict(found.scan("kernel").group_by("rank").agg(pl.col("ts").min()).collect().rows())
    assert abs(starts[1] - starts[0] - SKEW) <= one.residual_p95
    for table in trace.tables():
        before = trace.scan(table).collect()
        after = found.scan(table).collect().sort("rank", maintain_order=True)
        back = pl.when(pl.col("rank") == 1).then(one.offset).otherwise(0)
        times = [name for name in TIMES if name in after.columns]
        restored = after.with_columns(pl.col(times) + back)
        assert restored.equals(before.sort("rank", maintain_order=True)), table


def test_the_manifest_says_what_was_done(tmp_path):
    align_trace(ranks_of(tmp_path / "t", SHIFT), tmp_path / "a")
    info = Trace.open(tmp_path / "a").info
    first, second = info["clock"]["aligned"]["ranks"]
    assert info["state"] == "complete"
    assert info["clock"]["aligned"]["reference"] == first["rank"] == 0
    assert second["shift_ns"] == -second["offset_ns"]
    assert info["clock"]["last_ts"] == 200 * MS


def test_an_aligned_trace_needs_no_more(tmp_path):
    align_trace(ranks_of(tmp_path / "t", -SHIFT), tmp_path / "a")
    again = align_trace(Trace.open(tmp_path / "a"), tmp_path / "b")
    assert [one.shift for one in again.offsets] == [0, 0]
    assert again.sentence == "the clocks of all 2 ranks agree with that of rank 0"


def test_operations_that_do_not_synchronise_tell_nothing(tmp_path):
    trace = ranks_of(tmp_path / "t", SHIFT, operation="broadcast")
    with pytest.raises(TraceError, match="rank 1: it has no collective that ends at once"):
        align_trace(trace, tmp_path / "a")
    assert not (tmp_path / "a").exists()


def test_one_rank_or_no_collective_is_refused(tmp_path):
    kernel = [{"ts": 1, "dur": 1, "rank": rank} for rank in (0, 1)]
    with pytest.raises(TraceError, match="has 1 rank, so that there is nothing to align"):
        align_trace(write_trace(tmp_path / "t", kernel=kernel[:1]), tmp_path / "a")
    with pytest.raises(TraceError, match="has no table 'collective'"):
        align_trace(write_trace(tmp_path / "u", kernel=kernel), tmp_path / "a")


def test_the_command_prints_one_row_for_each_rank(tmp_path):
    ranks_of(tmp_path / "t", SHIFT)
    arguments = ["trace", "align", str(tmp_path / "t"), "-o", str(tmp_path / "a")]
    result = CliRunner().invoke(cli, [*arguments, "--format", "json"])
    assert result.exit_code == 0
    rows = json.loads(result.output)["tables"]["clocks"]
    assert [row["rank"] for row in rows] == [0, 1]
    again = CliRunner().invoke(cli, arguments)
    assert isinstance(again.exception, TraceError)


def test_of_many_ranks_the_farthest_are_shown_first():
    offsets = [0, 5, -70, 20, 0, 3, -1, 2, 900, -30]
    rows = pl.DataFrame({"rank": range(10), "offset_ns": offsets})
    part = clocks(rows)
    assert part.shown["offset_ns"].to_list() == [900, -70, -30, 20, 5, 3, 2, -1]
    assert sorted(part.rows["rank"]) == [*range(10)]
    assert part.title.endswith(", the farthest first")
    assert clocks(rows.head(8)).shown.equals(rows.head(8))


def test_a_merge_warns_of_clocks_that_disagree(tmp_path):
    for name, shift in (("t", SHIFT), ("u", 0)):
        both = ranks_of(tmp_path / name, shift)
        for rank in (0, 1):
            rows = {
                table: both.scan(table).filter(pl.col("rank") == rank).collect().to_dicts()
                for table in both.tables()
            }
            write_trace(tmp_path / f"{name}{rank}", **rows)
    warned = api.merge([tmp_path / "t0", tmp_path / "t1"], tmp_path / "m").notes
    assert len(warned) == 1
    assert warned[0].startswith(
        "the clocks of ranks differ by up to 11.56 s (1 of 2 ranks (50.0 %)"
    )
    assert api.merge([tmp_path / "u0", tmp_path / "u1"], tmp_path / "n").notes == []


@pytest.fixture
def eight_ranks(samples):
    return samples / "kineto_multirank" / "param_dlrm_8rank_kineto.tar.gz"


def test_ranks_of_one_machine_agree(eight_ranks, tmp_path):
    report = import_trace([eight_ranks], tmp_path / "t", align=True)
    assert report.aligned is not None
    assert [one.shift for one in report.aligned.offsets] == [0] * 8
    assert max(one.residual_max for one in report.aligned.offsets) == 4000  # ns; the file has us


def test_artificial_shifts_of_real_ranks_are_found(eight_ranks, tmp_path):
    by = {rank: rank * rank * 37_000_003 * (-1) ** rank for rank in range(8)}
    with tarfile.open(eight_ranks) as archive:
        files = sorted((one for one in archive if one.isfile()), key=lambda one: one.name)
        ranks = []
        for one in files:
            document = json.load(archive.extractfile(one))
            rank = len(ranks)
            for event in document["traceEvents"]:
                if "ts" in event:
                    event["ts"] += by[rank] / 1000
            ranks.append(tmp_path / f"rank{rank}.json")
            ranks[-1].write_text(json.dumps(document))
    true = import_trace([eight_ranks], tmp_path / "t")
    report = import_trace(ranks, tmp_path / "s", align=True)
    assert report.rows == true.rows
    for one in report.aligned.offsets[1:]:
        assert abs(one.offset - by[one.rank]) <= 5000
    ends = Trace.open(tmp_path / "s").scan("collective").filter(operation="allreduce").collect()
    spread = ends.group_by("sequence").agg((pl.col("ts") + pl.col("dur")).alias("end"))
    assert spread.select(pl.col("end").list.max() - pl.col("end").list.min()).max().item() <= 10_000


def test_two_ranks_of_a_pipeline_share_no_collective(samples, tmp_path):
    folder = samples / "kineto_multirank"
    files = [folder / f"hta_sampled_rank{rank}.json.gz" for rank in (0, 1)]
    with pytest.raises(TraceError, match="import without --align"):
        import_trace(files, tmp_path / "t", align=True)
    assert list(tmp_path.iterdir()) == []
    import_trace(files, tmp_path / "t")
    assert list(clock_offsets(Trace.open(tmp_path / "t")).unknown) == [1]
