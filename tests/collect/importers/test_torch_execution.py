"""Execution traces: joined to their Kineto twins, shapes, parents, storages."""

import gzip
import json
import tarfile

import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import pasta
from pasta.collect.importing import import_trace
from pasta.errors import InputError
from pasta.trace import Trace

MM = "aten::mm(Tensor self, Tensor mat2) -> Tensor"
ADD = "aten::add_.Tensor(Tensor(a!) self, Tensor other, *, Scalar alpha=1) -> Tensor(a!)"
LINEAR = "aten::linear(Tensor input, Tensor weight, Tensor? bias=None) -> Tensor"
VIEW = "aten::t(Tensor(a) self) -> Tensor(a)"


def tensor(storage, shape, *, number=100, offset=0, device="cuda:0"):
    elements = 1
    for size in shape:
        elements *= size
    return [number + storage, storage, offset, elements, 4, device]


def strides(shape):
    found = [1]
    for size in shape[:0:-1]:
        found.insert(0, found[0] * size)
    return found[: len(shape)]


def node(number, name, parent, schema, *operands, tid=1, sequence=-1):
    """A node of today's layout; operands are its inputs and its outputs, as (storage, shape)."""
    inputs, outputs = [*operands, (), ()][:2]

    def listed(operands):
        shapes = [list(shape) for _, shape in operands]
        return {
            "values": [tensor(storage, shape) for storage, shape in operands],
            "shapes": shapes,
            "types": ["Tensor(float)"] * len(operands),
            "strides": [strides(shape) for shape in shapes],
        }

    attributes = {"rf_id": number, "seq_id": sequence, "tid": tid, "op_schema": schema}
    return {
        "id": number,
        "name": name,
        "ctrl_deps": parent,
        "inputs": listed(inputs),
        "outputs": listed(outputs),
        "attrs": [{"name": k, "type": "x", "value": v} for k, v in attributes.items()],
    }


def old_layout(entry):
    """The same node as it was written in 2023, without strides."""
    attributes = {item["name"]: item["value"] for item in entry["attrs"]}
    sides = {
        key: entry[side][part]
        for side in ("inputs", "outputs")
        for key, part in ((side, "values"), (f"{side[:-1]}_shapes", "shapes"))
    } | {f"{side[:-1]}_types": entry[side]["types"] for side in ("inputs", "outputs")}
    return {"name": entry["name"], "id": entry["id"], "parent": entry["ctrl_deps"]} | (
        attributes | sides
    )


# A linear layer: its transposed weight is a view, the product is made by aten::mm inside; then the
# product is added to in place. Nodes are written as they end.
NODES = [
    node(2, "[pytorch|profiler|execution_trace|thread]", 1, ""),
    node(11, "aten::t", 10, VIEW, [(5, (8, 4))], [(5, (4, 8))]),
    node(12, "aten::mm", 10, MM, [(6, (2, 4)), (5, (4, 8))], [(7, (2, 8))]),
    node(10, "aten::linear", 3, LINEAR, [(6, (2, 4)), (5, (8, 4))], [(7, (2, 8))], sequence=40),
    node(20, "aten::add_", 3, ADD, [(7, (2, 8)), (8, (2, 8))], [(7, (2, 8))], sequence=41),
    node(3, "forward", 2, ""),
    node(1, "[pytorch|profiler|execution_trace|process]", 1, ""),
]


def execution_trace(nodes=NODES, pid=7):
    return {"schema": "1.1.1-chakra.0.0.4", "pid": pid, "time": "", "start_ts": 1, "nodes": nodes}


def event(name, ts, dur, external, *, cat="cpu_op", tid=70, sequence=None, **args):
    more = {} if sequence is None else {"Sequence number": sequence}
    arguments = {"External id": external, **more, **args}
    head = {"ph": "X", "cat": cat, "name": name, "pid": 7, "tid": tid}
    return {**head, "ts": ts, "dur": dur, "args": arguments}


