from __future__ import annotations

import threading

from pasta.collect.target.rows import BATCH_ROWS, Encoder, Interned, Losses, Rows


def test_rows_become_columns_with_their_constants():
    rows = Rows("touch", ("span_id", "bytes_read"), {"granularity": 1, "space": "tensor"})
    rows.append((1, 10))
    rows.append((2, None))
    assert len(rows) == 2
    assert rows.take() == {
        "span_id": (1, 2),
        "bytes_read": (10, None),
        "granularity": (1, 1),
        "space": ("tensor", "tensor"),
    }
    assert (len(rows), rows.take()) == (0, {})


def test_a_batch_is_full_with_its_last_row():
    rows = Rows("touch", ("span_id",), {})
    for span_id in range(BATCH_ROWS):
        assert not rows.full
        rows.append((span_id,))
    assert rows.full
    assert rows.take()["span_id"] == tuple(range(BATCH_ROWS))
    assert not rows.full


def test_rows_that_are_forgotten_are_counted():
    rows = Rows("touch", ("span_id",), {})
    for span_id in range(5):
        rows.append((span_id,))
    assert (rows.forget(), rows.forget(), rows.take()) == (5, 0, {})


def test_no_row_is_lost_when_threads_append_and_one_takes():
    rows = Rows("touch", ("span_id",), {})
    taken: list[int] = []
    done = threading.Event()

    def append(first: int) -> None:
        for span_id in range(first, first + 3000):
            rows.append((span_id,))

    def take() -> None:
        while not done.is_set():
            taken.extend(rows.take().get("span_id", ()))

    taker = threading.Thread(target=take)
    taker.start()
    threads = [threading.Thread(target=append, args=(3000 * k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    done.set()
    taker.join()
    taken.extend(rows.take().get("span_id", ()))
    assert sorted(taken) == list(range(12000))


def test_texts_travel_once_and_before_their_use():
    written: list[tuple[str, dict]] = []
    texts = Interned("text", lambda table, columns: written.append((table, columns)))
    assert texts.ids(("a", None, "b", "a")) == [1, 0, 2, 1]
    assert texts.ids(("b", "", "a")) == [2, 3, 1]
    assert texts.ids((None, "a")) == [0, 1]
    assert written == [
        ("text", {"id": [1, 2], "text": ["a", "b"]}),
        ("text", {"id": [3], "text": [""]}),
    ]


def test_the_encoder_replaces_texts_and_lists_by_ids_and_nothing_else():
    written: list[tuple[str, dict]] = []
    columns = {"t": {"ts", "name_text", "shapes_texts"}}
    encoder = Encoder(columns, lambda table, values: written.append((table, values)))
    encoder.write("t", {"ts": (7, 8), "name": ("x", None), "shapes": (("4", ""), ())})
    assert written == [
        ("text", {"id": [1], "text": ["x"]}),
        ("texts", {"id": [1, 2], "texts": [("4", ""), ()]}),
        ("t", {"ts": (7, 8), "name_text": [1, 0], "shapes_texts": [1, 2]}),
    ]


def test_losses_add_up_and_keep_their_first_time_until_taken():
    losses = Losses()
    losses.count("a", 5)
    losses.count("b", 6, by=4)
    losses.count("a", 7, by=2)
    assert losses.take() == [("a", 3, 5), ("b", 4, 6)]
    assert losses.take() == []
    losses.count("a", 9)
    assert losses.take() == [("a", 1, 9)]
