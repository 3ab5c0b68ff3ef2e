from __future__ import annotations

import polars as pl
import pytest

import pasta
from pasta.collect.target import region
from tests.collect.recorded_programs import ROOT, annotations, python, recorded, table


class Recorder:
    """Keeps what it is asked."""

    def __init__(self) -> None:
        self.asked: list[object] = []

    def ask(self, *, record: bool, steps: int | None = None) -> None:
        self.asked.append((record, steps))

    def step(self) -> None:
        self.asked.append("step")


@pytest.fixture
def recorder():
    recorder = Recorder()
    region.attach(recorder)
    yield recorder
    region.detach(recorder)


def test_what_a_program_says_reaches_what_records_it(recorder):
    pasta.start()
    pasta.start(steps=3)
    pasta.step()
    pasta.stop()
    assert recorder.asked == [(True, None), (True, 3), "step", (False, None)]


def test_a_region_ends_by_an_exception_too(recorder):
    with pytest.raises(KeyError), pasta.region():
        raise KeyError
    assert recorder.asked == [(True, None), (False, None)]


def test_another_recorder_that_ends_does_not_silence_this_one(recorder):
    region.detach(Recorder())
    pasta.start()
    region.detach(recorder)
    pasta.stop()
    assert recorder.asked == [(True, None)]


def test_nothing_happens_where_nothing_records():
    with pasta.region():
        pasta.step()


def test_only_the_region_is_recorded_and_its_steps_are_told(tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    source = """
    import pasta
    def work(name):
        with pasta.annotate(name):
            pass
    work("before")
    with pasta.region():
        for name in ("first", "second"):
            pasta.step()
            work(name)
    work("after")
    pasta.start(steps=1)
    for name in ("third", "too late"):
        work(name)
        pasta.step()
    """
    _, trace = recorded(tmp_path / "trace", python(source), idle=True)
    spans = table(trace, "span")
    names = dict(spans.select("span_id", "name").rows())
    inside = spans.filter(pl.col("level") == "annotation")
    found = {row["name"]: names[row["parent_id"]] for row in inside.iter_rows(named=True)}
    assert found == {"first": "step 0", "second": "step 1", "third": "step 1"}


def test_a_child_forked_inside_a_region_is_recorded(tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    source = """
    import multiprocessing
    import pasta

    def work(name):
        with pasta.annotate(name):
            pass

    def run(name):
        child = multiprocessing.get_context("fork").Process(target=work, args=(name,))
        child.start()
        child.join()

    run("before")
    with pasta.region():
        run("inside")
    run("after")
    """
    command = python(source, options=("-W", "ignore"))
    _, trace = recorded(tmp_path / "trace", command, idle=True)
    assert annotations(trace) == ["inside"]
