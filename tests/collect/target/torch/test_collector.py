from __future__ import annotations

import collections
import threading

import polars as pl
import pytest

import pasta
from tests.collect.target.torch.inside import record

torch = pytest.importorskip("torch", reason="PyTorch is not installed: pip install torch")

from pasta.collect.target.torch.memory import Storages  # noqa: E402

pytestmark = pytest.mark.torch


class Model(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU())
        self.head = torch.nn.Linear(16, 4)

    def forward(self, x):
        return self.head(self.layers(x))


def train(model, steps: int = 1) -> None:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    for _ in range(steps):
        optimizer.zero_grad()
        model(torch.ones(5, 8)).square().mean().backward()
        optimizer.step()


def spans(recorder) -> pl.DataFrame:
    return recorder.trace().scan("span").collect().sort("span_id")


def parents(table: pl.DataFrame) -> dict[int, str]:
    """Name of each span's parent, by span."""
    names = table.select(pl.col("span_id").alias("parent_id"), pl.col("name").alias("parent"))
    joined = table.join(names, on="parent_id", how="left")
    return dict(joined.select("span_id", "parent").rows())


@pytest.fixture
def path(tmp_path):
    return tmp_path / "trace"


def test_levels_nest_from_run_to_operator(path):
    with record("run1", path) as recorder:
        train(Model())
    table = spans(recorder)
    assert table.filter(pl.col("level") != "operator").select("level", "name").rows() == [
        ("run", "run1"),
        ("step", "step 0"),
        ("phase", "forward"),
        ("module", "Model"),
        ("module", "layers (Sequential)"),
        ("module", "layers.0 (Linear)"),
        ("module", "layers.1 (ReLU)"),
        ("module", "head (Linear)"),
        ("phase", "backward"),
        ("phase", "optimizer"),
    ]
    parent = parents(table)
    named = {row["name"]: parent[row["span_id"]] for row in table.iter_rows(named=True)}
    assert named["layers.1 (ReLU)"] == "layers (Sequential)"
    assert named["layers (Sequential)"] == "Model"
    assert named["Model"] == "forward"
    assert named["forward"] == named["backward"] == named["optimizer"] == "step 0"
    assert named["step 0"] == "run1"
    assert named["aten::relu"] == "layers.1 (ReLU)"
    assert named["aten::threshold_backward"] == "backward"
    products = table.filter(pl.col("name") == "aten::addmm")
    assert [parent[i] for i in products["span_id"]] == ["layers.0 (Linear)", "head (Linear)"]


def test_children_lie_inside_their_parents_and_apart_from_each_other(path):
    with record("run1", path) as recorder:
        train(Model(), steps=2)
    table = spans(recorder).with_columns(end=pl.col("ts") + pl.col("dur"))
    both = table.join(table, left_on="parent_id", right_on="span_id", suffix="_parent")
    assert both.height == table.height - 1
    assert (both["ts"] >= both["ts_parent"]).all()
    assert (both["end"] <= both["end_parent"]).all()
    siblings = table.sort("ts", "span_id").group_by("parent_id", maintain_order=True)
    gaps = siblings.agg((pl.col("ts") - pl.col("end").shift()).min().alias("gap"))
    assert gaps["gap"].drop_nulls().min() >= 0


def test_shapes_and_types_of_inputs(path):
    with record("run1", path) as recorder:
        torch.addmm(torch.ones(4), torch.ones(2, 3), torch.ones(3, 4))
        torch.stack([torch.ones(2), torch.ones(2, dtype=torch.float32)])
        torch.tensor([1, 2]).sum()
    rows = {row["name"]: row for row in spans(recorder).iter_rows(named=True)}
    assert rows["aten::addmm"]["input_shapes"] == ["4", "2x3", "3x4", "", ""]
    assert rows["aten::addmm"]["input_types"] == ["float32"] * 3 + ["", ""]
    assert rows["aten::stack"]["input_shapes"] == ["2;2", ""]
    assert rows["aten::stack"]["input_types"] == ["float32;float32", ""]
    assert rows["aten::sum"]["input_types"][0] == "int64"


