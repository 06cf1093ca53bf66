"""What the metrics of an agent show while it starts."""

import asyncio
import re
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest

from broker_agent import program
from broker_agent.log.log_directories import LogDirectories
from cluster.config.config import NodeConfig
from cluster.config.settings import Settings
from deploy.local.processes import choose_free_ports
from tests.timeouts import TIMEOUT_S

pytestmark = pytest.mark.real


def broker_state(address: str) -> int:
    with urlopen(f"http://{address}/metrics", timeout=TIMEOUT_S) as response:
        found = re.search(r"(?m)^kafka_server_kafkaserver_brokerstate (\S+)$", response.read().decode())
    assert found is not None
    return int(float(found[1]))


@pytest.mark.rule("R1.10", "R1.11")
async def test_recovery_is_seen_while_the_logs_are_loaded_and_running_only_afterwards(
    zookeeper: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = f"127.0.0.1:{choose_free_ports(1)[0]}"
    config = NodeConfig(
        id=1,
        zookeeper=zookeeper,
        listen="127.0.0.1:0",
        metrics_listen=address,
        data=(str(tmp_path / "data"),),
        settings=Settings(controlled_shutdown_enable=False),  # Nobody is active here.
    )
    seen: list[int] = []
    open_log_directories = program.open_log_directories

    async def load(*arguments: Any, **options: Any) -> LogDirectories:
        seen.append(await asyncio.to_thread(broker_state, address))
        logs = await open_log_directories(*arguments, **options)
        seen.append(await asyncio.to_thread(broker_state, address))
        return logs

    monkeypatch.setattr(program, "open_log_directories", load)
    stop = asyncio.Event()
    running = asyncio.ensure_future(program.run(config, stop))
    async with asyncio.timeout(TIMEOUT_S):
        while len(seen) < 2 or seen[-1] != 3:
            await asyncio.sleep(0.05)
            assert not running.done()
            if len(seen) >= 2:
                seen.append(await asyncio.to_thread(broker_state, address))
    assert list(dict.fromkeys(seen)) == [2, 3]
    stop.set()
    async with asyncio.timeout(TIMEOUT_S):
        await running
