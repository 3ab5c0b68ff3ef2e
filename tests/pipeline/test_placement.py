"""Which stages run on shards, and which force all rows into one place."""

from __future__ import annotations

import pytest

from pasta import api
from pasta.pipeline.config import parse_config
from pasta.pipeline.placement import place
from pasta.pipeline.placement_text import describe
from pasta.pipeline.run import wanted_nodes
from pasta.pipeline.wiring import build_graph
from pasta.tools.shipped import ToolFiles
from pasta.yaml_text import read_yaml

HEAD = "{version: 1, tool: t, about: A., inputs: {kernels: {table: kernel}, copies: {table: copy}}, report: [], stages: "


def graph_of(stages: str):
    return build_graph(parse_config(read_yaml(HEAD + stages + "}")), {}, ToolFiles().included)


def placed(stages: str, wanted: str, *, by_rank: bool = True):
    return place(graph_of(stages), [wanted], by_rank=by_rank)


def test_a_path_of_row_wise_stages_ends_in_a_state():
    found = placed("{long: {use: filter, from: kernels, where: dur > 2}, n: {use: aggregate, from: long, by: name, measures: {n: count(*)}}, top: {use: top, from: n, by: n, n: 3}}", "top")  # fmt: skip
    assert found.places == {"kernels": "rows", "copies": "rows", "long": "rows", "n": "combined", "top": "caller"}  # fmt: skip
    assert (found.shipped, found.combined, found.by_rank) == ((), ("n",), False)
    assert found.obstacles == {"top": "n"}


@pytest.mark.parametrize(
    ("stage", "place"),
    [
        ("{use: busy, from: kernels, by: [trace, rank, device]}", "ranks"),
        ("{use: busy, from: kernels, by: [rank, device]}", "caller"),
        ("{use: join, from: [kernels, copies], on: [rank, pid, correlation]}", "ranks"),
        ("{use: join, from: [kernels, copies], on: [pid, correlation]}", "caller"),
        ("{use: join, from: [kernels, copies], on: {rank: rank, correlation: correlation}}", "ranks"),
        ("{use: aggregate, from: kernels, by: [trace, rank], measures: {m: median(dur)}}", "ranks"),
        ("{use: aggregate, from: kernels, by: [rank], measures: {m: median(dur)}}", "caller"),
        ("{use: aggregate, from: kernels, by: [rank], measures: {m: max(dur)}}", "combined"),
        ("{use: sort, from: kernels, by: [trace, rank]}", "caller"),
        ('{use: derive, from: kernels, columns: {x: "max(ts) over (partition by trace, rank)"}}', "ranks"),
        ('{use: derive, from: kernels, columns: {x: "max(ts) over (partition by rank)"}}', "caller"),
        ("{use: correlate, from: [kernels, copies], by: correlation, columns: [kind]}", "ranks"),
    ],
)  # fmt: skip
def test_a_stage_runs_on_ranks_where_its_keys_keep_them_apart(stage, place):
    assert placed(f"{{s: {stage}}}", "s").places["s"] == place
    alone = placed(f"{{s: {stage}}}", "s", by_rank=False).places["s"]
    assert alone == ("combined" if place == "combined" else "caller")


@pytest.mark.parametrize(
    "stage",
    [
        "{use: derive, from: kernels, columns: {rank: rank + 1}}",
        "{use: select, from: kernels, columns: {rank: device, trace: trace, ts: ts, dur: dur}}",
        "{use: select, from: kernels, columns: [rank, ts, dur]}",
        "{use: nearest, from: kernels, by: [trace], order: [ts], columns: {rank: rank}}",
    ],
)
def test_columns_that_take_the_place_of_the_rank_keep_nothing_apart(stage):
    by = "[rank, trace]" if "trace" in stage or "select" not in stage else "[rank]"
    stages = f"{{first: {stage}, n: {{use: aggregate, from: first, by: {by}, measures: {{m: median(dur)}}}}}}"  # fmt: skip
    assert placed(stages, "n").places["n"] == "caller"


