"""`stack_levels` on spans whose parents are known, in doubt or missing."""

from __future__ import annotations

import random

import pytest

import pasta
from pasta.collect.importing import import_trace

COUNTS = ("spans", "agreed", "ids_alone", "times_alone", "ambiguous", "roots", "orphans")


def span(number, level, ts, dur, parent=0, *, tid=1, **more):
    row = {"span_id": number, "parent_id": parent, "level": level, "tid": tid, "ts": ts}
    return {"name": f"{level} {number}", **row, "dur": dur, **more}


def call(number, ts, tid=1, **more):
    return {"tid": tid, "ts": ts, "dur": 10, "correlation": number, "name": "launch", **more}


def kernel(number, **more):
    row = {"device": 0, "launch_id": number, "ts": 0, "dur": 5, "name": f"kernel {number}"}
    return {**row, "correlation": number, **more}


def counts(report):
    rows = report.tables["levels"].to_dicts()
    return {row["level"]: tuple(row[name] for name in COUNTS) for row in rows}


def whole(scale=1):
    """A step with a module, an operator in it and a call of that; ids and times agree."""
    return [
        span(1, "step", 0, 90_000 * scale),
        span(2, "module", 1_000 * scale, 50_000 * scale, 1),
        span(3, "operator", 2_000 * scale, 20_000 * scale, 2, external_id=77),
    ]


def test_what_is_known_is_no_doubt(make_trace):
    trace = make_trace(span=whole(), call=[call(1, 3_000, external_id=77)], kernel=[kernel(1)])
    report = pasta.run("stack_levels", trace=trace)
    assert counts(report) == {
        "step": (1, 0, 0, 0, 0, 1, 0),
        "module": (1, 1, 0, 0, 0, 0, 0),
        "operator": (1, 1, 0, 0, 0, 0, 0),
        "call": (1, 1, 0, 0, 0, 0, 0),
        "kernel": (1, 0, 1, 0, 0, 0, 0),
    }
    assert report.tables["most"].is_empty()
    said = (
        "of 5 spans, calls and executions 100.0 % have a parent that ids and times tell, or are"
        " outermost; 0.0 % are ambiguous, 0.0 % orphans"
    )
    assert report.findings == [said]


def test_without_ids_times_tell(make_trace):
    rows = [{**row, "parent_id": 0} for row in whole()]
    trace = make_trace(span=rows, call=[call(1, 3_000)])
    found = counts(pasta.run("stack_levels", trace=trace))
    assert found["module"] == (1, 0, 0, 1, 0, 0, 0)
    assert found["operator"] == (1, 0, 0, 1, 0, 0, 0)
    assert found["call"] == (1, 0, 0, 1, 0, 0, 0)


def test_partial_overlap_and_identical_spans_are_ambiguous(make_trace):
    trace = make_trace(
        span=[
            *whole(),
            span(4, "operator", 40_000, 20_000),
            span(5, "operator", 70_000, 100),
            span(6, "operator", 70_000, 100),
            span(7, "module", 70_000, 100),
        ]
    )
    report = pasta.run("stack_levels", trace=trace)
    assert counts(report)["operator"] == (4, 1, 0, 0, 3, 0, 0)
    assert counts(report)["module"] == (2, 1, 0, 1, 0, 0, 0)
    assert "pasta collect --serialize" in report.findings[-1]


def test_ids_go_before_times_that_leave_it_in_doubt(make_trace):
    rows = [*whole(), span(4, "operator", 40_000, 20_000, parent=2)]
    assert counts(pasta.run("stack_levels", trace=make_trace(span=rows)))["operator"] == (
        2, 1, 1, 0, 0, 0, 0
    )  # fmt: skip


def test_what_names_itself_as_its_parent_has_none_by_ids(make_trace):
    rows = [*whole(), span(4, "operator", 60_000, 10, 4), span(5, "operator", 95_000, 10, 5)]
    found = counts(pasta.run("stack_levels", trace=make_trace(span=rows)))
    assert found["operator"] == (3, 1, 0, 1, 0, 0, 1)


