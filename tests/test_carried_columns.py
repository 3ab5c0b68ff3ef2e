"""What many rows carry: no long name, and nothing that nobody reads, where millions are in memory."""

import pytest

from pasta import api

NARROW = [
    ("idle_tensors", "of.touched", {"name"}),
    ("byte_flow", "judged", {"name", "writer"}),
    ("allocation_uses", "of_lives", {"kernel", "name", "touched_by"}),
    (
        "critical_path",
        "of.host.host.moments",
        {"doing", "own_range", "range", "host_call", "points"},
    ),
    ("critical_path", "of.host.host.doing", {"name", "level", "span_id"}),
    ("idle_causes", "of.why.doing", {"name", "level", "span_id"}),
    ("idle_causes", "of.why.causes", {"running_cause", "call_ts", "any_end", "prompt", "loads"}),
    ("idle_causes", "of.mains", {"label", "module"}),
    ("host_bound", "of.at.in.of.in_path", {"off_ns", "on_ns", "off_stack", "on_stack", "span_id"}),
    ("host_bound", "of.gapped", {"label", "until_label"}),
    ("sector_heatmap", "of.numbered", {"address", "offset", "ts", "object_id"}),
    ("sector_heatmap", "words", {"trace", "rank", "pid", "kernel", "thing"}),
]


@pytest.mark.parametrize(("tool", "node", "left_out"), NARROW)
def test_rows_carry_no_more_than_is_read(tool, node, left_out):
    _, graph = api.check(tool)
    assert not left_out & set(graph.schemas[node])
