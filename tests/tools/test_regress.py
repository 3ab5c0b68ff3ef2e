"""`pasta regress`: thresholds on two hand-made runs, their lines and exit codes."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from pasta.cli_regress import regress
from pasta.errors import ConfigError, PastaError
from tests.tools.compared_runs import OPERATORS, Operator, changed, run_of


@pytest.fixture
def judged(make_trace, tmp_path):
    """A function that compares two runs under thresholds: gives the exit code and the lines."""

    def run(after, *thresholds, before=None, parameters="{}"):
        runs = {"before": before or run_of(), "after": after}
        traces = {name: make_trace(name, **tables) for name, tables in runs.items()}
        file = tmp_path / "t.yaml"
        lines = "".join(f"  - {threshold}\n" for threshold in thresholds)
        file.write_text(f"version: 1\nparameters: {parameters}\nthresholds:\n{lines}")
        given = [f"--run={name}={trace.path}" for name, trace in traces.items()]
        result = CliRunner().invoke(regress, [str(file), *given])
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return result.exit_code, result.output.splitlines()

    return run


SLOWER = changed("aten::gelu", "gelu", dur=44_000)


def test_a_threshold_holds_up_to_what_it_allows_and_breaks_beyond(judged):
    """The kernel of gelu grows from 40 to 44 us, by exactly 10 %; the step's 1 ms by 0.4 %."""
    assert judged(
        run_of(SLOWER), "{of: operator, name: aten::gelu, most: 10%}", "{of: device, most: 4us}"
    ) == (0, [])


def test_each_broken_threshold_is_one_line(judged):
    code, lines = judged(
        run_of(SLOWER),
        "{of: operator, name: aten::gelu, most: 9.9%}",
        "{of: device, most: 3999ns}",
        "{of: step, most: 1%}",
        "{of: kernel, most: 5%}",
        "{of: module, most: 1us}",
    )
    assert code == 3
    assert lines == [
        "thresholds[0]: aten::gelu takes 44.00 us instead of 40.00 us, 10.00% more, at most 9.9% more is allowed",
        "thresholds[1]: device time of a step is 1.00 ms instead of 1.00 ms, 0.40% more, at most 4.00 us more is allowed",
        "thresholds[3]: gelu of aten::gelu takes 44.00 us instead of 40.00 us, 10.00% more, at most 5% more is allowed",
        "thresholds[4]: encoder takes 364.00 us instead of 360.00 us, 1.11% more, at most 1.00 us more is allowed",
    ]


def test_what_got_faster_breaks_nothing(judged):
    faster = changed("aten::mm", "gemm_b", dur=100_000)
    assert judged(run_of(faster), "{of: device, most: 0%}", "{of: operator, most: 0%}")[0] == 0


def test_new_and_lost_kernels_are_counted(judged):
    after = (
        *(o for o in OPERATORS if o.kernel != "add"),
        Operator("decoder", "aten::softmax", "scale", 9_000),
    )
    code, lines = judged(run_of(after), "{of: added, most: 0}", "{of: removed, most: 1}")
    assert code == 3
    assert lines == [
        "thresholds[0]: 1 kernel is added, at most 0 allowed: scale in decoder > aten::softmax"
    ]


def test_too_few_steps_cannot_tell(judged):
    before, after = run_of(steps=3), run_of(SLOWER, steps=3)
    code, lines = judged(after, "{of: operator, name: aten::gelu, most: 5%}", before=before)
    assert code == 4
    assert len(lines) == 1
    assert lines[0].startswith("thresholds[0]: aten::gelu takes 44.00 us instead of 40.00 us, ")
    assert lines[0].endswith(", but 3 and 3 are too few to tell that from chance")


def test_without_significance_means_decide(judged):
    before, after = run_of(steps=3), run_of(SLOWER, steps=3)
    said = "{of: operator, name: aten::gelu, most: 5%, significant: false}"
    assert judged(after, said, before=before)[0] == 3


