"""Batches: what is collected, what is merged, who gets it and in which order."""

from typing import Any

import pytest
from msgspec.structs import replace

from cluster.model.broker import BrokerId, ControllerId, TopicId
from cluster.requests.control import (
    ControlRequest,
    LeaderAndIsrRequest,
    RequestCause,
    StopReplicaRequest,
    UpdateMetadataRequest,
)
from cluster.znodes.left_replicas import LeftReplicas
from controller.changes import DeletionsQueued, LeadershipsRead, LeftReplicasRecorded
from controller.context.controller_context import ControllerContext
from controller.decisions.broker_requests import ControlBatch, RequestSettings
from tests.controllers.contexts import EPOCH, assignment, context, ids, leadership, tp

ME = ControllerId(1001)


def cluster() -> ControllerContext:
    return context(
        [1, 2, 3],
        {"t-0": [1, 2], "t-1": [2, 9], "u-0": [3]},
        {
            "t-0": leadership(1, [1, 2], leader_epoch=4, partition_epoch=6),
            "t-1": leadership(-1, [9], leader_epoch=1, partition_epoch=1),
        },
    )


def send(batch: ControlBatch, **settings: Any) -> list[tuple[BrokerId, ControlRequest]]:
    return batch.requests(ME, RequestSettings(**settings))


def of(requests: list[tuple[BrokerId, ControlRequest]], kind: type[ControlRequest]) -> dict[int, Any]:
    return {broker: request for broker, request in requests if isinstance(request, kind)}


def add(batch: ControlBatch, view: ControllerContext, name: str, *brokers: int, is_new: bool = False) -> None:
    batch.add_leader_and_isr(
        ids(*brokers),
        tp(name),
        view.leaderships.known[tp(name)],
        view.topics.assignment(tp(name)),
        is_new=is_new,
    )


def test_an_empty_batch_sends_nothing() -> None:
    assert send(ControlBatch(cluster())) == []


@pytest.mark.rule("RQ-3", "RQ-4", "RQ-12", "RQ-13", "RQ-1")
def test_leader_and_isr_goes_to_its_brokers_and_metadata_to_all_registered() -> None:
    view = cluster()
    batch = ControlBatch(view)
    add(batch, view, "t-0", 1, 2, 9, -1)
    add(batch, view, "t-1", 2)
    requests = send(batch)
    leader_and_isr = of(requests, LeaderAndIsrRequest)
    assert sorted(leader_and_isr) == [1, 2]
    to_two: LeaderAndIsrRequest = leader_and_isr[2]
    assert (to_two.controller_id, to_two.controller_epoch, to_two.broker_epoch) == (ME, EPOCH, 102)
    (topic,) = to_two.topic_states
    assert (topic.topic_name, topic.topic_id) == ("t", TopicId("id-of-t"))
    assert [s.partition_index for s in topic.partition_states] == [0, 1]
    first = topic.partition_states[0]
    assert (first.leader, first.leader_epoch, first.isr, first.partition_epoch) == (1, 4, (1, 2), 6)
    assert (first.replicas, first.controller_epoch, first.is_new) == ((1, 2), 1, False)
    assert [(leader.broker_id, leader.host) for leader in to_two.live_leaders] == [(1, "host1")]
    metadata = of(requests, UpdateMetadataRequest)
    assert sorted(metadata) == [1, 2, 3]
    assert [b.id for b in metadata[3].live_brokers] == [1, 2, 3]
    assert {len(m.topic_states) for m in metadata.values()} == {1}


def test_states_are_shared_between_requests_so_that_they_are_serialised_once() -> None:
    view = cluster()
    batch = ControlBatch(view)
    add(batch, view, "t-0", 1)
    add(batch, view, "t-0", 2)
    requests = send(batch)
    first, second = of(requests, LeaderAndIsrRequest).values()
    assert first.topic_states[0].partition_states[0] is second.topic_states[0].partition_states[0]
    metadata = list(of(requests, UpdateMetadataRequest).values())
    assert all(m.topic_states is metadata[0].topic_states for m in metadata)
    assert all(m.live_brokers is metadata[0].live_brokers for m in metadata)


