from __future__ import annotations

import sys
import textwrap
import threading

import polars as pl
import pytest

from pasta.collect.target.rows import Losses
from pasta.trace import Trace
from tests.collect.recorded_programs import ROOT, losses, recorded, table

torch = pytest.importorskip("torch", reason="PyTorch is not installed: pip install torch")

from torch.utils.data import DataLoader, Dataset, IterableDataset, _utils, dataloader  # noqa: E402

from pasta.collect.target.torch import data  # noqa: E402

pytestmark = pytest.mark.torch
LOADER = """
import sys, torch
from torch.utils.data import DataLoader, Dataset

class Numbers(Dataset):
    def __len__(self):
        return 12

    def __getitem__(self, index):
        return torch.full((2,), float(index)) + 1

if __name__ == "__main__":
    workers, context = int(sys.argv[1]), sys.argv[2] or None
    loader = DataLoader(
        Numbers(), batch_size=3, num_workers=workers, multiprocessing_context=context
    )
    assert sum(batch.sum().item() for batch in loader) == 156
"""


class Spans:
    """Keeps what is opened and closed on which thread."""

    def __init__(self) -> None:
        self.told: list[str] = []

    def open(self, level: str, name: str, key: object) -> None:
        assert (level, key) == ("function", name)
        self.told.append("+" + name.removeprefix("DataLoader."))

    def close(self, level: str, key: str) -> None:
        assert level == "function"
        self.told.append("-" + key.removeprefix("DataLoader."))


class Session:
    """Takes what a session takes."""

    def __init__(self) -> None:
        self.recording = True
        self.spans = Spans()
        self.losses = Losses()
        self.depths: list[float] = []

    def clock(self) -> int:
        return 0

    def guarded(self, hook, action, *arguments):
        assert hook == "data loader"
        return action(*arguments)

    def metric(self, name: str, value: float, unit: str) -> None:
        assert (name, unit) == ("DataLoader.queue", "batches")
        self.depths.append(value)


@pytest.fixture
def session():
    session = Session()
    with data.installed(session, lambda: pytest.fail("this is no worker")):
        yield session
    assert not session.losses.take()


class Numbers(Dataset):
    def __len__(self) -> int:
        return 4

    def __getitem__(self, index: int):
        return torch.tensor(index)


class Endless(IterableDataset):
    def __iter__(self):
        yield from (torch.tensor(index) for index in range(3))


BATCH = ["+wait", "+fetch", "+collate", "-collate", "-fetch", "-wait"]


def test_each_batch_of_the_own_process_is_fetched_and_collated_while_it_is_waited_for(session):
    assert [batch.tolist() for batch in DataLoader(Numbers(), batch_size=2)] == [[0, 1], [2, 3]]
    assert session.spans.told == [*BATCH, *BATCH, "+wait", "-wait"]
    assert session.depths == []


def test_iterable_datasets_have_a_fetch_that_finds_the_end(session):
    assert [len(batch) for batch in DataLoader(Endless(), batch_size=2)] == [2, 1]
    assert session.spans.told == [*BATCH, *BATCH, "+wait", "+fetch", "-fetch", "-wait"]


def test_an_error_of_the_dataset_passes_and_ends_the_spans(session):
    class Fails(Numbers):
        def __getitem__(self, index: int):
            raise LookupError(index)

    with pytest.raises(LookupError):
        next(iter(DataLoader(Fails())))
    assert session.spans.told == ["+wait", "+fetch", "-fetch", "-wait"]


def test_the_collate_function_stays_the_programs_own(session):
    def collate(samples):
        return samples

    iterator = iter(DataLoader(Numbers(), collate_fn=collate))
    assert next(iterator) == [torch.tensor(0)]
    assert session.spans.told == BATCH
    assert iterator._dataset_fetcher.collate_fn is collate


def test_a_batch_is_pinned_once_whatever_it_holds(session):
    class Pinned:
        def pin_memory(self) -> str:
            return "pinned"

    pinned = _utils.pin_memory.pin_memory({"a": [Pinned(), Pinned()], "b": Pinned()})
    assert pinned == {"a": ["pinned", "pinned"], "b": "pinned"}
    thread = threading.Thread(target=_utils.pin_memory.pin_memory, args=([Pinned()],))
    thread.start()
    thread.join()
    assert session.spans.told == ["+pin", "-pin"] * 2


def test_nothing_is_recorded_while_the_session_does_not(session):
    session.recording = False
    assert len(list(DataLoader(Numbers()))) == 4
    assert session.spans.told == []


def test_pytorch_is_left_as_it_was_found():
    def functions():
        return (
            dataloader._SingleProcessDataLoaderIter._next_data,
            dataloader._MultiProcessingDataLoaderIter._next_data,
            _utils.fetch._MapDatasetFetcher.fetch,
            _utils.fetch._IterableDatasetFetcher.fetch,
            _utils.pin_memory.pin_memory,
        )

    before = functions()
    with data.installed(Session(), lambda: None):
        inside = functions()
        assert not set(before) & set(inside)
        assert [f.__qualname__ for f in inside] == [f.__qualname__ for f in before]
    assert functions() == before


def test_parts_that_this_pytorch_lacks_are_counted(monkeypatch):
    monkeypatch.delattr(_utils.fetch, "_IterableDatasetFetcher")
    session = Session()
    with data.installed(session, lambda: None):
        assert len(list(DataLoader(Numbers()))) == 4
    [(reason, count, _)] = session.losses.take()
    assert (reason, count) == (data._UNKNOWN, 1)
    assert session.spans.told.count("+wait") == 5


def run(tmp_path, monkeypatch, workers: int, context: str) -> Trace:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    program = tmp_path / "loads.py"
    program.write_text(textwrap.dedent(LOADER))
    command = [sys.executable, "-W", "ignore", str(program), str(workers), context]
    done, trace = recorded(tmp_path / "trace", command)
    assert str(done.end) == "exit 0"
    assert not losses(trace)
    return trace


@pytest.mark.parametrize("context", ["fork", "spawn"])
def test_workers_record_their_batches_and_nothing_else(tmp_path, monkeypatch, context):
    trace = run(tmp_path, monkeypatch, 2, context)
    spans = table(trace, "span")
    [main] = spans.filter(pl.col("name") == "DataLoader.wait")["pid"].unique()
    workers = spans.filter(pl.col("pid") != main)
    counts = dict(workers.group_by("level", "name").len().select("name", "len").rows())
    assert counts["DataLoader.fetch"] == counts["DataLoader.collate"] == 4
    assert set(workers["level"]) == {"run", "function"}
    assert workers["pid"].n_unique() == 2
    assert workers["dur"].null_count() == 0
    waits = spans.filter(pl.col("pid") == main, pl.col("level") == "function")
    assert set(waits["name"]) == {"DataLoader.wait"}
    assert waits.height == 5
    depths = table(trace, "metric").filter(pl.col("name") == "DataLoader.queue")
    assert depths.height == 5
    assert set(depths["unit"]) == {"batches"}
    assert set(depths["pid"]) == {main}
    assert depths["value"].is_between(0, 4).all()
    assert depths.sort("ts")["value"][-1] == 0
