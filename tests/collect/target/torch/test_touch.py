from __future__ import annotations

import polars as pl
import pytest

from tests.collect.target.torch.inside import record

torch = pytest.importorskip("torch", reason="PyTorch is not installed: pip install torch")


pytestmark = pytest.mark.torch


class Touches:
    """Records a block, then tells what one operator did to one tensor's storage."""

    def __init__(self, folder) -> None:
        self._recording = record("test", folder / "trace")

    def __enter__(self) -> None:
        self._recorder = self._recording.__enter__()

    def __exit__(self, *error) -> None:
        self._recording.__exit__(*error)
        trace = self._recorder.trace()
        spans = trace.scan("span").filter(pl.col("level") == "operator").collect()
        memory = trace.scan("memory").filter(pl.col("event") == "allocate").collect()
        self.operators = spans["name"].to_list()
        self.losses = trace.losses()
        self._rows = pl.DataFrame()
        if "touch" in trace.tables():
            touches = trace.scan("touch").collect()
            assert (touches["granularity"] == 1).all()
            assert touches["launch_id"].sum() == 0
            self._rows = touches.join(spans.select("span_id", "name"), on="span_id").join(
                memory.select("object_id", "address"), on="object_id"
            )

    def of(self, operator: str) -> int:
        """How many storages the operator touched."""
        return 0 if self._rows.is_empty() else (self._rows["name"] == operator).sum()

    def __call__(self, operator: str, tensor) -> dict[str, int]:
        rows = self._rows.filter(
            pl.col("name") == operator,
            pl.col("address") == tensor.untyped_storage().data_ptr(),
        )
        assert rows.height == 1, rows
        return rows.row(0, named=True)


@pytest.fixture
def touches(tmp_path):
    return Touches(tmp_path)


def read(row) -> tuple[int, int, int]:
    return row["reads"], row["bytes_read"], row["unique_read"]


def written(row) -> tuple[int, int, int]:
    return row["writes"], row["bytes_written"], row["unique_written"]


NOTHING = (0, 0, 0)


def test_product_reads_its_operands_and_writes_its_result(touches):
    a, b = torch.ones(4, 8), torch.ones(8, 16)
    with touches:
        c = a @ b
    assert touches.operators == ["aten::mm"]
    assert (read(touches("aten::mm", a)), written(touches("aten::mm", a))) == (
        (1, 128, 128),
        NOTHING,
    )
    assert read(touches("aten::mm", b)) == (1, 512, 512)
    assert (read(touches("aten::mm", c)), written(touches("aten::mm", c))) == (
        NOTHING,
        (1, 256, 256),
    )
    assert [touches("aten::mm", t)["unique_bytes"] for t in (a, b, c)] == [128, 512, 256]


def test_views_are_resolved_to_their_storage_and_touch_nothing(touches):
    a, b = torch.ones(8, 4), torch.ones(8, 16)
    with touches:
        c = a.t() @ b.view(2, 64).view(8, 16)[:, ::2]
    assert touches.of("aten::t") == touches.of("aten::view") == touches.of("aten::slice") == 0
    assert read(touches("aten::mm", a)) == (1, 128, 128)
    assert read(touches("aten::mm", b)) == (1, 256, 256)
    assert written(touches("aten::mm", c)) == (1, 128, 128)


def test_an_expanded_operand_repeats_its_bytes(touches):
    a, b = torch.ones(4, 1), torch.ones(4, 8)
    with touches:
        c = torch.add(a.expand(4, 8), b)
    assert read(touches("aten::add", a)) == (1, 128, 16)
    assert written(touches("aten::add", c)) == (1, 128, 128)


def test_overlapping_views_of_one_storage_are_united(touches):
    a = torch.ones(4)
    with touches:
        b = a[0:3] + a[1:4]
        c = a + a
    rows = touches._rows.filter(pl.col("name") == "aten::add", pl.col("reads") > 0)
    assert rows.select("reads", "bytes_read", "unique_read").rows() == [(2, 24, 16), (2, 32, 16)]
    assert b.shape != c.shape


def test_in_place_operator_reads_and_writes_its_operand(touches):
    a, b = torch.ones(3, 5), torch.ones(5)
    with touches:
        a[1:].add_(b)
    row = touches("aten::add_", a)
    assert (read(row), written(row), row["unique_bytes"]) == ((1, 40, 40), (1, 40, 40), 40)
    assert read(touches("aten::add_", b)) == (1, 20, 20)


def test_reading_and_writing_different_parts_unites_them(touches):
    a = torch.ones(10)
    with touches:
        torch.mul(a[0:4], 2, out=a[4:8])
    row = touches("aten::mul", a)
    assert (read(row), written(row), row["unique_bytes"]) == ((1, 16, 16), (1, 16, 16), 32)


