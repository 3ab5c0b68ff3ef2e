"""What holds for every registered stage, by parametrisation over the registry."""

from __future__ import annotations

import inspect
from pathlib import Path

import polars as pl
import pytest

from pasta.pipeline.stage import STAGES

REFERENCE = Path(__file__).parents[2] / "docs" / "reference" / "stages.md"
STAGE_FOLDER = Path(__file__).parents[2] / "pasta" / "pipeline" / "stages"


@pytest.mark.parametrize("name", list(STAGES))
def test_has_a_docstring_a_page_and_a_test(name):
    stage = STAGES.get(name)
    assert (inspect.getdoc(stage.function) or "").strip()
    assert f"## {name}\n" in REFERENCE.read_text()
    module = Path(inspect.getfile(inspect.unwrap(stage.function)))
    assert module.parent == STAGE_FOLDER
    assert (Path(__file__).parent / "stages" / f"test_{module.stem}.py").is_file()


@pytest.mark.parametrize("name", list(STAGES))
def test_array_stages_take_and_give_frames_only(name):
    stage = STAGES.get(name)
    hints = inspect.get_annotations(stage.function, eval_str=True)
    wanted = pl.DataFrame if stage.array else pl.LazyFrame
    assert hints["return"] is wanted
