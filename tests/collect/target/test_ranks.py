from __future__ import annotations

import os
import subprocess
import time

import pytest

from pasta.collect.target.ranks import Place, place, process_name, run_id


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({}, Place(0, 0, 1)),
        ({"RANK": "5", "LOCAL_RANK": "1", "WORLD_SIZE": "8"}, Place(5, 1, 8)),
        ({"SLURM_PROCID": "3", "SLURM_LOCALID": "0", "SLURM_NTASKS": "4"}, Place(3, 0, 4)),
        (
            {
                "OMPI_COMM_WORLD_RANK": "2",
                "OMPI_COMM_WORLD_LOCAL_RANK": "1",
                "OMPI_COMM_WORLD_SIZE": "6",
            },
            Place(2, 1, 6),
        ),
        ({"PMI_RANK": "7", "MPI_LOCALRANKID": "3", "PMI_SIZE": "16"}, Place(7, 3, 16)),
        (
            {
                "MV2_COMM_WORLD_RANK": "1",
                "MV2_COMM_WORLD_LOCAL_RANK": "0",
                "MV2_COMM_WORLD_SIZE": "2",
            },
            Place(1, 0, 2),
        ),
    ],
)
def test_each_launcher_tells_rank_local_rank_and_size(environment, expected):
    assert place(environment) == expected


def test_without_a_local_rank_it_is_the_rank():
    assert place({"RANK": "5", "WORLD_SIZE": "8"}) == Place(5, 5, 8)
    assert place({"RANK": "5", "LOCAL_RANK": "x", "WORLD_SIZE": "8"}) == Place(5, 5, 8)


def test_torchrun_inside_a_slurm_task_is_believed_first():
    slurm = {"SLURM_PROCID": "1", "SLURM_LOCALID": "0", "SLURM_NTASKS": "2"}
    assert place({**slurm, "RANK": "9", "LOCAL_RANK": "1", "WORLD_SIZE": "16"}) == Place(9, 1, 16)


@pytest.mark.parametrize(
    "nonsense",
    [
        {"RANK": "5"},
        {"WORLD_SIZE": "8"},
        {"RANK": "", "WORLD_SIZE": "8"},
        {"RANK": "-1", "WORLD_SIZE": "8"},
        {"RANK": "8", "WORLD_SIZE": "8"},
        {"RANK": "0", "WORLD_SIZE": "0"},
        {"RANK": "1.0", "WORLD_SIZE": "8"},
        {"RANK": "²", "WORLD_SIZE": "8"},
        {"RANK": "one", "WORLD_SIZE": "8"},
        {"RANK": "1", "WORLD_SIZE": "many"},
        {"RANK": "9" * 30, "WORLD_SIZE": "9" * 31},
    ],
)
def test_nonsense_is_passed_over_for_the_next_launcher(nonsense):
    assert place(nonsense) == Place(0, 0, 1)
    slurm = {"SLURM_PROCID": "3", "SLURM_LOCALID": "1", "SLURM_NTASKS": "4"}
    assert place({**nonsense, **slurm}) == Place(3, 1, 4)


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({}, None),
        ({"SLURM_JOB_ID": "77"}, None),
        ({"SLURM_JOB_ID": "77", "SLURM_STEP_ID": "0"}, "SLURM_JOB_ID=77/0"),
        ({"PMIX_NAMESPACE": "prterun-1"}, "PMIX_NAMESPACE=prterun-1"),
        ({"OMPI_MCA_ess_base_jobid": "12"}, "OMPI_MCA_ess_base_jobid=12"),
        ({"PMI_JOBID": "j"}, "PMI_JOBID=j"),
        (
            {"TORCHELASTIC_RUN_ID": "none", "MASTER_ADDR": "h", "MASTER_PORT": "29500"},
            "TORCHELASTIC_RUN_ID=none/h/29500",
        ),
    ],
)
def test_the_run_is_named_by_what_its_ranks_have_in_common(environment, expected):
    assert run_id(environment) == expected


def test_a_name_given_by_hand_is_believed_first():
    slurm = {"SLURM_JOB_ID": "77", "SLURM_STEP_ID": "0"}
    assert run_id({**slurm, "PASTA_RUN": "mine"}) == "PASTA_RUN=mine"


def test_a_process_has_a_name_of_its_own():
    with subprocess.Popen(["sleep", "60"]) as other:
        names = [process_name(os.getpid()), process_name(other.pid), process_name(os.getpid())]
        other.kill()
    assert names[0] == names[2] != names[1]
    started = names[0].rpartition("/")[2]
    assert int(started) < time.clock_gettime(time.CLOCK_BOOTTIME) * os.sysconf("SC_CLK_TCK")
