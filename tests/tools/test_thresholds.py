"""Files of thresholds say what they mean, and each mistake has its place."""

from __future__ import annotations

from fractions import Fraction

import pytest

from pasta.errors import ConfigError
from pasta.tools.thresholds import Threshold, read_thresholds


@pytest.fixture
def read(tmp_path):
    def run(text):
        file = tmp_path / "t.yaml"
        file.write_text(text)
        return read_thresholds(file)

    return run


def test_what_is_said_is_read(read):
    found = read(
        "version: 1\nparameters: {alpha: 0.05}\nthresholds:\n"
        "  - {of: step, most: 2.5%}\n"
        "  - {of: operator, name: 'aten::mm', most: 1.5us, significant: false}\n"
        "  - {of: added, most: 2}\n"
    )
    assert found.parameters == {"alpha": 0.05}
    assert found.thresholds == (
        Threshold("step", Fraction(1, 40), True, "", True, "thresholds[0]"),  # noqa: FBT003
        Threshold("operator", Fraction(1500), False, "aten::mm", False, "thresholds[1]"),  # noqa: FBT003
        Threshold("added", Fraction(2), False, "", False, "thresholds[2]"),  # noqa: FBT003
    )


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("thresholds: [{of: step, most: 3%}]", "version: must be 1, got None"),
        ("version: 1", "thresholds: expected a list such as"),
        ("version: 1\nthresholds: []", "thresholds: expected a list such as"),
        ("version: 1\nlimits: []", "limits: unknown key."),
        ("version: 1\nthresholds: [3]", "thresholds[0]: expected a mapping, got 3"),
        ("version: 1\nthresholds: [{of: step}]", "thresholds[0]: needs the key 'most'"),
        ("version: 1\nthresholds: [{of: steps, most: 3%}]", "thresholds[0].of: expected one of step,"),
        ("version: 1\nthresholds: [{of: step, most: 3 percent}]", "thresholds[0].most: expected a duration"),
        ("version: 1\nthresholds: [{of: step, most: -3%}]", "thresholds[0].most: expected a duration"),
        ("version: 1\nthresholds: [{of: step, most: 0.03}]", "thresholds[0].most: expected a share such as 3%"),
        ("version: 1\nthresholds: [{of: added, most: 3%}]", "thresholds[0].most: expected a number of kernels"),
        ("version: 1\nthresholds: [{of: step, name: a, most: 3%}]", "thresholds[0].name: only operator,"),
        ("version: 1\nthresholds: [{of: added, most: 0, significant: true}]", "thresholds[0].significant: kernels"),
        ("version: 1\nthresholds: [{of: step, mots: 3%}]", "thresholds[0].mots: unknown key. Did you mean 'most'?"),
        ("version: 1\nthresholds: [{", "not valid YAML: "),
    ],
)  # fmt: skip
def test_mistakes_have_a_place(read, text, said):
    with pytest.raises(ConfigError) as caught:
        read(text)
    message = str(caught.value)
    assert f"t.yaml: {said}" in message
    assert "\n" not in message