def known_for(view: ControllerContext, batch: ControlBatch, *, at_once: bool) -> ControlBatch:
    replicas = {b: [tp(name) for name in ("t-1", "u-0", "t-0")] for b in ids(2, -1, 1, 9)}
    if at_once:
        batch.add_known_leader_and_isr(replicas)
        return batch
    for broker, partitions in replicas.items():
        for found in partitions:
            if found in view.leaderships.known:
                add(batch, view, str(found), broker)
    return batch


@pytest.mark.rule("RQ-4", "PS-24")
def test_known_leaderships_of_many_replicas_at_once_are_sent_as_those_of_each() -> None:
    view = cluster()
    first, second = (known_for(view, ControlBatch(view), at_once=at_once) for at_once in (True, False))
    requests = send(first)
    assert requests == send(second)
    to_one, to_two = (of(requests, LeaderAndIsrRequest)[b].topic_states[0].partition_states for b in (1, 2))
    assert [state.partition_index for state in to_one] == [1, 0]
    assert all(one is two for one, two in zip(to_one, to_two, strict=True))


@pytest.mark.rule("RQ-4", "D-99")
def test_at_once_or_each_is_new_is_sticky_and_what_was_left_is_not_replaced() -> None:
    view = cluster()
    left = LeftReplicas(TopicId("id-of-former-t"), (0,))
    view.apply(LeftReplicasRecorded({BrokerId(1): {"t": left}}))
    batches = []
    for at_once in (True, False):
        batch = ControlBatch(view)
        add(batch, view, "t-0", 2, is_new=True)
        batches.append(send(known_for(view, batch, at_once=at_once)))
    assert batches[0] == batches[1]
    sent = of(batches[0], LeaderAndIsrRequest)
    assert list(sent) == [2]
    assert [(s.partition_index, s.is_new) for s in sent[2].topic_states[0].partition_states] == [(0, True), (1, False)]


def test_replicas_without_a_leadership_are_sent_nothing() -> None:
    batch = ControlBatch(cluster())
    batch.add_known_leader_and_isr({BrokerId(3): [tp("u-0")]})
    assert send(batch) == []


@pytest.mark.rule("RQ-4")
def test_is_new_is_sticky_per_broker_and_the_latest_leadership_wins() -> None:
    view = cluster()
    batch = ControlBatch(view)
    add(batch, view, "t-0", 1, 2, is_new=True)
    view.apply(LeadershipsRead({tp("t-0"): leadership(2, [2], leader_epoch=5)}))
    add(batch, view, "t-0", 1)
    requests = of(send(batch), LeaderAndIsrRequest)
    to_one, to_two = (requests[b].topic_states[0].partition_states[0] for b in (1, 2))
    assert (to_one.is_new, to_one.leader_epoch) == (True, 5)
    assert (to_two.is_new, to_two.leader_epoch) == (True, 4)


@pytest.mark.rule("RQ-6", "RQ-7")
def test_a_partition_without_leadership_is_left_out_but_its_brokers_learn_who_is_alive() -> None:
    batch = ControlBatch(cluster())
    batch.add_update_metadata(ids(1, 9, -1), [tp("u-0")])
    ((broker, request),) = send(batch)
    assert broker == 1
    assert isinstance(request, UpdateMetadataRequest)
    assert request.topic_states == ()
    assert len(request.live_brokers) == 3


@pytest.mark.rule("RQ-7")
def test_leader_and_isr_of_a_partition_unknown_to_the_context_carries_no_metadata() -> None:
    view = cluster()
    batch = ControlBatch(view)
    batch.add_leader_and_isr(ids(1), tp("u-0"), leadership(3, [3]), assignment([3]), is_new=False)
    requests = send(batch)
    assert of(requests, UpdateMetadataRequest)[1].topic_states == ()
    assert len(of(requests, LeaderAndIsrRequest)) == 1


