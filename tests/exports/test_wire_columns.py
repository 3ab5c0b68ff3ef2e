"""Messages encoded by columns are those that an encoder of single messages gives."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from pasta.exports.wire_columns import (
    constant,
    double_fields,
    fixed_fields,
    joined,
    messages,
    number_fields,
    unsigned_fields,
)
from tests.protobuf_encoder import field, message

ROWS = st.lists(
    st.tuples(
        st.integers(-(1 << 63), (1 << 63) - 1),
        st.integers(0, (1 << 64) - 1) | st.integers(0, 300),
        st.floats(allow_nan=False),
        st.booleans(),
    ),
    min_size=1,
    max_size=20,
)


@given(rows=ROWS, number=st.integers(1, 60))
def test_messages_are_those_of_an_encoder_of_one(rows, number):
    signed, unsigned, real, told = (list(column) for column in zip(*rows, strict=True))
    present = np.array(told)
    inner = [unsigned_fields(3, np.array(unsigned, np.uint64)), constant(b"\x08\x01", len(rows))]
    parts = [
        number_fields(number, np.array(signed, np.int64)),
        *messages(4, inner, present),
        double_fields(5, np.array(real)),
        unsigned_fields(6, np.array(unsigned, np.uint64), present),
    ]
    expected = [
        message(
            (number, a),
            (4, field(3, b) + field(1, 1) if has else None),
            (5, c),
            (6, b if has else None),
        )
        for a, b, c, has in rows
    ]
    assert joined(parts).to_pylist() == expected


def test_fields_of_64_bits():
    values = np.array([0, 1, (1 << 64) - 1], np.uint64)
    assert joined([fixed_fields(47, values)]).to_pylist() == [
        b"\xf9\x02" + int(value).to_bytes(8, "little") for value in values
    ]
