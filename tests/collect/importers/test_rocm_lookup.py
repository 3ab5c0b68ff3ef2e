"""Rows by ids, in memory and on disk."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pasta.collect.importers.rocm import lookup
from pasta.collect.importers.rocm.lookup import Lookup
from pasta.collect.importing import import_trace
from pasta.trace import Trace
from tests.collect.importers.test_rocpd import SCHEMAS, Database

COLUMNS = {"number": pa.int64(), "text": pa.string()}
IDS = st.one_of(st.none(), st.integers(-3, 12))


def batch(rows):
    ids, numbers, texts = zip(*rows, strict=True)
    columns = {"id": pa.array(ids, pa.int64()), "unused": pa.array(numbers, pa.int64())}
    columns |= {"number": pa.array(numbers, pa.int64()), "text": pa.array(texts, pa.string())}
    return pa.RecordBatch.from_pydict(columns)


@given(
    batches=st.lists(st.lists(IDS, min_size=1, max_size=6), max_size=8),
    asked=st.lists(st.lists(IDS, max_size=8), max_size=4),
    block=st.integers(1, 9),
    held=st.integers(1, 3),
)
@settings(max_examples=100, deadline=None)
def test_the_first_row_of_an_id_is_found(tmp_path_factory, batches, asked, block, held):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lookup, "BLOCK_ROWS", block)
        patch.setattr(lookup, "HELD_BLOCKS", held)
        found = Lookup(COLUMNS, "id", tmp_path_factory.mktemp("l") / "absent" / "file")
        first, number = {}, 0
        for ids in batches:
            rows = [(each, number + at, f"t{number + at}") for at, each in enumerate(ids)]
            number += len(ids)
            found.add(batch(rows))
            for each, value, text in rows:
                first.setdefault(each or 0, (value, text))
        for ids in asked:
            columns = found.of(pa.array(ids, pa.int64()), "text", "number")
            told = [column.to_pylist() for column in columns]
            known = [first.get(each, (None, None)) if each is not None else (None, None) for each in ids]  # fmt: skip
            assert told == [[text for _, text in known], [value for value, _ in known]]
        assert sorted(found.distinct("number").to_pylist()) == list(range(number))
        ids = found.rows["id"].to_pylist()
        assert [each or 0 for each in ids] == sorted(each or 0 for rows in batches for each in rows)


@pytest.mark.parametrize("schema", sorted(SCHEMAS))
def test_blocks_of_any_size_give_the_same_rows(tmp_path, monkeypatch, schema):
    database = Database(tmp_path / "x.db", schema)
    database.fill()
    for number in range(20, 60, 2):
        event = database.event("KERNEL_DISPATCH", number)
        database.kernel(number, 100 * number, 100 * number + 50, event)
        database.insert("pmc_event", event_id=event, pmc_id=1, value=number)
        told = f'{{"message": "step {number}"}}'
        mark = database.event("MARKER_CORE_RANGE_API", number, told)
        database.region(100 * number, 100 * number + 99, "roctxThreadRangeA", mark)
    database.close()

    def imported(name):
        import_trace([tmp_path / "x.db"], tmp_path / name)
        trace = Trace.open(tmp_path / name)
        tables = ("kernel", "call", "span", "metric", "copy", "memory", "loss")
        return {table: trace.scan(table).collect() for table in tables}

    whole = imported("whole")
    monkeypatch.setattr(lookup, "BLOCK_ROWS", 2)
    monkeypatch.setattr(lookup, "HELD_BLOCKS", 1)
    pieces = imported("pieces")
    for table, rows in whole.items():
        assert pieces[table].equals(rows), table
    assert whole["metric"].height == 21
    assert set(whole["span"]["name"]) == {
        "step",
        *(f"step {number}" for number in range(20, 60, 2)),
    }
