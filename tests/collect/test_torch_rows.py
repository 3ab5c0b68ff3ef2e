from __future__ import annotations

import threading

from pasta.collect.torch_rows import BATCH_ROWS, Losses, Rows
from pasta.trace import Trace
from pasta.trace_writer import TraceWriter


def test_rows_reach_the_trace_with_their_constants(tmp_path):
    writer = TraceWriter(tmp_path / "t", {})
    part = writer.part()
    rows = Rows(part, "touch", ("span_id", "bytes_read"), {"rank": 3, "pid": 7, "granularity": 1})
    for span_id in range(1, BATCH_ROWS + 1):
        assert not rows.full
        rows.append((span_id, 10 * span_id))
    assert rows.full
    rows.write()
    rows.write()
    part.finish()
    writer.finish()
    table = Trace.open(tmp_path / "t").scan("touch").collect()
    assert table["span_id"].to_list() == list(range(1, BATCH_ROWS + 1))
    assert table["bytes_read"].sum() == 10 * BATCH_ROWS * (BATCH_ROWS + 1) // 2
    assert table["rank"].unique().to_list() == [3]
    assert table["object_id"].null_count() == BATCH_ROWS


def test_no_row_is_lost_when_threads_append_and_write(tmp_path):
    writer = TraceWriter(tmp_path / "t", {})
    part = writer.part()
    rows = Rows(part, "touch", ("span_id",), {"rank": 0})

    def work(first: int) -> None:
        for span_id in range(first, first + 3000):
            rows.append((span_id,))
            if span_id % 100 == 0:
                rows.write()

    threads = [threading.Thread(target=work, args=(1 + 3000 * k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    rows.write()
    part.finish()
    writer.finish()
    table = Trace.open(tmp_path / "t").scan("touch").collect()
    assert table["span_id"].sort().to_list() == list(range(1, 12001))


def test_losses_add_up_and_keep_their_first_time():
    losses = Losses()
    losses.count("a", 5)
    losses.count("b", 6, by=4)
    losses.count("a", 7, by=2)
    assert losses.rows() == [("a", 3, 5), ("b", 4, 6)]
