"""The commands, environments, users and mounts of the secured compose stack, as processes in namespaces."""

from pathlib import Path

import pytest

from tests.compose.namespaces import NODES, can_be_made, stack
from tests.processes.local_clusters import eventually

pytestmark = [pytest.mark.deep, pytest.mark.real, pytest.mark.timeout(600)]


@pytest.mark.skipif(not can_be_made(), reason="needs root, and a kernel that lets it make namespaces")
def test_the_secured_stack_serves_who_has_the_certificate_of_the_cli(tmp_path: Path) -> None:
    with stack(tmp_path / "stack") as running:
        for name in NODES:
            eventually(lambda name=name: running.health(name), f"{name} is healthy")
        created = running.klamm("topics", "create", "orders", "--partitions", "3")
        assert created.returncode == 0, created.stderr
        produced = running.klamm("produce", "orders", input_="a\nb\nc\n")
        assert produced.stdout.split()[-1:] == [b"3"], produced.stderr
        read = running.klamm("consume", "orders", "--from-beginning", "--until-end")
        assert sorted(read.stdout.split()) == [b"a", b"b", b"c"], read.stderr
        healthy = running.klamm("cluster", "health", "--at-least", "warning")
        assert healthy.returncode == 0, healthy.stdout
