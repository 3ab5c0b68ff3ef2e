"""Records of one shape, decoded column by column."""

from __future__ import annotations

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pasta.collect.containers.json_uniform import uniform_records

NEXT = re.compile(rb'\}\s*,\s*(?=\{\s*"kind"\s*:)')
NUMBERS = st.integers(0, (1 << 64) - 1)


@given(
    st.lists(st.tuples(NUMBERS, NUMBERS, NUMBERS), min_size=2, max_size=30),
    st.sampled_from(["", " "]),
)
def test_columns_are_what_json_says(rows: list[tuple[int, int, int]], blank: str) -> None:
    records = [{"kind": a, "at": {"x": b, "far": {"y": c}}} for a, b, c in rows]
    separators = (f",{blank}", f":{blank}")
    block = json.dumps(records, separators=separators).encode()[1:-1]
    found = uniform_records(block, NEXT)
    assert found is not None
    assert len(found) == len(rows)
    for place, path in enumerate(("kind", "at.x", "at.far.y")):
        column = found.column(path)
        assert column is not None
        assert column.tolist() == [row[place] for row in rows]
    assert found.column("at") is None


@pytest.mark.parametrize(
    "block",
    [
        b'{"kind":1}',  # one record only
        b'{"kind":1},{"kind":-2}',
        b'{"kind":1},{"kind":2.5}',
        b'{"kind":1},{"kind":2e3}',
        b'{"kind":1},{"kind":"2"}',
        b'{"kind":"a1"},{"kind":"a2"}',
        b'{"kind":1,"x1":1},{"kind":1,"x1":2}',
        b'{"kind":1},{"kind":2,"more":3}',
        b'{"kind":1},{"kind":18446744073709551616}',
        b'{"kind":true},{"kind":true}',
        b'{"kind":null},{"kind":null}',
        b'{"kind":[1]},{"kind":[2]}',
        b'{"kind":1},{"kind":}',
        b'{"kind":1},{"kind":2}],"next":[{"kind":3}',
        b'{"kind":1},{"kind":1 2}',
        b'{"kind":1},{"kind":}2',
        b'{"kind":1},{"ki2nd":},{"kind":3}',
    ],
)
def test_any_other_shape_is_declined(block: bytes) -> None:
    assert uniform_records(block, NEXT) is None
