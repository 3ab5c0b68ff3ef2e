"""What an experiment's YAML stands for, and one line for everything that can be wrong in it."""

from __future__ import annotations

from collections import Counter

import pytest

from pasta.errors import ConfigError
from pasta.experiment.plan import read_experiment

GOOD = {
    "version": "1",
    "experiment": "mine",
    "command": "python train.py --batch {batch} '{{}}'",
    "parameters": "{batch: [1, 4]}",
    "levels": '[none, ranges, "torch:operators"]',
    "repeats": "3",
}


def written(tmp_path, **changed):
    file = tmp_path / "e.yaml"
    lines = {**GOOD, **changed}
    file.write_text("".join(f"{key}: {value}\n" for key, value in lines.items() if value))
    return file


def test_every_level_runs_for_every_value_in_every_round(tmp_path):
    experiment = read_experiment(written(tmp_path))
    runs = list(experiment.runs())
    assert experiment.cases == [{"batch": 1}, {"batch": 4}]
    assert len(runs) == len({run.folder for run in runs}) == 2 * 3 * 3
    assert runs[0].command == ("python", "train.py", "--batch", "1", "{}")
    assert [level.chosen for level in experiment.levels] == [None, {}, {"torch": "operators"}]
    assert [run.level.name for run in runs[:3]] == ["none", "ranges", "torch:operators"]
    first = Counter(run.level.name for place, run in enumerate(runs) if place % 3 == 0)
    assert first == {"none": 2, "ranges": 2, "torch:operators": 2}


def test_values_that_no_folder_can_be_named_by(tmp_path):
    odd = '{batch: ["../x", "../y", "a b", 1.5]}'
    folders = {run.folder for run in read_experiment(written(tmp_path, parameters=odd)).runs()}
    assert len(folders) == 4 * 9
    assert not any(".." in folder.parts or folder.is_absolute() for folder in folders)


def test_without_parameters_there_is_one_case(tmp_path):
    file = written(tmp_path, parameters="", command="[python, -c, 'print({{1}})', 2]")
    experiment = read_experiment(file)
    assert experiment.cases == [{}]
    assert next(iter(experiment.runs())).command == ("python", "-c", "print({1})", "2")


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"version": "2"}, "version: must be 1"),
        ({"version": "true"}, "version: must be 1, got True"),
        ({"version": "1.0"}, "version: must be 1, got 1.0"),
        ({"experiment": ""}, "needs the key 'experiment'"),
        ({"experiment": "a/b"}, "experiment: expected a name"),
        ({"command": ""}, "needs the key 'command'"),
        ({"command": "'  '"}, "command: expected a program"),
        ({"command": "a 'b {batch}"}, "command: no command line"),
        ({"command": "{a: {batch}}"}, "command: expected a line of text"),
        ({"command": "python {bach} {batch}"}, "command: no parameter 'bach'"),
        ({"command": "python train.py"}, "parameters.batch: the command does not use {batch}"),
        ({"parameters": "[1]"}, "parameters"),
        ({"parameters": "{batch: 4}"}, "parameters.batch: expected a list of values"),
        ({"parameters": "{batch: []}"}, "parameters.batch: expected a list of values"),
        ({"parameters": "{batch: [1, [2]]}"}, r"parameters.batch\[1\]: expected a number or text"),
        ({"parameters": "{batch: [1, true]}"}, r"parameters.batch\[1\]: expected a number or text"),
        ({"parameters": "{batch: [1, 1]}"}, "parameters.batch: a value stands twice"),
        ({"parameters": "{1: [1]}"}, "expected a name such as batch"),
        ({"levels": ""}, "needs the key 'levels'"),
        ({"levels": "[]"}, "levels: expected a list"),
        ({"levels": "[none, none]"}, r"levels\[1\]: 'none' stands twice"),
        ({"levels": "[noone]"}, r"levels\[0\]: no level 'noone'. Did you mean 'none'"),
        ({"levels": "['torch:operator']"}, r"levels\[0\]: .*Did you mean 'operators'"),
        ({"levels": "['cuda,cuda.memory']"}, r"levels\[0\]: .* takes 2 runs"),
        ({"levels": "['cuda,torch:timeline']"}, r"levels\[0\]: .* both need CUPTI"),
        ({"repeats": "0"}, "repeats: must be from 1"),
        ({"repeats": "many"}, "repeats"),
        ({"repeats": "9999"}, "stands for 59,994 runs"),
        ({"repeat": "3"}, "no such key as 'repeat'. Did you mean 'repeats'"),
    ],
)  # fmt: skip
def test_mistakes_are_one_line_with_their_place(tmp_path, changed, said):
    with pytest.raises(ConfigError, match=said) as caught:
        read_experiment(written(tmp_path, **changed))
    assert "\n" not in str(caught.value)
    assert str(caught.value).startswith(str(tmp_path / "e.yaml"))
