from __future__ import annotations

import polars as pl
import pytest

from tests.collect.recorded_programs import ROOT, python, recorded, table

PROGRAM = """
import sys
sys.modules["early"] = {first}
import multiprocessing
import pasta

def work(name, deeper):
    with pasta.annotate(name):
        pass
    if deeper:
        run("grandchild", deeper - 1)

def run(name, deeper):
    child = multiprocessing.get_context("fork").Process(target=work, args=(name, deeper))
    child.start()
    child.join()

run("child", 1)
"""


@pytest.mark.parametrize("first", ["None", "__import__('pasta').annotate"])
def test_children_of_multiprocessing_write_their_last_rows(tmp_path, monkeypatch, first):
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    source = PROGRAM.format(first=first)
    _, trace = recorded(tmp_path / "trace", python(source, options=("-W", "ignore")))
    spans = table(trace, "span")
    names = spans.filter(pl.col("level") == "annotation").select("name", "pid")
    assert set(names["name"]) == {"child", "grandchild"}
    assert names["pid"].n_unique() == 2
    runs = spans.filter(pl.col("level") == "run")
    assert runs["pid"].n_unique() == 3
    assert runs["dur"].null_count() == 0