EVENTS = [
    event("forward", 10, 90, 1, cat="user_annotation"),
    event("aten::linear", 20, 40, 2, sequence=40),
    event("aten::t", 22, 3, 3),
    event("aten::mm", 30, 20, 4),
    event("aten::add_", 70, 10, 5, sequence=41),
]


def kineto(events=EVENTS, **more):
    return {**more, "traceEvents": events}


def write(path, content):
    path.write_text(json.dumps(content))
    return path


def imported(tmp_path, events=EVENTS, nodes=NODES, **more):
    files = [
        write(tmp_path / "et.json", execution_trace(nodes)),
        write(tmp_path / "kineto.json", kineto(events)),
    ]
    report = import_trace(files, tmp_path / "t", **more)
    return Trace.open(tmp_path / "t"), {reason: count for _, reason, count, _ in report.losses}


def names_of(trace):
    spans = trace.scan("span").collect()
    return dict(zip(spans["span_id"].to_list(), spans["name"].to_list(), strict=True))


def test_shapes_and_types_of_operators_that_have_none(tmp_path):
    trace, losses = imported(tmp_path)
    spans = trace.scan("span").collect()
    told = {row["name"]: (row["input_shapes"], row["input_types"]) for row in spans.to_dicts()}
    assert told["aten::linear"] == (["2x4", "8x4"], ["float", "float"])
    assert told["aten::add_"] == (["2x8", "2x8"], ["float", "float"])
    assert told["forward"] == (None, None)
    assert not any("twin" in reason for reason in losses)


def test_recorded_shapes_stay(tmp_path):
    recorded = {"Input Dims": [[9, 9]], "Input type": ["float"]}
    events = [*EVENTS[:2], event("aten::t", 22, 3, 3, **recorded), *EVENTS[3:]]
    trace, _ = imported(tmp_path, events)
    spans = trace.scan("span").filter(pl.col("name") == "aten::t").collect()
    assert spans["input_shapes"].to_list() == [["9x9"]]


def touched(trace):
    """(operator, object) -> (read, written, either) of the rows of `touch`."""
    names = names_of(trace)
    return {
        (names[row["span_id"]], row["object_id"]): (
            *(row["unique_read"], row["unique_written"], row["unique_bytes"]),
        )
        for row in trace.scan("touch").collect().to_dicts()
    }


def test_operators_touch_what_they_and_those_they_call_read_and_write(tmp_path):
    trace, losses = imported(tmp_path)
    objects = {4 * 8 * 4: "weight", 2 * 4 * 4: "input", 2 * 8 * 4: "product or other"}
    memory = trace.scan("memory").collect()
    sizes = memory.unique("object_id").sort("object_id")
    assert [objects[size] for size in sizes["bytes"].to_list()] == [
        *("weight", "input", "product or other", "product or other"),
    ]
    assert touched(trace) == {
        ("aten::linear", 1): (128, 0, 128),
        ("aten::linear", 2): (32, 0, 32),
        ("aten::linear", 3): (0, 64, 64),
        ("aten::add_", 3): (64, 64, 64),
        ("aten::add_", 4): (64, 0, 64),
    }
    rows = trace.scan("touch").collect()
    assert rows["space"].unique().to_list() == ["tensor"]
    assert rows["device"].unique().to_list() == [0]
    assert rows["reads"].null_count() == rows.height
    assert any(reason.startswith("storages, of which") for reason in losses)


def test_storages_live_from_the_first_operator_to_the_last(tmp_path):
    trace, _ = imported(tmp_path)
    rows = trace.scan("memory").sort("object_id", "event").collect()
    lives = rows.select("object_id", "event", "ts").rows()
    assert lives == [
        *((1, "allocate", 20_000), (1, "release", 60_000)),
        *((2, "allocate", 20_000), (2, "release", 60_000)),
        *((3, "allocate", 20_000), (3, "release", 80_000)),
        *((4, "allocate", 70_000), (4, "release", 80_000)),
    ]
    assert rows["address"].null_count() == rows.height