@pytest.mark.rule("RQ-8", "CX-2")
def test_metadata_marks_queued_topics_and_names_offline_replicas() -> None:
    view = cluster()
    batch = ControlBatch(view)
    batch.add_update_metadata_for_all([tp("t-0"), tp("t-1")])
    (first, second) = of(send(batch), UpdateMetadataRequest)[1].topic_states[0].partition_states
    assert (first.leader, first.leader_epoch, first.zk_version, first.offline_replicas) == (1, 4, 6, ())
    assert second.offline_replicas == (9,)
    view.apply(DeletionsQueued(("t",)))
    (first, _) = of(send(batch), UpdateMetadataRequest)[1].topic_states[0].partition_states
    assert (first.leader, first.leader_epoch, first.zk_version, first.isr) == (-2, 0, 0, (1, 2))


@pytest.mark.rule("RQ-5", "CX-7")
def test_delete_is_sticky_and_stop_replica_carries_the_known_epoch() -> None:
    view = cluster()
    batch = ControlBatch(view)
    batch.add_stop_replica(BrokerId(1), tp("t-0"), delete=True)
    batch.add_stop_replica(BrokerId(1), tp("t-0"), delete=False)
    batch.add_stop_replica(BrokerId(1), tp("u-0"), delete=False)
    batch.add_stop_replica(BrokerId(9), tp("t-1"), delete=True)
    batch.add_stop_replica(BrokerId(-1), tp("t-1"), delete=True)
    ((broker, request),) = send(batch)
    assert broker == 1
    assert isinstance(request, StopReplicaRequest)
    assert [(s.topic_name, s.leader_epoch, s.delete_partition) for s in request.partition_states] == [
        ("t", 4, True),
        ("u", -1, False),
    ]
    split = [r for _, r in send(batch, stop_replica_flag_per_partition=False)]
    assert [[s.delete_partition for s in r.partition_states] for r in split] == [[True], [False]]  # type: ignore[union-attr]


@pytest.mark.rule("RQ-10", "INV-6")
def test_leader_and_isr_precedes_metadata_precedes_stop_replica() -> None:
    view = cluster()
    batch = ControlBatch(view)
    batch.add_stop_replica(BrokerId(1), tp("t-0"), delete=False)
    add(batch, view, "t-0", 1, 2)
    kinds = [type(request) for _, request in send(batch)]
    assert kinds == [LeaderAndIsrRequest] * 2 + [UpdateMetadataRequest] * 3 + [StopReplicaRequest]


@pytest.mark.rule("RQ-10", "RQ-12")
def test_requests_that_would_be_too_large_are_divided_by_topic_in_their_order() -> None:
    names = ("t-0", "t-1", "u-0", "v-0", "v-1")
    view = context([1, 2], {name: [1, 2] for name in names}, {name: leadership(1, [1, 2]) for name in names})
    batch = ControlBatch(view)
    for name in names:
        add(batch, view, name, 1, 2)
    batch.add_stop_replica(BrokerId(1), tp("t-0"), delete=False)
    whole, divided = send(batch), send(batch, bytes_max=400)
    assert [type(request) for _, request in whole] == [
        *[LeaderAndIsrRequest] * 2,
        *[UpdateMetadataRequest] * 2,
        StopReplicaRequest,
    ]
    for kind in (LeaderAndIsrRequest, UpdateMetadataRequest):
        for broker in (1, 2):
            (request,) = [r for b, r in whole if b == broker and isinstance(r, kind)]
            parts = [r for b, r in divided if b == broker and isinstance(r, kind)]
            assert [[topic.topic_name for topic in part.topic_states] for part in parts] == [["t"], ["u"], ["v"]]
            assert tuple(topic for part in parts for topic in part.topic_states) == request.topic_states
            # Each says all that is not of a topic.
            assert all(replace(part, topic_states=()) == replace(request, topic_states=()) for part in parts)
    kinds = [type(request) for _, request in divided]
    assert kinds == sorted(kinds, key=[LeaderAndIsrRequest, UpdateMetadataRequest, StopReplicaRequest].index)


