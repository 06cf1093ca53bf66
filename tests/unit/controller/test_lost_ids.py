"""Which id a topic has, by what its znode and its brokers say."""

from collections.abc import Mapping

import pytest

from cluster.model.broker import BrokerId, ControllerEpoch, TopicId
from cluster.model.partition import ReplicaAssignment, TopicAssignment
from cluster.requests.recovery import DescribedReplica, DescribeReplicasResponse
from controller.decisions.topics.lost_ids import TopicIdsRead, UndecidedId, decide_id, ids_in_logs, read_ids
from controller.topic_id_questions import TopicIdAnswer
from tests.controllers.contexts import ids

A, B = TopicId("A" * 21 + "g"), TopicId("B" * 21 + "g")
NONE, SILENT = TopicIdAnswer({"t": None}), TopicIdAnswer()
HIDDEN = TopicIdAnswer({}, frozenset({"t"}))
KNOWS_A, KNOWS_B = TopicIdAnswer({"t": A}), TopicIdAnswer({"t": B})


@pytest.mark.rule("D-102")
@pytest.mark.parametrize(
    ("answers", "expected"),
    [
        ({1: KNOWS_A, 2: KNOWS_A}, A),
        ({1: KNOWS_A, 2: NONE}, A),
        ({1: KNOWS_A, 2: HIDDEN}, A),
        ({1: KNOWS_A, 2: SILENT}, A),
        ({1: KNOWS_A}, A),
        ({1: NONE, 2: NONE}, None),
        ({1: NONE, 2: NONE, 3: KNOWS_A}, None),
        ({1: KNOWS_A, 2: KNOWS_B}, f"broker 1 knows it as {A}; broker 2 knows it as {B}"),
        ({1: HIDDEN, 2: SILENT}, "broker 1 has it under an id that only its log directories say"),
        ({1: HIDDEN, 2: HIDDEN}, "broker 1, 2 has it under an id that only its log directories say"),
        ({1: NONE, 2: SILENT}, "no broker knows its id, and broker 2 has a replica, but does not answer"),
        ({1: NONE}, "no broker knows its id, and broker 2 has a replica, but does not answer"),
        ({}, "no broker knows its id, and broker 1, 2 has a replica, but does not answer"),
    ],
)
def test_one_id_is_taken_and_none_invented_unless_every_host_has_none(
    answers: Mapping[int, TopicIdAnswer], expected: str | None
) -> None:
    decided = decide_id("t", ids(2, 1), {BrokerId(broker): answer for broker, answer in answers.items()})
    assert decided == expected or decided == UndecidedId(str(expected))


@pytest.mark.rule("D-103", "BD-10")
def test_an_id_that_another_topic_has_is_contested() -> None:
    def topic(topic_id: TopicId | None) -> TopicAssignment:
        return TopicAssignment({0: ReplicaAssignment(ids(1))}, topic_id)

    read = read_ids({"a": topic(A), "b": topic(B), "c": topic(A), "d": topic(None)}, {})
    assert read == TopicIdsRead({"b": B}, {"a": A, "c": A}, ("d",))
    assert read_ids({"a": topic(A)}, {A: "x"}) == TopicIdsRead({}, {"a": A}, ())
    assert read_ids({"a": topic(A)}, {A: "a"}) == TopicIdsRead({"a": A}, {}, ())


@pytest.mark.rule("D-102")
def test_logs_of_one_topic_under_two_ids_say_nothing() -> None:
    replicas = (
        DescribedReplica("one", A, 0),
        DescribedReplica("one", A, 1),
        DescribedReplica("one", None, 2),
        DescribedReplica("two", A, 0),
        DescribedReplica("two", B, 1),
        DescribedReplica("none", None, 0),
        DescribedReplica("unasked", B, 0),
    )
    described = DescribeReplicasResponse(BrokerId(1), ControllerEpoch(1), replicas=replicas)
    answer = ids_in_logs(described, ["one", "two", "none", "absent"])
    assert answer == TopicIdAnswer({"one": A, "none": None, "absent": None}, frozenset({"two"}))
