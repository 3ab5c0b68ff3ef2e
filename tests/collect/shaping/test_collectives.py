"""Names of communication operations, as libraries and traces spell them."""

import pytest

from pasta.collect.shaping.collectives import (
    is_communication,
    message_bytes,
    operation_of_arguments,
    operation_of_kernel,
    parse_members,
)


@pytest.mark.parametrize(
    ("kernel", "operation"),
    [
        ("ncclKernel_AllReduce_RING_LL_Sum_float(ncclWorkElem)", "allreduce"),
        ("ncclDevKernel_ReduceScatter_Sum_bf16_RING_LL(args)", "reducescatter"),
        ("ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)", "sendrecv"),
        ("ncclDevKernel_Reduce_Sum_f32_RING_LL()", "reduce"),
        ("ncclAllReduceRingLLKernel_sum_f32(ncclColl)", "allreduce"),
        ("void ncclKernel_Broadcast_RING_LL_Sum_int8_t()", "broadcast"),
        ("ncclDevKernel_Generic(args)", ""),
        ("ncclKernel_Generic_4(ncclDevComm*)", ""),
    ],
)
def test_operations_of_kernels(kernel, operation):
    assert is_communication(kernel)
    assert operation_of_kernel(kernel) == operation


@pytest.mark.parametrize("kernel", ["gemm", "void accl_kernel()", "nccl_like_name", ""])
def test_other_kernels_do_not_communicate(kernel):
    assert not is_communication(kernel)


@pytest.mark.parametrize(
    ("recorded", "operation"),
    [
        ("allreduce", "allreduce"),
        ("_allgather_base", "allgather"),
        ("all_gather_into_tensor_coalesced", "allgather"),
        ("_reduce_scatter_base", "reducescatter"),
        ("all_to_allv", "alltoall"),
        ("barrier", "barrier"),
        ("wait", ""),
        (None, ""),
        ("something_new", "something_new"),
    ],
)
def test_operations_of_arguments(recorded, operation):
    assert operation_of_arguments(recorded) == operation


@pytest.mark.parametrize(
    ("elements", "dtype", "size"),
    [(100, "BFloat16", 200), (3, "Long", 24), (3, "Mystery", None), (None, "Float", None), (-1, "Float", None)],
)  # fmt: skip
def test_sizes_of_messages(elements, dtype, size):
    assert message_bytes(elements, dtype) == size


def test_members_are_known_only_where_the_list_is_whole():
    assert parse_members(b"[0, 2, 4]") == [0, 2, 4]
    assert parse_members(b"[]") is None
    for text in (b"[0, 1, ..., 63]", b"[2147483648]", b"[-1]", b"[true]", b"3"):
        with pytest.raises(ValueError):
            parse_members(text)