def test_broken_outweighs_untold(judged):
    before, after = run_of(steps=3), run_of(SLOWER, steps=3)
    code, lines = judged(
        after, "{of: device, most: 0%}", "{of: device, most: 0%, significant: false}", before=before
    )
    assert (code, len(lines)) == (3, 2)


def test_noise_breaks_nothing(judged):
    """The means differ, but no more than chance does."""
    before, after = (run_of(noise=0.1, seed=seed) for seed in (1, 2))
    assert judged(after, "{of: operator, most: 0%}", "{of: device, most: 0%}", before=before) == (
        0,
        [],
    )


def test_one_slow_step_is_no_regression(judged):
    """The mean of the step grows by an outlier; most of the other steps are faster."""
    after = run_of(changed("aten::gelu", "gelu", dur=39_000))
    gelu = [kernel for kernel in after["kernel"] if kernel["name"] == "gelu"]
    gelu[0]["dur"] = 400_000
    code, lines = judged(
        after, "{of: operator, name: aten::gelu, most: 1%}", parameters="{alpha: 0.05}"
    )
    assert code == 4
    assert lines[0].endswith("but most steps differ the other way")


def test_a_name_that_neither_run_has_is_a_mistake(judged):
    with pytest.raises(
        ConfigError,
        match=r"t\.yaml: thresholds\[0\]\.name: neither run has operator 'aten::gel'\. Did you mean 'aten::gelu'\?",
    ):
        judged(run_of(), "{of: operator, name: aten::gel, most: 5%}")


def test_an_unknown_parameter_is_a_mistake(judged):
    with pytest.raises(ConfigError, match=r"t\.yaml: .*alhpa"):
        judged(run_of(), "{of: step, most: 5%}", parameters="{alhpa: 1}")


def test_without_steps_a_threshold_of_steps_cannot_be_told(judged):
    runs = run_of(), run_of(SLOWER)
    for tables in runs:
        tables["span"] = [span for span in tables["span"] if span["level"] != "step"]
    code, lines = judged(runs[1], "{of: step, most: 1%}", "{of: device, most: 1%}", before=runs[0])
    assert (code, lines) == (
        4,
        ["thresholds[0]: cannot be told: the runs have no time of any step"],
    )


def test_both_runs_must_be_named(tmp_path):
    file = tmp_path / "t.yaml"
    file.write_text("version: 1\nthresholds: [{of: step, most: 1%}]\n")
    result = CliRunner().invoke(
        regress, [str(file), "--run=before=gpt_h100", "--run=later=gpt_h100"]
    )
    assert isinstance(result.exception, PastaError)
    assert str(result.exception) == "--run: no run is named 'after'; add --run after=DIR"


def test_a_run_without_work_passes_nothing(judged):
    nothing = {name: [] if name in ("kernel", "call") else rows for name, rows in run_of().items()}
    nothing["span"] = [span for span in nothing["span"] if span["level"] == "step"]
    code, lines = judged(nothing, "{of: added, most: 0}", "{of: removed, most: 0}")
    assert code != 0
    assert lines


def of_two_ranks():
    return {table: [{**row, "rank": rank} for rank in (0, 1) for row in rows] for table, rows in run_of().items()}  # fmt: skip


def test_sums_of_different_numbers_of_ranks_are_not_compared(judged):
    """The second rank of the run before is missing after: all sums are half, each step is as it was."""
    code, lines = judged(run_of(), "{of: step, most: 1%}", "{of: device, most: 1%}", "{of: removed, most: 0}", before=of_two_ranks())  # fmt: skip
    assert code == 4
    assert lines == [
        f"thresholds[{n}]: cannot be told: the runs have 2 and 1 ranks, and all of them count"
        for n in (1, 2)
    ]


def test_one_rank_of_several_is_compared_with_one(judged):
    assert judged(run_of(), "{of: device, most: 1%}", before=of_two_ranks(), parameters="{before_rank: 1}") == (0, [])  # fmt: skip
