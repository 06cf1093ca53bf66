"""Under random faults each record of an agent leads to the controller's event behind it, and comes after it in a story.

Topics are deleted and created anew under their names, controllers and agents die: neither clocks nor partition epochs
order what happened then.
"""

import pytest

from cluster.model.partition import TopicPartition
from simulator.cluster_simulation import LoadedClusterSimulation
from state_log.causes import BY_AGENTS, ControllerEvent, controller_event
from state_log.reader import narrow
from state_log.record import LoggedStateChange
from state_log.story import story
from tests.simulation.simulations import run_without_violation


def events_of_controllers(records: list[LoggedStateChange]) -> set[ControllerEvent | None]:
    return {controller_event(record) for record in records if record.kind not in BY_AGENTS}


def assert_causes_come_first(records: list[LoggedStateChange], tp: TopicPartition) -> None:
    about = [part for record in records if (part := narrow(record, tp.topic, tp.partition)) is not None]
    known, reported = events_of_controllers(about), set[ControllerEvent | None]()
    for line in story(about):
        event = controller_event(line.record)
        if line.record.kind not in BY_AGENTS:
            reported.add(event)
        else:
            assert event is None or event not in known or event in reported, line


@pytest.mark.parametrize("seed", [6, 9, 36])
def test_agents_records_lead_to_the_controllers_and_follow_them(seed: int) -> None:
    records = run_without_violation(seed, lambda: LoadedClusterSimulation(seed)).cluster.records()
    caused = [record for record in records if record.cause is not None and record.cause.controller is not None]
    assert caused
    assert {controller_event(record) for record in caused} <= events_of_controllers(records)
    for topic, partition in {(r.topic, r.partition) for r in caused if r.topic is not None and r.partition is not None}:
        assert_causes_come_first(records, TopicPartition(topic, partition))