def test_the_working_set_of_operators(tmp_path):
    trace, _ = imported(tmp_path)
    facts = pasta.run("working_set", trace.path).facts
    assert facts["working_set_bytes"] == 128 + 32 + 64
    assert facts["footprint_bytes"] == 128 + 32 + 64
    assert facts["units"] == 2
    assert facts["kind"] == "operators"


def test_a_storage_number_that_is_used_again_is_another_object(tmp_path):
    again = node(30, "aten::mm", 3, MM, [(6, (2, 4)), (5, (4, 2))], [(8, (2, 2))])
    nodes = [*NODES[:5], again, *NODES[5:]]
    trace, _ = imported(tmp_path, [*EVENTS, event("aten::mm", 85, 5, 6)], nodes)
    assert touched(trace)["aten::mm", 5] == (0, 16, 16)
    sizes = trace.scan("memory").filter(pl.col("object_id") == 5).collect()
    assert sizes["bytes"].unique().to_list() == [16]


def test_the_layout_of_2023(tmp_path):
    new, _ = imported(tmp_path)
    (tmp_path / "old").mkdir()
    old, losses = imported(tmp_path / "old", nodes=list(map(old_layout, NODES)))
    for table in ("span", "touch", "memory"):
        assert old.scan(table).collect().equals(new.scan(table).collect()), table
    assert any("without strides" in reason for reason in losses)


def test_files_of_other_steps_are_joined_by_order_and_said_so(tmp_path):
    later = [
        {**e, "args": {**e["args"], "Sequence number": e["args"]["Sequence number"] + 9}}
        if "Sequence number" in e["args"]
        else e
        for e in EVENTS
    ]
    trace, losses = imported(tmp_path, later)
    assert len(touched(trace)) == 5
    [count] = [count for reason, count in losses.items() if "different steps" in reason]
    assert count == 2


def test_numbered_operators_find_their_step_among_several(tmp_path):
    steps = [
        event(name, 1000 * step + ts, dur, 10 * step + at, sequence=number + 2 * step)
        for step in range(3)
        for at, (name, ts, dur, number) in enumerate(
            [("aten::linear", 20, 40, 38), ("aten::add_", 70, 10, 39)], start=1
        )
    ]
    nodes = [NODES[0], NODES[3], NODES[4], NODES[5]]
    trace, losses = imported(tmp_path, steps, nodes)
    starts = {row["ts"] for row in trace.scan("span").collect().to_dicts() if row["input_shapes"]}
    assert starts == {1_020_000, 1_070_000}
    assert [c for reason, c in losses.items() if reason.startswith("operators of the Kineto")] == [
        4
    ]


def test_steps_that_cannot_be_told_apart_are_left_out(tmp_path):
    steps = [event("aten::t", 100 * step, 3, step + 1) for step in range(1, 6)]
    trace, losses = imported(tmp_path, steps, [NODES[0], NODES[1]])
    assert trace.rows("touch") == 0
    assert [c for reason, c in losses.items() if "more than one way" in reason] == [1]


def test_threads_that_ran_the_same_are_paired_in_order_and_counted(tmp_path):
    nodes = [
        node(10 * tid, "aten::mm", 2, MM, [(tid, (2, 2))], [(10 + tid, (2, tid))], tid=tid)
        for tid in (1, 2, 3)
    ]
    events = [event("aten::mm", 100 - tid, 1, tid, tid=tid) for tid in (60, 70, 80)]
    trace, losses = imported(tmp_path, events, nodes)
    spans = trace.scan("span").collect()
    threads = dict(zip(spans["span_id"], spans["tid"], strict=True))
    written = {
        threads[row["span_id"]]: row["unique_written"]
        for row in trace.scan("touch").collect().to_dicts()
        if row["unique_written"]
    }
    assert written == {80: 2 * 1 * 4, 70: 2 * 2 * 4, 60: 2 * 3 * 4}
    assert [count for reason, count in losses.items() if "ran the same" in reason] == [3]