def test_what_follows_a_stage_that_sorts_or_numbers_runs_in_the_caller():
    stages = "{b: {use: busy, from: kernels, by: [trace, rank]}, d: {use: derive, from: b, columns: {x: dur + 1}}, n: {use: aggregate, from: d, by: [trace, rank], measures: {n: median(x)}}}"  # fmt: skip
    assert placed(stages, "n").places == {"kernels": "rows", "copies": "rows", "b": "ranks", "d": "ranks", "n": "ranks"}  # fmt: skip
    found = placed(stages, "d")
    assert (found.places["d"], found.shipped) == ("caller", ("b",))


def test_inputs_under_one_another_are_not_shipped_but_what_is_in_order_after_them_is():
    stages = '{both: {use: concat, from: [kernels, copies]}, w: {use: derive, from: both, columns: {x: "max(ts) over (partition by trace, rank)"}}, b: {use: busy, from: w, by: [trace, rank]}}'  # fmt: skip
    assert placed(stages, "w").places["w"] == "caller"
    assert placed(stages, "b").places["w"] == "ranks"


def test_device_time_runs_by_rank_up_to_its_sums():
    config, graph = api.check("device_time")
    found = place(graph, wanted_nodes(config, outputs=False), by_rank=True)
    assert (found.shipped, found.combined) == (("sums",), ())
    lines = describe(graph, wanted_nodes(config, outputs=False))
    assert "stages.pieces: sharded by trace and rank" in lines
    assert lines[-1] == "of a trace with one rank, all rows meet in the caller for 'communication', 'compute', unless they look rows up in few others"  # fmt: skip
    assert "stages.least_busy: one worker (the caller), after 'devices'" in lines


@pytest.mark.parametrize(("tool", "shipped", "combined"), [
    ("operator_time", {"launched.of.paths"}, {"launched.executed", "launched.ended"}),
    ("working_set", {"table", "sets.missed"}, {"largest", "by_name"}),
    ("kernel_frequency", set(), {"by_name"}),
])  # fmt: skip
def test_what_leaves_the_shards_of_shipped_tools(tool, shipped, combined):
    config, graph = api.check(tool)
    found = place(graph, wanted_nodes(config, outputs=False), by_rank=True)
    assert (set(found.shipped), set(found.combined)) == (shipped, combined)


JOINED = "long: {use: filter, from: copies, where: dur > 2}, j: {use: join, from: [kernels, long], on: [rank, pid, correlation], columns: [kind]}, n: {use: aggregate, from: j, by: kind, measures: {n: count(*)}}"


def with_few(stages: str, wanted: list[str]):
    return place(graph_of(stages), wanted, by_rank=False, few=["copies"])


def test_rows_are_looked_up_in_few_others_on_each_shard():
    found = with_few(f"{{{JOINED}, top: {{use: top, from: n, by: n, n: 3}}}}", ["top", "long"])
    assert found.places == {"kernels": "rows", "copies": "before", "long": "before", "j": "rows", "n": "combined", "top": "caller"}  # fmt: skip
    assert (found.combined, found.given, found.before) == (("n",), ("long",), {"copies", "long"})
    assert found.obstacles == {"top": "n"}


@pytest.mark.parametrize(
    "stage",
    [
        "{use: concat, from: [kernels, long]}",
        "{use: join, from: [long, kernels], on: [rank, pid, correlation]}",
        "{use: overlap, from: [kernels, long], by: [trace, rank]}",
    ],
)
def test_few_rows_that_meet_many_elsewhere_are_cut_as_these_are(stage):
    found = with_few(f"{{{JOINED}, other: {stage}}}", ["n", "other"])
    assert found.before == set()
    assert found == place(graph_of(f"{{{JOINED}, other: {stage}}}"), ["n", "other"], by_rank=False)


def test_nothing_is_given_where_no_state_is_left():
    found = with_few(f"{{{JOINED}, s: {{use: sort, from: j, by: ts}}}}", ["s"])
    assert (found.combined, found.given) == ((), ())
    assert found.obstacles == {"s": "s"}
