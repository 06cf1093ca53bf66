"""`klamm produce` as it is typed: what it refuses, and what it prints."""

import asyncio
import os
import pty
import subprocess
from collections.abc import AsyncIterator

import pytest

from cluster.model.exit_codes import ExitCode
from tests.controllers.scripted_cluster import FIRST_CONTROLLER, TOPIC, ScriptedCluster, served_cluster
from tests.processes.commands import LAUNCHER, run_klamm


@pytest.fixture
async def cluster() -> AsyncIterator[ScriptedCluster]:
    async with served_cluster() as served:
        yield served


async def produce(cluster: ScriptedCluster, *arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    address = cluster.servers[FIRST_CONTROLLER].address
    return await asyncio.to_thread(run_klamm, "produce", *arguments, "--bootstrap", address, stdin=stdin)


async def test_a_topic_that_does_not_exist_is_an_error_although_nothing_was_to_be_produced(
    cluster: ScriptedCluster,
) -> None:
    answer = await produce(cluster, "nope")
    assert answer.returncode == ExitCode.REFUSED
    assert "topic 'nope' does not exist" in answer.stderr
    assert "acknowledged" not in answer.stderr


async def test_an_object_with_a_key_that_is_not_known_is_refused_with_its_line(cluster: ScriptedCluster) -> None:
    answer = await produce(cluster, TOPIC, "--input", "json", stdin='{"value": "a"}\n{"valu": "b"}\n')
    assert answer.returncode == ExitCode.USAGE
    assert "line 2: unknown key `valu`" in answer.stderr


@pytest.mark.parametrize("separator", ["=", "\t"])
async def test_objects_have_no_separator(cluster: ScriptedCluster, separator: str) -> None:
    answer = await produce(cluster, TOPIC, "--input", "json", "--key-separator", separator)
    assert answer.returncode == ExitCode.USAGE
    assert "mutually exclusive" in answer.stderr


async def test_the_number_of_records_is_for_programs_not_for_terminals(cluster: ScriptedCluster) -> None:
    assert (await produce(cluster, TOPIC, stdin="a\nb\n")).stdout == "2\n"
    terminal, end = pty.openpty()
    command = [*LAUNCHER, "produce", TOPIC, "--count", "2", "--bootstrap", cluster.servers[FIRST_CONTROLLER].address]
    try:
        running = await asyncio.create_subprocess_exec(*command, stdout=end, stderr=asyncio.subprocess.PIPE)
        _, said = await running.communicate()
        assert running.returncode == ExitCode.OK
        assert b"2 records" in said
        os.set_blocking(terminal, False)
        with pytest.raises(BlockingIOError):
            os.read(terminal, 1)
    finally:
        os.close(terminal)
        os.close(end)
