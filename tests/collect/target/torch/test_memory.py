from __future__ import annotations

import polars as pl
import pytest

from tests.collect.target.torch.inside import record

torch = pytest.importorskip("torch", reason="PyTorch is not installed: pip install torch")

from pasta.collect.target.torch.memory import BEFORE  # noqa: E402

pytestmark = pytest.mark.torch


@pytest.fixture
def path(tmp_path):
    return tmp_path / "trace"


def events(recorder) -> pl.DataFrame:
    return recorder.trace().scan("memory").collect()


def test_an_intermediate_is_released_before_the_next_is_allocated(path):
    a = torch.ones(100)
    with record("test", path) as recorder:
        b = a * 2
        c = b + 1
        del b
        d = torch.exp(c)
    table = events(recorder)
    a_id, b_id, c_id, d_id = (1, 2, 3, 4)
    assert table.select("event", "object_id").rows() == [
        ("allocate", a_id),
        ("allocate", b_id),
        ("allocate", c_id),
        ("release", b_id),
        ("allocate", d_id),
    ]
    assert table["total_allocated"].to_list() == [400, 800, 1200, 800, 1200]
    assert table["bytes"].unique().to_list() == [400]
    assert table["device"].unique().to_list() == [-1]
    assert table["total_reserved"].null_count() == table.height
    addresses = dict(
        table.filter(pl.col("event") == "allocate").select("object_id", "address").rows()
    )
    assert [addresses[i] for i in (a_id, c_id, d_id)] == [t.data_ptr() for t in (a, c, d)]


def test_results_are_allocated_inside_their_operator(path):
    with record("test", path) as recorder:
        kept = [torch.ones(100), torch.zeros(50)]
    assert len(kept) == 2
    operators = recorder.trace().scan("span").filter(pl.col("level") == "operator").collect()
    inside = (
        events(recorder)
        .join(operators, how="cross")
        .filter(
            pl.col("ts") >= pl.col("ts_right"), pl.col("ts") < pl.col("ts_right") + pl.col("dur")
        )
    )
    assert inside.select("name", "bytes").rows() == [("aten::ones", 400), ("aten::zeros", 200)]


def test_a_view_keeps_its_storage_alive(path):
    with record("test", path) as recorder:
        a = torch.ones(10)
        view = a[2:4]
        del a
        torch.ones(1)
        del view
    rows = events(recorder).filter(pl.col("bytes") == 40)
    ones = events(recorder).filter(pl.col("bytes") == 4)
    assert rows["event"].to_list() == ["allocate", "release"]
    assert rows["ts"][1] > ones["ts"][1]


def test_storages_freed_by_autograd_are_released(path):
    weight = torch.ones(8, 8, requires_grad=True)
    with record("test", path) as recorder:
        hidden = torch.exp(torch.ones(8, 8) @ weight)
        loss = (hidden * hidden).sum()
        del hidden
        before = torch.ones(3)
        loss.backward()
        after = torch.ones(5)
    table = events(recorder)
    begin, end = (
        table.filter(pl.col("bytes") == tensor.nbytes)["ts"][0] for tensor in (before, after)
    )
    freed = table.filter(
        pl.col("event") == "release",
        pl.col("ts").is_between(begin, end),
    )
    # The product, its exponential, the gradients of sum, of exp and of both factors, at least.
    assert freed.filter(pl.col("bytes") == 256).height >= 5
    live = {weight: 256, weight.grad: 256, loss: 4, before: 12, after: 20}
    assert table["total_allocated"][-1] == sum(live.values())


def test_allocated_less_released_is_live(path):
    model = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.GELU(), torch.nn.Linear(32, 4))
    optimizer = torch.optim.AdamW(model.parameters())
    with record("test", path) as recorder:
        for _ in range(3):
            optimizer.zero_grad()
            model(torch.randn(8, 16)).square().mean().backward()
            optimizer.step()
    table = events(recorder)
    signed = table.select(
        pl.when(pl.col("event") == "allocate").then("bytes").otherwise(-pl.col("bytes"))
    ).to_series()
    assert table["total_allocated"].to_list() == signed.cum_sum().to_list()
    assert table["ts"].is_sorted()
    parameters = 4 * (16 * 32 + 32 + 32 * 4 + 4)
    gradients, moments, counters = parameters, 2 * parameters, 4 * 4
    assert signed.sum() == parameters + gradients + moments + counters
    lives = table.group_by("object_id").agg(
        (pl.col("event") == "allocate").sum().alias("allocated"),
        (pl.col("event") == "release").sum().alias("released"),
        pl.col("address").n_unique(),
    )
    assert lives["allocated"].unique().to_list() == [1]
    assert lives["released"].max() == 1
    assert lives["address"].max() == 1


def test_parameters_and_buffers_are_there_when_the_model_is_called(path):
    model = torch.nn.BatchNorm1d(6)
    with record("test", path) as recorder:
        model(torch.ones(2, 6))
    parameters = {t.data_ptr() for t in (*model.parameters(), *model.buffers())}
    span = recorder.trace().scan("span").filter(pl.col("level") == "module").collect()
    seen = events(recorder).filter(
        pl.col("address").is_in(list(parameters)), pl.col("event") == "allocate"
    )
    assert set(seen["address"]) == parameters
    assert seen["ts"].max() < span["ts"][0]
    losses = dict(recorder.trace().losses().select("reason", "count").rows())
    assert losses[BEFORE] == 5


def test_resizing_is_a_release_and_an_allocation(path):
    a = torch.ones(4)
    with record("test", path) as recorder:
        a.resize_(1000)
    assert events(recorder).select("event", "bytes", "object_id", "total_allocated").rows() == [
        ("allocate", 16, 1, 16),
        ("release", 16, 1, 0),
        ("allocate", 4000, 2, 4000),
    ]


def test_tensors_without_a_byte_leave_no_event(path):
    with record("test", path) as recorder:
        torch.ones(0, 5) + 1
        torch.ones(2)
    assert events(recorder)["bytes"].to_list() == [8, 8]