def test_a_parent_that_nesting_gets_wrong_is_corrected(tmp_path):
    # In whole microseconds aten::linear and what it calls begin and end together.
    events = [
        event("aten::linear", 20, 5, 2, sequence=40),
        event("aten::mm", 20, 5, 4),
        event("aten::t", 20, 5, 3),
    ]
    nodes = [
        NODES[0],
        node(11, "aten::t", 10, VIEW),
        node(12, "aten::mm", 10, MM),
        node(10, "aten::linear", 2, LINEAR, sequence=40),
    ]
    trace, losses = imported(tmp_path, events, nodes)
    names = names_of(trace) | {0: None}
    parents = {
        row["name"]: names[row["parent_id"]] for row in trace.scan("span").collect().to_dicts()
    }
    assert parents == {"aten::linear": None, "aten::t": "aten::linear", "aten::mm": "aten::linear"}
    assert [count for reason, count in losses.items() if "given the parent" in reason] == [1]


def test_memory_that_the_kineto_file_records_is_not_mixed_with_storages(tmp_path):
    instant = {
        "ph": "i",
        "cat": "cpu_instant_event",
        "name": "[memory]",
        "pid": 7,
        "tid": 70,
        "ts": 30,
        "s": "t",
        "args": {"Device Type": 1, "Device Id": 0, "Addr": 4096, "Bytes": 64},
    }
    trace, losses = imported(tmp_path, [*EVENTS, instant])
    assert trace.rows("memory") == 1
    assert trace.rows("touch") == 0
    assert [count for reason, count in losses.items() if "profile_memory" in reason] == [5]


def test_an_execution_trace_alone_is_refused(tmp_path):
    file = write(tmp_path / "et.json", execution_trace())
    with pytest.raises(InputError, match="has no times; give the Kineto file of the same run"):
        import_trace([file], tmp_path / "t")
    assert not (tmp_path / "t").exists()


def test_a_cut_trace_keeps_its_complete_nodes(tmp_path):
    write(tmp_path / "kineto.json", kineto())
    whole = json.dumps(execution_trace())
    (tmp_path / "et.json").write_text(whole[: whole.index('"aten::add_"') + 40])
    files = [tmp_path / "kineto.json", tmp_path / "et.json"]
    report = import_trace(files, tmp_path / "t")
    assert any(reason.endswith("4 nodes kept") for _, reason, _, _ in report.losses)
    assert {name for name, _ in touched(Trace.open(tmp_path / "t"))} == {"aten::linear"}
    with pytest.raises(InputError, match=r"cut at byte \d+"):
        import_trace(files, tmp_path / "strict", strict=True)


def test_nodes_and_tensors_that_cannot_be_read_are_counted(tmp_path):
    broken = node(40, "aten::add_", 3, ADD, [(7, (2, 8))])
    broken["inputs"]["values"] = [[1, 7, "x", 2, 4, "cuda:0"], [1, 7, 0, 1 << 60, 4, "cuda:0"]]
    broken["inputs"]["types"] = ["Tensor(float)", "Tensor(float)"]
    nodes = [*NODES[:5], broken, {"name": "no number"}, *NODES[5:]]
    _, losses = imported(tmp_path, nodes=nodes)
    assert losses["tensors described in no way that can be: left out"] == 2
    assert losses["nodes without a number: left out"] == 1


def test_eight_ranks_in_two_archives(samples, tmp_path):
    archives = [
        samples / "kineto_multirank" / f"param_dlrm_8rank_{kind}.tar.gz"
        for kind in ("et", "kineto")
    ]
    report = import_trace(archives, tmp_path / "t")
    assert report.ranks == list(range(8))
    trace = Trace.open(tmp_path / "t")
    alone = import_trace(archives[1:], tmp_path / "alone")
    assert report.rows["kernel"] == alone.rows["kernel"]
    assert report.rows["span"] == alone.rows["span"]
    losses = trace.losses()
    lone = losses.filter(pl.col("reason").str.starts_with("operators of the Kineto file"))
    assert lone["count"].sum() == 8  # the profiler's step of each rank
    assert losses.filter(pl.col("reason").str.starts_with("nodes that no operator")).is_empty()
    nodes = {}
    with tarfile.open(archives[0]) as archive:
        for member in archive:
            if member.isfile():
                found = json.load(archive.extractfile(member))
                nodes[found["pid"]] = found["nodes"]
    spans = trace.scan("span").collect()
    for pid, of_process in nodes.items():
        wanted = sorted(
            (n["name"], "x".join(map(str, n["input_shapes"][0])))
            for n in of_process
            if n["input_types"][:1] == ["Tensor(float)"] and n["name"].startswith("aten::mm")
        )
        rows = spans.filter(pl.col("pid") == pid, pl.col("name").str.starts_with("aten::mm"))
        assert (
            sorted(zip(rows["name"], (s[0] for s in rows["input_shapes"]), strict=True)) == wanted
        )