@pytest.mark.rule("RQ-10", "RQ-12", "RQ-13")
@pytest.mark.parametrize("has_flag_per_partition", [True, False])
def test_a_stop_replica_that_would_be_too_large_is_divided_in_its_order(has_flag_per_partition: bool) -> None:
    names = ("t-0", "t-1", "u-0", "v-0", "v-1")
    view = context([1, 2], {name: [1, 2] for name in names}, {name: leadership(1, [1, 2]) for name in names})
    batch = ControlBatch(view)
    for name in names:
        batch.add_stop_replica(BrokerId(2), tp(name), delete=name != "u-0")
    version: Any = {"stop_replica_flag_per_partition": has_flag_per_partition}
    whole = [r for _, r in send(batch, **version) if isinstance(r, StopReplicaRequest)]
    divided = [r for _, r in send(batch, bytes_max=150, **version) if isinstance(r, StopReplicaRequest)]
    assert [len(part.partition_states) for part in divided] == [2, 2, 1]
    assert [s for part in divided for s in part.partition_states] == [s for r in whole for s in r.partition_states]
    assert all(replace(part, partition_states=()) == replace(whole[0], partition_states=()) for part in divided)


def test_brokers_that_were_sent_what_is_known_are_sent_later_changes_in_its_place() -> None:
    names = ("t-0", "t-1", "u-0")
    view = context([1, 2], {name: [1, 2] for name in names}, {name: leadership(1, [1, 2]) for name in names})
    batch = ControlBatch(view)
    batch.add_known_leader_and_isr({broker: [tp(name) for name in names] for broker in ids(1, 2)})
    batch.add_leader_and_isr(ids(1), tp("t-1"), leadership(2, [2]), assignment([1, 2]), is_new=True)
    batch.add_known_leader_and_isr({BrokerId(2): [tp("u-0")]})
    sent = of(send(batch), LeaderAndIsrRequest)
    states = {
        broker: [(s.leader, s.is_new) for topic in request.topic_states for s in topic.partition_states]
        for broker, request in sent.items()
    }
    assert states == {1: [(1, False), (2, True), (1, False)], 2: [(1, False)] * 3}


def test_a_topic_that_is_too_large_alone_goes_alone() -> None:
    view = cluster()
    batch = ControlBatch(view)
    add(batch, view, "t-0", 1)
    add(batch, view, "t-1", 2)
    assert len(of(send(batch, bytes_max=1), LeaderAndIsrRequest)) == 2
    assert [len(r.topic_states) for _, r in send(batch, bytes_max=1) if isinstance(r, UpdateMetadataRequest)] == [1] * 3


def test_older_protocol_versions_carry_neither_ids_nor_recovery_state() -> None:
    view = cluster()
    view.apply(LeadershipsRead({tp("t-0"): leadership(1, [1], recovery=1)}))
    batch = ControlBatch(view)
    add(batch, view, "t-0", 1)
    (now,) = of(send(batch), LeaderAndIsrRequest).values()
    (then,) = of(send(batch, topic_ids=False, leader_recovery_state=False), LeaderAndIsrRequest).values()
    assert now.topic_states[0].partition_states[0].leader_recovery_state == 1
    assert then.topic_states[0].partition_states[0].leader_recovery_state == 0
    assert then.topic_states[0].topic_id is None


def test_a_leader_without_the_listener_is_not_named() -> None:
    view = cluster()
    batch = ControlBatch(view)
    add(batch, view, "t-0", 1)
    (request,) = of(send(batch, inter_broker_listener="REPLICATION"), LeaderAndIsrRequest).values()
    assert request.live_leaders == ()