def test_backward_operators_carry_the_number_of_their_forward(path):
    train(Model())
    with record("run1", path) as recorder:
        torch.ones(1)
        train(Model())
    table = spans(recorder).filter(pl.col("sequence").is_not_null())
    assert "aten::ones" not in table["name"]
    by_number = {
        names[0]: names[1:]
        for _, names in table.group_by("sequence", maintain_order=True).agg("name").iter_rows()
    }
    assert by_number["aten::relu"] == ["aten::detach", "aten::threshold_backward"]
    assert "aten::mm" in by_number["aten::addmm"]


def test_steps_end_with_the_optimizer(path):
    with record("run1", path) as recorder:
        train(Model(), steps=3)
    table = spans(recorder)
    steps = table.filter(pl.col("level") == "step")
    assert steps["name"].to_list() == ["step 0", "step 1", "step 2"]
    ends = steps["ts"] + steps["dur"]
    assert (steps["ts"][1:] >= ends[:-1]).all()
    optimizers = table.filter(pl.col("name") == "optimizer")
    assert optimizers["parent_id"].to_list() == steps["span_id"].to_list()


def test_steps_can_be_told_by_hand(path):
    model = Model()
    with record("run1", path) as recorder:
        for _ in range(2):
            pasta.step()
            train(model, steps=2)
    table = spans(recorder)
    steps = table.filter(pl.col("level") == "step")
    assert steps["name"].to_list() == ["step 0", "step 1"]
    optimizers = table.filter(pl.col("name") == "optimizer")
    first, second = steps["span_id"]
    assert optimizers["parent_id"].to_list() == [first, first, second, second]


def test_annotations_enclose_what_runs_in_them(path):
    @pasta.annotate("loss")
    def loss(x):
        return x.square().mean()

    with record("run1", path) as recorder, pasta.annotate("outer"):
        with pasta.annotate("inner"):
            x = torch.ones(3)
        loss(x)
    table = spans(recorder)
    parent = parents(table)
    named = {row["name"]: parent[row["span_id"]] for row in table.iter_rows(named=True)}
    assert named == {
        "run1": None,
        "step 0": "run1",
        "outer": "step 0",
        "inner": "outer",
        "aten::ones": "inner",
        "loss": "outer",
        "aten::pow": "loss",
        "aten::mean": "loss",
    }
    with pasta.annotate("after the recording"):
        pass


def test_operators_are_those_of_the_profiler(path):
    """Operators that no other operator calls have the same name and count in both.

    The profiler sees more: composite operators above (`aten::linear`), and calls inside operators
    below (`aten::empty` in `aten::ones`; `aten::sum` in `aten::mean`). The recorder alone sees
    `aten::detach` where autograd saves and unpacks a result.
    """
    model = Model()
    train(model)
    with torch.profiler.profile(
        activities=[torch.profiler.ProfilerActivity.CPU], acc_events=True
    ) as profiler:
        train(model, steps=2)
    with record("run1", path) as recorder:
        train(model, steps=2)
    theirs = collections.Counter(
        event.name for event in profiler.events() if event.name.startswith("aten::")
    )
    ours = collections.Counter(
        spans(recorder).filter(pl.col("level") == "operator")["name"].to_list()
    )
    differing = {name for name in ours if ours[name] != theirs[name]}
    assert differing == {"aten::detach", "aten::sum", "aten::expand"}
    assert ours["aten::detach"] > theirs["aten::detach"]
    assert ours["aten::sum"] + ours["aten::mean"] == theirs["aten::sum"]
    assert ours["aten::addmm"] == 4
    assert set(theirs) - set(ours) >= {"aten::linear", "aten::empty", "aten::as_strided"}


def test_gradients_by_autograd_grad_are_a_backward_phase_too(path):
    x = torch.ones(3, requires_grad=True)
    with record("run1", path) as recorder:
        torch.autograd.grad(x.exp().sum(), x)
    table = spans(recorder)
    assert table.filter(pl.col("level") == "phase")["name"].to_list() == ["backward"]
    assert "torch" in torch.autograd.grad.__module__
    assert not hasattr(torch.autograd.grad, "__wrapped__")


