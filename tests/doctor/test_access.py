"""Permissions as the kernel and the driver write them, and other profilers' variables."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pasta.doctor import access
from pasta.doctor.check import Status
from tests.doctor.facts_help import BARE, WHOLE

ADMIN_ONLY = "ResmanDebugLevel: 4294967295\nRmProfilingAdminOnly: 1\nRmOther: 0\n"
ROOT = "Name:\tcat\nCapEff:\t000001ffffffffff\n"
ROOT_OF_A_CONTAINER = "Name:\tcat\nCapEff:\t00000000a80425fb\n"


@pytest.mark.parametrize(
    ("parameters", "status", "expected"),
    [
        (ADMIN_ONLY.replace("1\n", "0\n"), ROOT_OF_A_CONTAINER, Status.OK),
        (ADMIN_ONLY, ROOT, Status.OK),
        (ADMIN_ONLY, ROOT_OF_A_CONTAINER, Status.LIMITED),
        (ADMIN_ONLY, "", Status.LIMITED),
        ("", ROOT, Status.UNKNOWN),
    ],
)
def test_counters(parameters, status, expected):
    check = access.counters(parameters, status)
    assert check.status is expected
    assert ("NVreg_RestrictProfilingToAdminUsers=0" in check.advice) == (expected is Status.LIMITED)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("-1\n", Status.OK),
        ("2\n", Status.OK),
        ("3\n", Status.LIMITED),
        ("4\n", Status.LIMITED),
        ("", Status.UNKNOWN),
    ],
)
def test_cpu_samples(value, expected):
    assert access.cpu_samples(value).status is expected


def test_cupti_is_free_or_held():
    assert access.subscriber(WHOLE).status is Status.OK
    held = access.subscriber(replace(WHOLE, cupti={**WHOLE.cupti, "refused": "MULTIPLE"}))
    assert (held.status, held.found) == (Status.LIMITED, "it refuses: MULTIPLE")


def test_cupti_that_cannot_be_tried():
    for facts, why in (
        (BARE, "there is no CUPTI"),
        (replace(WHOLE, cupti={"error": "wrong ELF class"}), "there is no CUPTI"),
        (replace(WHOLE, cupti={"cuda": "cuInit gives error 100"}), "cuInit gives error 100"),
    ):
        check = access.subscriber(facts)
        assert check.status is Status.UNKNOWN
        assert why in check.found


def test_variables_of_other_profilers():
    environment = {
        "CUDA_INJECTION64_PATH": "/opt/nsys/libToolsInjection64.so",
        "NVTX_INJECTION64_PATH": "",
        "LD_PRELOAD": "/usr/lib/libjemalloc.so:/opt/rocm/lib/librocprofiler-sdk-tool.so",
    }
    checks = list(access.other_profilers(environment))
    assert [(check.status, check.name) for check in checks] == [
        (Status.LIMITED, "CUDA_INJECTION64_PATH"),
        (Status.LIMITED, "LD_PRELOAD"),
    ]
    assert all(f"unset {check.name}" in check.advice for check in checks)


def test_an_allocator_is_no_profiler():
    checks = list(access.other_profilers({"LD_PRELOAD": "/usr/lib/libjemalloc.so"}))
    assert [(check.status, check.name) for check in checks] == [(Status.OK, "other profilers")]