@pytest.mark.parametrize(
    ("operator", "call"),
    [
        ("aten::fill_", lambda a, _b: a.fill_(3)),
        ("aten::zero_", lambda a, _b: a.zero_()),
        ("aten::normal_", lambda a, _b: a.normal_()),
        ("aten::copy_", lambda a, b: a.copy_(b)),
        ("aten::add", lambda a, b: torch.add(b, b, out=a)),
    ],
)
def test_overwriting_reads_nothing(touches, operator, call):
    a, b = torch.ones(6), torch.ones(6)
    with touches:
        call(a, b)
    assert (read(touches(operator, a)), written(touches(operator, a))) == (NOTHING, (1, 24, 24))


def test_lists_of_tensors_are_taken_apart(touches):
    a, b = torch.ones(2, 3), torch.ones(4, 3)
    with touches:
        c = torch.cat([a, b])
        torch._foreach_add_([a, b], 1)
    assert [read(touches("aten::cat", t))[1] for t in (a, b)] == [24, 48]
    assert written(touches("aten::cat", c)) == (1, 72, 72)
    assert written(touches("aten::_foreach_add_", b)) == (1, 48, 48)


def test_shapes_alone_are_no_reads_and_empty_is_no_write(touches):
    a = torch.ones(5)
    with touches:
        b = torch.zeros_like(a)
        c = torch.empty_like(a)
        d = torch.empty(7)
    assert written(touches("aten::zeros_like", b)) == (1, 20, 20)
    assert touches.of("aten::zeros_like") == 1
    assert touches.of("aten::empty_like") == touches.of("aten::empty") == 0
    assert len(c) + len(d) == 12


def test_metadata_is_no_access(touches):
    a, b = torch.ones(2, 3), torch.ones(4)
    with touches:
        a.t_()
        a.resize_(10)
        b.set_(a)
    assert touches._rows.is_empty()
    assert touches.operators == ["aten::t_", "aten::resize_", "aten::set_"]


def test_reshape_in_inference_mode_is_a_view_where_it_can_be(touches):
    with torch.inference_mode():
        a = torch.ones(4, 6)
        with touches:
            a.reshape(24)
            b = a.t().reshape(24)
    assert touches.of("aten::reshape") == 2
    assert read(touches("aten::reshape", a)) == (1, 96, 96)
    assert written(touches("aten::reshape", b)) == (1, 96, 96)


def test_numbers_may_stand_where_the_schema_has_tensors(touches):
    a = torch.ones(3)
    with touches:
        torch.ops.aten.add_.Tensor(a, 1)
    assert touches.of("aten::add_") == 1
    assert touches.losses.height == 1


def test_tensors_without_memory_are_counted(touches):
    with touches:
        sparse = torch.eye(3).to_sparse()
        dense = sparse.to_dense()
        meta = torch.ones(4, device="meta") * 2
    assert written(touches("aten::_to_dense", dense)) == (1, 36, 36)
    assert touches.of("aten::mul") == 0
    counts = dict(touches.losses.select("reason", "count").rows())
    assert counts.keys() == {
        "tensors without a storage (sparse, meta, fake): no memory or touch rows"
    }
    assert meta.is_meta
    assert "aten::mul" in touches.operators


def test_a_wrapper_is_recorded_by_what_it_does_inside(touches):
    class Wrapper(torch.Tensor):
        @staticmethod
        def __new__(cls, inner):
            wrapper = torch.Tensor._make_wrapper_subclass(cls, inner.shape)
            wrapper.inner = inner
            return wrapper

        def __tensor_flatten__(self):
            return ["inner"], None

        @staticmethod
        def __tensor_unflatten__(tensors, _context, _shape, _strides):
            return Wrapper(tensors["inner"])

        @classmethod
        def __torch_dispatch__(cls, operator, _types, args=(), _kwargs=None):
            return operator(*(getattr(a, "inner", a) for a in args))

    a = torch.ones(4)
    wrapped = Wrapper(a)
    with touches:
        b = wrapped * 3
    assert touches.operators == ["aten::mul"]
    assert read(touches("aten::mul", a)) == (1, 16, 16)
    assert written(touches("aten::mul", b)) == (1, 16, 16)


def test_fake_tensors_do_not_disturb(touches):
    from torch._subclasses.fake_tensor import FakeTensorMode

    with touches:
        with FakeTensorMode():
            result = torch.ones(3) + 1
        real = torch.ones(2)
    assert result.shape == (3,)
    assert touches.operators == ["aten::ones", "aten::add", "aten::ones"]
    assert touches.losses["count"].to_list() == [3]  # the operand once, the two results
    assert written(touches("aten::ones", real)) == (1, 8, 8)