VALID = json.dumps(execution_trace()).encode()


@pytest.fixture(scope="module")
def twin(tmp_path_factory):
    return write(tmp_path_factory.mktemp("twin") / "kineto.json", kineto())


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    cuts=st.lists(st.tuples(st.integers(30, len(VALID)), st.integers(0, 40)), max_size=3),
    bytes_put=st.binary(max_size=6),
    compressed=st.booleans(),
)
def test_damage_is_counted_or_refused(tmp_path_factory, twin, cuts, bytes_put, compressed):
    content = VALID
    for at, size in cuts:
        content = content[:at] + bytes_put + content[at + size :]
    folder = tmp_path_factory.mktemp("damaged")
    file = folder / "et.json"
    file.write_bytes(gzip.compress(content) if compressed else content)
    try:
        import_trace([twin, file], folder / "t")
    except InputError:
        return
    assert Trace.open(folder / "t").rows("span") == 5


ANYTHING = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(1 << 70), 1 << 70)
    | st.floats()
    | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=7) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=12,
)


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    place=st.tuples(
        st.integers(1, len(NODES) - 1),
        st.sampled_from([*NODES[0], "input_shapes", "op_schema", "parent"]),
    ),
    value=ANYTHING,
    part=st.sampled_from(["", "values", "shapes", "types", "strides"]),
)
def test_nodes_of_any_type_are_read_or_counted(tmp_path_factory, twin, place, value, part):
    at, key = place
    changed = dict(NODES[at])
    if part and key in ("inputs", "outputs"):
        changed[key] = {**changed[key], part: value}
    else:
        changed[key] = value
    folder = tmp_path_factory.mktemp("changed")
    nodes = [*NODES[:at], changed, *NODES[at + 1 :]]
    report = import_trace([twin, write(folder / "et.json", execution_trace(nodes))], folder / "t")
    assert report.rows["span"] == 5


def record(number, sequence, group, name, elements, *, newer=True):
    """A node that records a collective: a tensor, its sequence number, its group, its rank, its name."""
    made = node(number, "record_param_comms", 3, "", [(70, (elements,))], [(71, (elements,))])  # fmt: skip
    told = [[sequence, False], [group, "a group"], 0, name] if newer else [sequence, group, 0, name]
    made["inputs"]["values"] += [*told, [], []]
    kinds = ["Tuple[Int,Bool]", "Tuple[String,String]", "Int", "String"] if newer else ["Int", "Int", "Int", "String"]  # fmt: skip
    made["inputs"]["types"] = ["GenericList[Tensor(c10::BFloat16)]", *kinds, "GenericList[]", "GenericList[]"]  # fmt: skip
    made["inputs"]["shapes"] += [[]] * 6
    made["inputs"]["strides"] += [[]] * 6
    return made


def communicating(records, *more):
    """Import records of collectives at 20, 40, ..., each with the call and the kernel that it launches."""
    events = [event("forward", 10, 90, 1, cat="user_annotation")]
    events += [event(made["name"], 12, 2, 90, cat="user_annotation") for made in more]
    for n, made in enumerate(records, start=1):
        ts = 20 * n
        events += [
            event("record_param_comms", ts, 12, 1 + n),
            event("cudaLaunchKernelExC", ts + 5, 2, 1 + n, cat="cuda_runtime", correlation=n),
            event("ncclDevKernel_SendRecv()" if n > 1 else "ncclDevKernel_AllReduce_Sum()", ts + 30, 9, 1 + n, cat="kernel", tid=20, correlation=n, device=0, stream=20),
        ]  # fmt: skip
        assert made["id"] > 3
    return events, [NODES[0], *more, *records, NODES[-2], NODES[-1]]


