"""The oracle of the paper's Table V: the first normalisation of ResNet-18 has the largest working set."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

import pasta

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
MODELS = Path(__file__).parent.parent / "examples" / "paper_models.py"
IMAGES = 2


@pytest.mark.parametrize("model", ["resnet18", "resnet34"])
def test_input_and_output_of_the_first_normalisation(model, tmp_path):
    """32 x 64 x 256 x 256 floats are 512 MiB, input and output 1024 MiB; of fewer images, fewer."""
    from pasta.collect.torch import record

    workload = runpy.run_path(str(MODELS))["WORKLOADS"][model]
    network = workload.build().eval()
    images = torch.randn(IMAGES, *workload.shape[1:])
    with torch.no_grad(), record(model, tmp_path / "t"):
        network(images)
    report = pasta.run("working_set", trace=tmp_path / "t", top=1)
    assert workload.shape[0] == 32
    norms = 4 * 64 * 4  # weight, bias, mean and variance of 64 channels
    row = report.tables["largest"].to_dicts()[0]
    assert row["name"] == "aten::native_batch_norm"
    assert row["working_set_bytes"] // (1 << 20) == 1024 * IMAGES // 32
    assert row["working_set_bytes"] - (1 << 20) * 1024 * IMAGES // 32 in (0, norms, norms // 2)