@pytest.mark.rule("RQ-6", "RQ-10", "RQ-12", "RQ-13")
def test_metadata_and_stops_say_whose_they_are_and_of_what() -> None:
    view = context([0, 2], {"t-0": [0, 2], "u-3": [2]}, {"t-0": leadership(0, [0, 2]), "u-3": leadership(2, [2])})
    batch = ControlBatch(view)
    batch.add_update_metadata(ids(0), [tp("u-3"), tp("t-0")])
    batch.add_stop_replica(BrokerId(0), tp("u-3"), delete=True)
    (_, metadata), (_, stop) = send(batch)
    assert isinstance(metadata, UpdateMetadataRequest)
    assert isinstance(stop, StopReplicaRequest)
    for request in (metadata, stop):
        assert (request.controller_id, request.controller_epoch, request.broker_epoch) == (ME, EPOCH, 100)
    states = [
        (t.topic_name, t.topic_id, [(s.partition_index, s.replicas) for s in t.partition_states])
        for t in metadata.topic_states
    ]
    assert states == [("u", "id-of-u", [(3, (2,))]), ("t", "id-of-t", [(0, (0, 2))])]
    (stopped,) = stop.partition_states
    assert (stopped.topic_name, stopped.partition_index, stopped.delete_partition) == ("u", 3, True)


@pytest.mark.rule("RA-18")
def test_an_announced_assignment_is_sent_although_the_context_does_not_have_it_yet() -> None:
    view = cluster()
    batch = ControlBatch(view, {tp("t-0"): assignment([2])})
    assert batch.assignment(tp("t-0")) == assignment([2])
    assert batch.assignment(tp("t-1")) == assignment([2, 9])
    batch.add_update_metadata_for_all([tp("t-0"), tp("t-1")])
    (topic,) = of(send(batch), UpdateMetadataRequest)[1].topic_states
    assert [state.replicas for state in topic.partition_states] == [(2,), (2, 9)]
    assert view.topics.assignment(tp("t-0")) == assignment([1, 2])


def test_every_request_of_a_batch_carries_its_causes() -> None:
    view = cluster()
    batch = ControlBatch(view)
    add(batch, view, "t-0", 1)
    batch.add_stop_replica(BrokerId(2), tp("t-1"), delete=False)
    causes = (RequestCause(ME, EPOCH, "BrokerChange", 3),)
    for expected in (causes, ()):
        requests = batch.requests(ME, RequestSettings(), expected)
        assert {type(request) for _, request in requests} == {
            LeaderAndIsrRequest,
            UpdateMetadataRequest,
            StopReplicaRequest,
        }
        assert [request.causes for _, request in requests] == [expected] * len(requests)
    assert {request.causes for _, request in batch.requests(ME, RequestSettings())} == {()}


@pytest.mark.rule("D-99")
def test_what_a_broker_still_has_of_deleted_topics_is_deleted_under_their_ids() -> None:
    view = cluster()
    former = TopicId("F" * 21 + "Q")
    view.apply(LeftReplicasRecorded({BrokerId(1): {"t": LeftReplicas(former, (0, 3))}}))
    batch = ControlBatch(view)
    batch.add_deletion_of_left_replicas(BrokerId(1))
    batch.add_deletion_of_left_replicas(BrokerId(2))
    ((broker, request),) = send(batch)
    assert (broker, type(request)) == (1, StopReplicaRequest)
    assert isinstance(request, StopReplicaRequest)
    stopped = [(s.topic_name, s.partition_index, s.leader_epoch, s.topic_id) for s in request.partition_states]
    assert stopped == [("t", 0, -2, former), ("t", 3, -2, former)]
    assert all(state.delete_partition for state in request.partition_states)


@pytest.mark.rule("D-102")
def test_metadata_of_topics_without_an_id_are_held_back_but_for_their_deletion() -> None:
    def named(view: ControllerContext) -> set[str]:
        batch = ControlBatch(view, withheld={"t"})
        batch.add_update_metadata(ids(1, 2, 3), [tp("t-0")])
        return {t.topic_name for _, r in send(batch) if isinstance(r, UpdateMetadataRequest) for t in r.topic_states}

    view = cluster()
    assert named(view) == set()
    view.apply(DeletionsQueued(("t",)))
    assert named(view) == {"t"}