def collectives(trace):
    columns = ["communicator", "sequence", "sequence_source", "operation", "dtype", "bytes_in", "bytes_out", "members", "source"]  # fmt: skip
    return trace.scan("collective").sort("ts").select(columns).collect().rows()


def test_named_groups_sequences_and_sizes_of_collectives(tmp_path):
    listed = node(4, "## process_group:init ##", 3, "")
    told = [{"pg_name": "0", "ranks": []}, {"pg_name": "5", "pg_desc": "tp", "ranks": [0, 4]}]
    listed["inputs"] = {"values": [json.dumps(told)], "shapes": [[]], "types": ["String"]}
    records = [record(10, 41, "0", "allreduce", 6), record(11, 7, "5", "all_to_allv", 3)]
    trace, _ = imported(tmp_path, *communicating(records, listed))
    assert collectives(trace) == [
        ("0", 41, "recorded", "allreduce", "BFloat16", 24, 24, None, "arguments"),
        ("5", 7, "recorded", "alltoall", "BFloat16", 12, 12, [0, 4], "arguments"),
    ]


def test_one_group_without_a_name_is_known_and_several_are_not(tmp_path):
    one = [record(n, n, 94594108284448, "allreduce", 6, newer=False) for n in (10, 11)]
    (tmp_path / "one").mkdir()
    trace, losses = imported(tmp_path / "one", *communicating(one))
    assert [row[:4] for row in collectives(trace)] == [("0", 10, "recorded", "allreduce"), ("0", 11, "recorded", "allreduce")]  # fmt: skip
    two = [record(n, n, 94594108284448 + n, "allreduce", 6, newer=False) for n in (10, 11)]
    (tmp_path / "two").mkdir()
    trace, losses = imported(tmp_path / "two", *communicating(two))
    assert [row[:3] for row in collectives(trace)] == [("", 0, "counted"), ("", 1, "counted")]
    assert collectives(trace)[0][4:7] == ("BFloat16", 24, 24)
    assert losses["collectives of several process groups that the execution trace does not name: their groups and sequence numbers left out"] == 2  # fmt: skip


def test_records_that_cannot_be_read_change_nothing(tmp_path):
    records = [record(10, -4, "0", "allreduce", 6), record(11, 7, "0", "wait", 3)]
    listed = node(4, "## process_group:init ##", 3, "")
    listed["inputs"] = {"values": ["{no list", 5], "shapes": [[], []], "types": ["String", "Int"]}
    trace, _ = imported(tmp_path, *communicating(records, listed))
    assert [row[1:4] for row in collectives(trace)] == [(0, "counted", "allreduce"), (1, "counted", "sendrecv")]  # fmt: skip


def test_collectives_of_eight_ranks_match_by_sequence(samples, tmp_path):
    archives = [samples / "kineto_multirank" / f"param_dlrm_8rank_{kind}.tar.gz" for kind in ("et", "kineto")]  # fmt: skip
    import_trace(archives, tmp_path / "t")
    trace = Trace.open(tmp_path / "t")
    found = trace.scan("collective").sort("pid", "ts").collect()
    told = []
    with tarfile.open(archives[0]) as archive:
        for member in archive:
            content = json.load(archive.extractfile(member)) if member.isfile() else {"nodes": []}
            for each in content["nodes"]:
                values = each["inputs"]
                if each["name"] == "record_param_comms" and values[-3] != "wait":
                    given = values[0][0] if isinstance(values[0][0], list) else values[0]
                    told.append((content["pid"], values[1], given[3] * given[4]))
    assert sorted(found.select("pid", "sequence", "bytes_in").rows()) == sorted(told)
    facts = pasta.run("stragglers", trace=trace).facts
    assert (facts["matched_by_sequence"], facts["matched_by_launch_order"]) == (64, 0)
