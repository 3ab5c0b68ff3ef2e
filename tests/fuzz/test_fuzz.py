"""A bounded run of the fuzzer over every importer and every reader of a container."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pasta.collect.importer import IMPORTERS
from tests.conftest import ROOT
from tests.fuzz.judge import ROWS
from tests.fuzz.many import make
from tests.fuzz.mutators import MUTATORS, mutate
from tests.fuzz.seeds import SEEDS
from tests.fuzz.targets import targets

TARGETS = targets()
EACH = pytest.mark.parametrize("name", TARGETS)


@pytest.fixture(scope="module")
def judges(tmp_path_factory):
    """Judges by target, each made when it is first asked for."""
    made = {}

    def judge_of(name):
        if name not in made:
            made[name] = TARGETS[name].judge(tmp_path_factory.mktemp("fuzz"))
        return made[name]

    return judge_of


def test_every_importer_is_fuzzed():
    own = {name for name in IMPORTERS if type(IMPORTERS.get(name)).__module__.startswith("pasta.")}
    assert own == set(SEEDS)


@EACH
def test_seeds_are_what_they_should_be(name, judges):
    outcomes = [
        judges(name).judge(TARGETS[name].importer, seed).outcome for seed in TARGETS[name].seeds
    ]
    assert ROWS in outcomes


@EACH
@settings(
    max_examples=20,
    derandomize=True,
    database=None,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
@given(random=st.randoms(use_true_random=False))
def test_whatever_is_in_a_file_gives_rows_losses_or_one_line(name, random, judges):
    target = TARGETS[name]
    judges(name).judge(target.importer, target.make(random))


@EACH
def test_an_input_follows_from_its_number(name):
    target = TARGETS[name]
    made = [make(target, number).files for number in range(30)]
    assert made == [make(target, number).files for number in range(30)]
    assert len({repr(files) for files in made}) > 15


@pytest.mark.skipif(
    importlib.util.find_spec("atheris") is None,
    reason="atheris is not installed; pip install -e '.[fuzz]' (Linux only)",
)
def test_a_run_guided_by_coverage_finds_more_inputs(tmp_path):
    command = [sys.executable, "-m", "tests.fuzz.coverage", "container text_lines"]
    options = ["--seconds", "5", "--corpus", str(tmp_path)]
    subprocess.run([*command, *options], cwd=ROOT, check=True, capture_output=True, timeout=300)
    found = list((tmp_path / "container text_lines").iterdir())
    assert len(found) > len(TARGETS["container text_lines"].seeds)


@pytest.mark.parametrize("kind", MUTATORS)
def test_a_file_with_nothing_left_in_it_can_be_changed_too(kind):
    made = [mutate(kind, b"", Random(number)) for number in range(300)]
    assert {type(data) for data in made} == {bytes}


def test_splices_are_of_two_seeds():
    target = TARGETS["mapped_kernel"]
    heads = {seed.files["trace"][:4] for seed in target.seeds}
    assert len(heads) > 2
    assert target.make(Random(1)).files.keys() == {"trace"}
