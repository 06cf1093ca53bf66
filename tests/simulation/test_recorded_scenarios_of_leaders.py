"""The recorded scenarios about the ISR end alike where leaders write it to ZooKeeper themselves.

Kafka was recorded at protocol version 3.9, where the controller writes what leaders ask for. Of the state znode two
fields follow from that version: the epoch of the controller, which leaders keep, and whether the leader recovers.
Leaders need no controller, so that an ISR shrinks also while that hangs.
"""

from typing import Final

import pytest
from msgspec.structs import replace

from simulator.cluster import simulate
from tests.recorded.compare import Difference, differences, load_golden
from tests.recorded.deviations import expected_of
from tests.recorded.engine import replay
from tests.recorded.in_memory_cluster import InMemoryCluster
from tests.recorded.scenario import all_names, load
from tests.simulation.test_recorded_scenarios import SEEDS

_OF_THE_VERSION: Final = frozenset({"controller_epoch_delta", "recovering"})
_SEEDS: Final = {**SEEDS, "kill-all-together": 2}
"""Three sessions end within milliseconds; in the recording the controller saw one end before the others."""
_WITHOUT_CONTROLLER: Final = {"isr-change-controller-hangs": 5}
"""The step at which the controller hangs."""
_ABOUT_ISRS: Final = ("follower-", "isr-", "kill-", "pause-", "reassign-", "min-isr", "dead-follower", "five-replicas")


async def found_differences(name: str, seed: int) -> list[Difference]:
    scenario = load(name)
    scenario = replace(scenario, config={**scenario.config, "inter.broker.protocol.version": "2.6"})
    cluster = InMemoryCluster(scenario, seed)
    await cluster.start()
    return differences(expected_of(load_golden(name)), await replay(scenario, cluster, print))


@pytest.mark.rule("R8.18", "R8.24", "IS-1", "RA-31")
@pytest.mark.parametrize("name", [name for name in all_names() if name.startswith(_ABOUT_ISRS)])
def test_a_scenario_about_the_isr_ends_as_it_did_in_kafka(name: str) -> None:
    found = simulate(lambda: found_differences(name, _SEEDS.get(name, 1)))
    found = [each for each in found if each.field.rpartition(".")[2] not in _OF_THE_VERSION]
    if name in _WITHOUT_CONTROLLER:
        step = _WITHOUT_CONTROLLER[name]
        earlier = [(each.step, each.found) for each in found if each.field == "partitions.t-0.isr"]
        assert earlier == [(step, [1, 2])]
        found = [each for each in found if each.step != step]
    assert not found, "\n".join(map(str, found))
