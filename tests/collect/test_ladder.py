"""Of what would serve a tool, what the machine does not allow is left out, and said to be."""

import pytest

from pasta.collect.ebpf import bpftrace
from pasta.collect.ladder import those_that_work
from pasta.errors import CollectError


@pytest.fixture
def unprivileged(monkeypatch):
    monkeypatch.setattr(bpftrace.shutil, "which", lambda _program: "/usr/bin/bpftrace")
    monkeypatch.setattr(bpftrace.os, "geteuid", lambda: 1000)


@pytest.mark.usefixtures("unprivileged")
def test_what_only_root_may_do_is_left_out_with_the_reason():
    working, reasons = those_that_work(
        {"torch": "operators", "offcpu": "user", "processes": "tree"}, ["python"]
    )
    assert working == {"torch": "operators"}
    assert reasons == [
        "--with offcpu: bpftrace works for root only; run pasta as root",
        "--with processes: bpftrace works for root only; run pasta as root",
    ]


@pytest.mark.usefixtures("unprivileged")
def test_where_nothing_works_the_first_reason_is_the_error():
    with pytest.raises(CollectError, match="--with offcpu: bpftrace works for root only"):
        those_that_work({"offcpu": "user", "processes": "tree"}, ["python"])
