"""Runs on several hosts: processes of this machine, or network namespaces, stand for them."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from pasta.schema import arrow_schema
from pasta.trace import Trace
from tests.collect.recorded_programs import WRITTEN

PROGRAM = """
import os, sys, pasta
with pasta.annotate("of " + os.environ["PASTA_ENTITY"]):
    pass
open(f"{os.environ['PASTA_ENTITY']}.began", "w").close()
sys.exit(int(os.environ["PASTA_ENTITY_INDEX"]) * int(sys.argv[1]))
"""
PASTA = f"{sys.executable} -m pasta"


def run(folder: Path, system: str, *arguments: str, program: str = PROGRAM) -> Any:
    """Run `pasta system run` on a system's YAML; the trace is `t` in the folder."""
    (folder / "system.yaml").write_text("version: 1\nentities:\n" + system)
    (folder / "program.py").write_text(program)
    command = [sys.executable, "-m", "pasta", "system", "run", "system.yaml", *arguments]
    command += ["-o", "t", "--with", "torch:operators", "--", sys.executable, "program.py", "0"]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


def spans(folder: Path) -> list[tuple[int, str]]:
    rows = Trace.open(folder / "t").scan("span").collect().sort("rank", "ts")
    return [row for row in rows.select("rank", "name").rows() if row[1].startswith("of ")]


def test_two_hosts_make_one_trace(tmp_path):
    done = run(tmp_path, "  head: {nodes: {c: {kind: cpu, model: x}}}\n  far: {}\n")
    assert done.returncode == 0, done.stderr
    assert spans(tmp_path) == [(0, "of head"), (1, "of far")]
    trace = Trace.open(tmp_path / "t")
    nodes = trace.scan("node").collect()
    assert nodes.schema == trace.scan("node").collect_schema()
    assert nodes.filter(entity="head").select("rank", "name", "model").rows() == [
        (0, "head/c", "x")
    ]
    assert nodes.filter(entity="far", kind="cpu").height >= 1
    assert set(nodes.columns) == set(arrow_schema("node").names)
    clocks = trace.info["clock"]["aligned"]
    assert [clock["entity"] for clock in clocks] == ["head", "far"]
    assert all(abs(clock["offset_ns"]) <= clock["error_ns"] for clock in clocks)
    assert sorted(path.name for path in (tmp_path / "t").iterdir()) == [
        "rank-00000",
        "rank-00001",
        "trace.json",
    ]


def test_no_program_begins_before_the_collectors_of_all_hosts_are_ready(tmp_path):
    slow = "sh -c 'sleep 1; touch late; exec \"$@\"' sh"
    program = PROGRAM.replace("import os", "import os; assert os.path.exists('late'); import os", 1)
    system = f"  head: {{}}\n  far: {{launch: {json.dumps(slow)}, pasta: {PASTA}}}\n"
    done = run(tmp_path, system, "--address", "127.0.0.1", program=program)
    assert done.returncode == 0, done.stderr
    assert len(spans(tmp_path)) == 2


def test_the_exit_code_is_that_of_a_program_that_failed(tmp_path):
    system = f"  head: {{}}\n  far: {{command: [{sys.executable}, program.py, '3']}}\n"
    done = run(tmp_path, system, "--keep-going")
    assert done.returncode == 3
    assert "far: the program ended with exit 3" in done.stderr
    assert len(spans(tmp_path)) == 2


def test_a_host_that_is_lost_is_told_and_the_others_are_kept(tmp_path):
    kill = "import os, signal; os.environ['PASTA_ENTITY'] == 'far' and os.kill(os.getppid(), 9)\n"
    done = run(tmp_path, "  head: {}\n  far: {}\n", "--keep-going", program=kill + PROGRAM)
    assert done.returncode == 1
    assert "far: connection lost; its trace is not here" in done.stderr
    assert spans(tmp_path) == [(0, "of head")]
    assert Trace.open(tmp_path / "t").info["lost_entities"] == [
        "far: connection lost; its trace is not here"
    ]


@pytest.mark.parametrize(
    ("far", "message"),
    [
        ('{launch: "false"}', "far: its launcher ended with exit code 1 before pasta answered"),
        ("{launch: no-such-launcher}", "far: no-such-launcher cannot be run (No such file"),
        ("{command: no-such-program}", "far: no-such-program: no such program"),
        ("{cores: 4095}", "far: cores 4095: this machine does not have them"),
    ],
)
def test_where_one_host_cannot_begin_none_does(tmp_path, far, message):
    done = run(tmp_path, f"  head: {{}}\n  far: {far}\n", "--address", "127.0.0.1")
    assert done.returncode == 2
    assert message in done.stderr
    assert not list(tmp_path.glob("*.began"))
    assert not any((tmp_path / "t").iterdir())


def test_a_host_that_does_not_answer_is_given_up(tmp_path):
    far = "{launch: \"sh -c 'exec sleep 100'\"}"
    done = run(tmp_path, f"  head: {{}}\n  far: {far}\n", "--wait", "2")
    assert done.returncode == 2
    assert "far: no answer within 2 s; look at `launch`" in done.stderr