def test_forward_inside_backward_opens_no_phase(path):
    model = Model()
    with record("run1", path) as recorder:
        out = torch.utils.checkpoint.checkpoint(model, torch.ones(5, 8), use_reentrant=False)
        out.sum().backward()
    table = spans(recorder)
    assert table.filter(pl.col("level") == "phase")["name"].to_list() == ["forward", "backward"]
    again = table.filter(pl.col("name") == "Model")
    assert [parents(table)[i] for i in again["span_id"]] == ["forward", "backward"]


def test_an_exception_in_an_operator_or_module_is_the_programs_to_handle(path):
    model = Model()
    with record("run1", path) as recorder:
        with pytest.raises(RuntimeError):
            model(torch.ones(5, 9))
        model(torch.ones(5, 8))
    table = spans(recorder)
    roots = table.filter(pl.col("name") == "Model")
    assert [parents(table)[i] for i in roots["span_id"]] == ["forward", "forward"]
    assert table.filter(pl.col("name") == "aten::addmm").height == 3
    assert recorder.trace().info["ended"] == "exit 0"


def test_a_failure_of_the_recorder_is_counted_and_the_program_goes_on(path, monkeypatch):
    def fail(*_args):
        raise RuntimeError("of the recorder")

    with record("run1", path) as recorder:
        first = torch.ones(3)
        monkeypatch.setattr(Storages, "existing", fail)
        second = first + 1
        third = second * 2
        with pasta.annotate("goes on"):
            pass
    assert third.tolist() == [4, 4, 4]
    losses = dict(recorder.trace().losses().select("reason", "count").rows())
    assert losses == {
        "the operator hook failed and was switched off: RuntimeError('of the recorder')": 1
    }
    assert set(spans(recorder)["name"]) == {"run1", "step 0", "aten::ones", "goes on"}


def test_hooks_are_gone_after_the_recording(path):
    before = torch.autograd.backward, torch.autograd.grad
    with record("run1", path) as recorder:
        assert torch.autograd.backward is not before[0]
    assert (torch.autograd.backward, torch.autograd.grad) == before
    train(Model())
    assert set(spans(recorder)["name"]) == {"run1"}


def test_modules_called_on_another_thread_have_a_tree_of_their_own(path):
    model = Model()
    with record("run1", path) as recorder:
        thread = threading.Thread(target=model, args=(torch.ones(5, 8),))
        thread.start()
        thread.join()
    table = spans(recorder)
    elsewhere = table.filter(pl.col("tid") != threading.get_native_id())
    assert elsewhere["name"].to_list()[:2] == ["forward", "Model"]
    assert elsewhere["parent_id"][0] == 0
    assert recorder.trace().rows("thread") == 2


def test_many_operators_are_written_in_batches(path):
    with record("run1", path) as recorder:
        x = torch.zeros(1)
        for _ in range(9000):
            x.add_(1)
            assert not recorder.session._span_rows.full
    table = spans(recorder)
    assert table.filter(pl.col("name") == "aten::add_").height == 9000
    assert table["span_id"].n_unique() == table.height
    assert recorder.trace().rows("touch") == 9001


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
def test_cuda_tensors_are_recorded_by_device_and_backward_by_autograds_thread(path):
    model = Model().cuda()
    with record("run1", path) as recorder:
        model(torch.ones(5, 8, device="cuda")).sum().backward()
    table = spans(recorder)
    on_this_thread = pl.col("tid") == threading.get_native_id()
    here, elsewhere = table.filter(on_this_thread), table.filter(~on_this_thread)
    assert elsewhere.filter(pl.col("name") == "aten::mm").height == 3
    backward = here.filter(pl.col("name") == "backward").row(0, named=True)
    assert elsewhere["ts"].min() >= backward["ts"]
    assert (elsewhere["ts"] + elsewhere["dur"]).max() <= backward["ts"] + backward["dur"]
    names = recorder.trace().scan("thread").collect()["name"].to_list()
    assert names == ["MainThread", "pt_autograd_0"]
    memory = recorder.trace().scan("memory").filter(pl.col("device") == 0).collect()
    parameters = 4 * (8 * 16 + 16 + 16 * 4 + 4)
    assert memory["total_allocated"].max() > 2 * parameters
    allocations = memory.filter(pl.col("event") == "allocate")
    assert allocations["total_reserved"].min() >= parameters
    devices = recorder.trace().scan("device").collect()
    assert devices["name"][0] == torch.cuda.get_device_name(0)