def test_another_thread_is_placed_by_sequence_or_by_the_one_thread_that_drives(make_trace):
    rows = [
        *whole(),
        span(4, "operator", 3_000, 10, 3, sequence=5),
        span(5, "operator", 60_000, 10, tid=2, sequence=5, forward_tid=1),
        span(6, "operator", 61_000, 10, tid=2),
        span(7, "operator", 95_000, 10, tid=2),
        span(8, "operator", 89_000, 5_000, tid=2),
    ]
    report = pasta.run("stack_levels", trace=make_trace(span=rows))
    assert counts(report)["operator"] == (6, 2, 1, 1, 0, 0, 2)
    assert set(report.tables["most"]["name"]) == {"operator 7", "operator 8"}


def test_two_threads_that_drive_leave_others_in_doubt(make_trace):
    rows = [
        span(1, "step", 0, 90_000),
        span(2, "step", 0, 90_000, tid=2),
        span(3, "operator", 5, 10, tid=3),
    ]
    found = counts(pasta.run("stack_levels", trace=make_trace(span=rows)))
    assert found["operator"] == (1, 0, 0, 0, 1, 0, 0)


def test_kernels_without_calls_are_orphans(make_trace):
    trace = make_trace(
        span=whole(),
        call=[call(1, 3_000)],
        kernel=[kernel(1), kernel(2), kernel(0), kernel(3, external_id=77)],
        copy=[{"device": 0, "ts": 0, "dur": 5, "kind": "HtoD", "correlation": 1}],
    )
    report = pasta.run("stack_levels", trace=trace)
    assert counts(report)["kernel"] == (5, 0, 3, 0, 0, 0, 2)
    assert report.findings[1].startswith("most in doubt is kernel 2, at level kernel (orphan): 1")
    assert report.findings[2].startswith("nothing tells what launched 2 kernels and copies")


def test_an_orphan_planted_among_many_is_named(make_trace):
    for seed in range(10):
        chance = random.Random(seed)
        rows, ts = [], 0
        for number in range(0, 60, 3):
            scale = chance.randint(1, 5)
            rows += [
                {**row, "span_id": row["span_id"] + number, "ts": row["ts"] + ts,
                 "parent_id": row["parent_id"] and row["parent_id"] + number}
                for row in whole(scale)
            ]  # fmt: skip
            ts += 100_000 * scale
        clean = make_trace(f"clean {seed}", span=rows)
        assert pasta.run("stack_levels", trace=clean).facts["orphans"] == 0
        outside = {**span(1000, "operator", ts + chance.randint(1, 99), 10), "name": "lost"}
        rows.insert(chance.randrange(len(rows)), outside)
        report = pasta.run("stack_levels", trace=make_trace(f"planted {seed}", span=rows))
        assert report.tables["most"].select("how", "name", "spans").rows() == [
            ("orphan", "lost", 1)
        ]


def test_circles_of_parents_are_found_and_only_times_tell_of_them(make_trace):
    """Modules 1, 2 and 3 are each other's parents and 4 its own; 5 lies in 3 by id and time, 2 in 1 by time alone."""
    trace = make_trace(
        span=[
            span(1, "module", 0, 90_000, 3),
            span(2, "module", 10_000, 20_000, 1),
            span(3, "module", 100_000, 50_000, 2),
            span(4, "module", 200_000, 10_000, 4),
            span(5, "operator", 110_000, 10_000, 3),
        ]
    )
    report = pasta.run("stack_levels", trace=trace)
    assert counts(report) == {"module": (4, 0, 0, 1, 0, 3, 0), "operator": (1, 1, 0, 0, 0, 0, 0)}
    assert report.findings[1] == (
        "4 spans are recorded as their own ancestors, as module 1: these parents are not taken, only times tell of them"
    )


def test_nothing_recorded(make_trace):
    report = pasta.run("stack_levels", trace=make_trace(thread=[{"tid": 1}]))
    assert report.findings == ["no span, call or kernel was recorded"]


@pytest.mark.parametrize(
    ("sample", "doubtful"),
    [
        ("tracelens_h100_bert_small", 0),
        ("tracelens_mi300_bert_small", 0),
        ("hta_diff_control", 1400),
    ],
)
def test_parts_add_up_on_real_traces(samples, tmp_path, sample, doubtful):
    import_trace([samples / "kineto" / f"{sample}.json.gz"], tmp_path / "t")
    facts = pasta.run("stack_levels", trace=tmp_path / "t").facts
    assert facts["spans"] == sum(facts[name] for name in COUNTS[1:])
    assert facts["ambiguous"] + facts["orphans"] <= doubtful