def test_a_stranger_is_not_let_in(tmp_path):
    """The launcher connects with another token first, under the name of the host."""
    (tmp_path / "launch.py").write_text(
        "import json, os, socket, sys\n"
        "host, port = sys.argv[-2].split(':')\n"
        "stranger = socket.create_connection((host, int(port)))\n"
        "stranger.sendall(json.dumps({'name': sys.argv[-1], 'token': 'guess'}).encode() + b'\\n')\n"
        "assert stranger.recv(1) == b''\n"
        "open('refused', 'w').close()\n"
        "os.execvp(sys.argv[1], sys.argv[1:])\n"
    )
    far = f"{{launch: {sys.executable} launch.py, pasta: {PASTA}}}"
    done = run(tmp_path, f"  head: {{}}\n  far: {far}\n", "--address", "127.0.0.1")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "refused").exists()
    assert len(spans(tmp_path)) == 2


def test_a_signal_reaches_all_programs_and_their_traces_are_kept(tmp_path):
    program = WRITTEN + PROGRAM.replace("open(", "wait_until_written()\nopen(")
    program = program.replace("sys.exit(", "time.sleep(600)\nsys.exit(")
    (tmp_path / "system.yaml").write_text("version: 1\nentities: {head: {}, far: {}}\n")
    (tmp_path / "program.py").write_text(program)
    command = [sys.executable, "-m", "pasta", "system", "run", "system.yaml", "-o", "t"]
    command += ["--with", "torch:operators", "--", sys.executable, "program.py", "0"]
    with subprocess.Popen(command, cwd=tmp_path, start_new_session=True) as process:
        until = time.monotonic() + 300
        while len(list(tmp_path.glob("*.began"))) < 2 and time.monotonic() < until:
            time.sleep(0.05)
        process.send_signal(signal.SIGTERM)
        assert process.wait(300) == 128 + signal.SIGTERM
    assert len(spans(tmp_path)) == 2


def test_cores_are_set_apart(tmp_path):
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) < 2:
        pytest.skip("needs two cores")
    program = "import os; open('cores', 'w').write(str(sorted(os.sched_getaffinity(0))))\n"
    system = f"  head: {{cores: '{cores[0]}', collector_cores: '{cores[1]}'}}\n"
    assert run(tmp_path, system, program=program).returncode == 0
    assert json.loads((tmp_path / "cores").read_text()) == [cores[0]]


@pytest.fixture
def other_host():
    """A network namespace that is reached over a cable, as `ip netns exec` takes it."""
    me = os.getpid()  # others may run these tests at the same time, or have been killed in them
    name, own, its = f"pasta-test-{me}", f"pt{me}a", f"pt{me}b"
    address, far = (f"10.213.{me // 64 % 256}.{me % 64 * 4 + host}" for host in (1, 2))
    if os.geteuid() != 0 or shutil.which("ip") is None:
        pytest.skip("network namespaces need root and iproute2")
    if subprocess.run(["ip", "netns", "add", name], check=False).returncode:
        pytest.skip("this machine makes no network namespaces")
    try:
        cable = f"link add {own} type veth peer name {its} netns {name}"
        if subprocess.run(["ip", *cable.split()], check=False).returncode:
            pytest.skip("this machine makes no cables between network namespaces")
        for line in (
            f"addr add {address}/30 dev {own}",
            f"link set {own} up",
            f"-n {name} addr add {far}/30 dev {its}",
            f"-n {name} link set {its} up",
        ):
            subprocess.run(["ip", *line.split()], check=True)
        yield name, address
    finally:
        subprocess.run(["ip", "netns", "del", name], check=True)


OWN_CLOCK = ["unshare", "--time", "--fork", "--monotonic", "86400"]


def has_clocks_of_its_own() -> bool:
    """Whether this machine gives a program a clock that is a day ahead."""
    if shutil.which(OWN_CLOCK[0]) is None or not Path("/proc/self/ns/time").exists():
        return False
    return subprocess.run([*OWN_CLOCK, "true"], check=False).returncode == 0


def test_hosts_with_networks_and_clocks_of_their_own(tmp_path, other_host):
    name, address = other_host
    launch = f"ip netns exec {name}"
    if has_clocks_of_its_own():
        launch += f" {' '.join(OWN_CLOCK)}"
    far = f"{{launch: {launch}, pasta: {PASTA}, nodes: {{net: {{kind: nic}}}}}}"
    system = (
        f"  head: {{nodes: {{net: {{kind: nic}}}}}}\n  far: {far}\n"
        "links: [{from: head/net, to: far/net, kind: network}]\n"
    )
    done = run(tmp_path, system, "--address", address)
    assert done.returncode == 0, done.stderr
    trace = Trace.open(tmp_path / "t")
    began = trace.scan("process").collect().sort("rank")["started"].to_list()
    assert abs(began[1] - began[0]) < 3600 * 10**9  # a day apart, were clocks not brought together
    links = trace.scan("node").select("name", "links", "link_kinds").collect().sort("name").rows()
    assert links == [
        ("far/net", ["head/net"], ["network"]),
        ("head/net", ["far/net"], ["network"]),
    ]
