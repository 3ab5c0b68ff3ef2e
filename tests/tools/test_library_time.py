"""`library_time` on kernels of known libraries, by name and by API range."""

from __future__ import annotations

import polars as pl
import pytest

import pasta
from pasta.collect.importing import import_trace

NAMES = {
    "void at::native::vectorized_elementwise_kernel<4, curandStatePhilox4>(int)": "PyTorch",
    "void at::native::(anonymous namespace)::multi_tensor_apply_kernel<float>()": "PyTorch",
    "_ZN2at6native13reduce_kernelILi512EEEvT_": "PyTorch",
    "void (anonymous namespace)::softmax_warp_forward<float>(float*)": "PyTorch",
    "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)": "NCCL or RCCL",
    "void flash::flash_fwd_kernel<cutlass::bfloat16_t>()": "FlashAttention",
    "void cutlass_cudnn_infer::Kernel<cutlass_tensorop_fprop>()": "cuDNN",
    "sm80_xmma_fprop_implicit_gemm_indexed_tf32f32_nhwc": "cuDNN",
    "volta_scudnn_128x64_relu_small_nn_v1": "cuDNN",
    "volta_sgemm_128x64_nn": "cuBLAS",
    "nvjet_tst_192x192_64x4_2x1_v_bz_TNN": "cuBLAS",
    "void cutlass::Kernel2<cutlass_80_tensorop_s1688gemm>()": "CUTLASS",
    "Cijk_Ailk_Bljk_BBS_BH_Bias_HA_S_SAV_UserArgs_MT64x32x256": "hipBLASLt",
    "Cijk_Ailk_Bljk_SB_MT128x64x16_MI32x32x2x1_SN": "rocBLAS",
    "igemm_fwd_gtcx2_nhwc_bf16_bx0": "MIOpen",
    "void ck_tile::kentry<256>()": "Composable Kernel",
    "void paged_attention_ll4mi_reduce_kernel<ck_tile::half_t>()": "vLLM",
    "attn_fwd": "AOTriton",
    "triton_poi_fused_add_0": "Triton",
    "void cub::DeviceScanKernel<int>(int)": "CUB or Thrust",
    "void Eigen::internal::EigenMetaKernel<float>()": "Eigen",
    "rotary_embedding<c10::BFloat16>(long const*)": "(unknown)",
    "saxpy": "(unknown)",
}


def kernel(number, name, ts, dur, **more):
    row = {"device": 0, "launch_id": number, "correlation": number}
    return {**row, "name": name, "ts": ts, "dur": dur, **more}


def call(number, ts, tid=1):
    return {"tid": tid, "ts": ts, "dur": 5, "correlation": number, "name": "cudaLaunchKernel"}


def by_name(trace, tmp_path):
    pasta.run("library_time", trace=trace, out=tmp_path / "out")
    return pl.read_parquet(tmp_path / "out" / "by_name.parquet")


def test_names_tell_libraries(make_trace, tmp_path):
    kernels = [kernel(i, name, 10 * i, 10) for i, name in enumerate(NAMES, start=1)]
    rows = by_name(make_trace(kernel=kernels), tmp_path)
    assert dict(rows.select("name", "library").iter_rows()) == NAMES
    assert dict(rows.select("library", "library_from").iter_rows())["(unknown)"] == ""


def test_an_api_range_goes_before_the_name(make_trace, tmp_path):
    """A CUTLASS kernel in a range of cuBLAS within one of cuDNN is cuBLAS's, on that thread only."""
    name = "void cutlass::Kernel<cutlass_80_tensorop_s1688gemm>()"
    span = {"tid": 1, "level": "library"}
    trace = make_trace(
        kernel=[kernel(1, name, 100, 10), kernel(2, name, 200, 10), kernel(3, name, 300, 10)],
        call=[call(1, 20), call(2, 20, tid=2), call(3, 60)],
        span=[
            {**span, "span_id": 1, "name": "cudnnBackendExecute", "ts": 0, "dur": 100},
            {**span, "span_id": 2, "name": "cublasLtMatmul", "ts": 10, "dur": 40},
            {**span, "span_id": 3, "name": "pthread_mutex_lock", "ts": 15, "dur": 20},
        ],
    )
    rows = by_name(trace, tmp_path).select("library", "library_from", "launches").sort("library")
    assert rows.rows() == [
        ("CUTLASS", "name", 1),
        ("cuBLAS", "API range", 1),
        ("cuDNN", "API range", 1),
    ]


def test_time_is_summed_and_merged_by_device(make_trace):
    """Two kernels of 100 ns that overlap by 50 are 200 ns of time and 150 busy; another device adds up."""
    trace = make_trace(
        kernel=[
            kernel(1, "volta_sgemm_128x64_nn", 0, 100),
            kernel(2, "volta_sgemm_64x64_nn", 50, 100),
            kernel(3, "volta_sgemm_64x64_nn", 60, 40, device=1),
            kernel(4, "attn_fwd", 0, 60),
            kernel(5, "attn_fwd", 0, None),
        ]
    )
    report = pasta.run("library_time", trace=trace)
    rows = report.tables["libraries"].select(
        "library", "launches", "time_ns", "busy_ns", "time_share", "kernels", "longest"
    )
    assert rows.rows() == [
        ("cuBLAS", 3, 240, 190, 0.8, 2, "volta_sgemm_64x64_nn"),
        ("AOTriton", 2, 60, 60, 0.2, 1, "attn_fwd"),
    ]
    assert report.facts["named_share"] == 1.0
    assert report.findings == [
        (
            "kernels of cuBLAS take 80.0 % of kernel time: 240 ns in 3 launches, 58.3 % of it"
            " in volta_sgemm_64x64_nn"
        )
    ]


def test_kernels_that_take_no_time_are_said_to(make_trace):
    report = pasta.run("library_time", trace=make_trace(kernel=[kernel(1, "volta_sgemm", 0, 0)]))
    assert report.findings == ["none of 1 kernel takes any time: of time nothing can be said"]


def test_what_no_name_tells_is_said(make_trace):
    report = pasta.run("library_time", trace=make_trace(kernel=[kernel(1, "mine", 0, 100)]))
    assert report.facts["named_share"] == 0.0
    assert report.findings == [
        "100.0 % of kernel time is in kernels whose names tell no library: 100 ns, 100.0 % of it in mine"
    ]


def test_the_longest_of_many_is_not_said_to_be_most(make_trace):
    kernels = [kernel(i, f"mine {i}", 100 * i, 10 + (i == 4)) for i in range(1, 6)]
    report = pasta.run("library_time", trace=make_trace(kernel=kernels))
    assert report.findings[0].endswith("51 ns, 21.6 % of it in mine 4")


@pytest.mark.parametrize(
    ("sample", "least"),
    [
        ("kineto/tracelens_h100_bert_small.json.gz", 1.0),
        ("kineto/tracelens_mi300_bert_small.json.gz", 1.0),
        ("kineto/tracelens_b200_eager_rank0of8.json.gz", 0.999),
        ("kineto/tracelens_sglang_decode_hipgraph.json.gz", 0.96),
    ],
)
def test_kernels_of_real_traces_have_libraries(samples, tmp_path, sample, least):
    import_trace([samples / sample], tmp_path / "t")
    facts = pasta.run("library_time", trace=tmp_path / "t").facts
    assert least <= facts["named_share"] <= 1.0
