"""What led to a change: named in the requests to brokers, and on the controller's records with the call that asked."""

from cluster.model.broker import BrokerId, ControllerEpoch, ControllerId
from cluster.requests.agents import AlterPartitionItem, AlterPartitionRequest
from cluster.requests.context import RequestContext
from cluster.requests.control import LeaderAndIsrRequest, RequestCause, StopReplicaRequest, UpdateMetadataRequest
from cluster.requests.elections import PREFERRED, ElectLeadersRequest, ElectLeadersTopic
from cluster.requests.topics import (
    CreatePartitionsRequest,
    CreateTopicsRequest,
    DeleteTopicsRequest,
    NewPartitions,
    NewTopic,
    TopicToDelete,
)
from cluster.znodes.paths import topic_path
from state_log.record import Kind, StateChange
from tests.controllers.elections import cluster, restart_broker, stop_broker
from tests.controllers.worlds import RunningController, World, quiesce, run_virtually, until

CALL = RequestContext(peer="ipv4:127.0.0.1:5555", principal="User:operator", request_id="r-1")


def named(change: StateChange) -> tuple[str | None, str | None, str | None]:
    return change.request_id, change.principal, change.peer


def cause_in_request(c: RunningController, change: StateChange) -> tuple[RequestCause, ...]:
    assert change.cause is not None
    assert change.cause.controller is None
    return (RequestCause(ControllerId(c.controller.config.id), c.context.epoch, change.cause.event, change.cause.id),)


async def delete_tree(world: World, path: str) -> None:
    for child in await world.tool.children(path) or ():
        await delete_tree(world, f"{path}/{child}")
    await world.delete(path)


def test_the_answer_to_a_leader_names_the_event_in_which_its_isr_was_written() -> None:
    async def main() -> None:
        world, c = await cluster(1, 2)
        await world.create_topic("t", [1, 2])
        state = await world.leads("t", leader=1)
        await quiesce()
        already = len(c.sink.changes)
        epochs = state.leader_epoch, (BrokerId(1),), state.partition_epoch
        request = AlterPartitionRequest(
            BrokerId(1), await world.broker_epoch(1), (AlterPartitionItem("t", None, 0, *epochs),)
        )
        answer = await c.ask(request)
        (written,) = c.sink.changes[already:]
        assert (answer.cause,) == cause_in_request(c, written)
        assert answer.cause.event == "AlterPartitionReceived"
        again = await c.ask(request)
        assert again.partitions == answer.partitions
        assert again.cause is None  # That event wrote nothing.
        await c.stop()

    run_virtually(main)


def test_an_election_on_request_names_the_call_and_its_requests_name_the_event() -> None:
    async def main() -> None:
        world, c = await cluster(1, 2)
        await world.create_topic("t", [1, 2])
        await quiesce()
        await restart_broker(world, c, 1)
        c.brokers.received.clear()
        already = len(c.sink.changes)
        topics = (ElectLeadersTopic("t", (0,)),)
        await c.node.handle(CALL, ElectLeadersRequest(PREFERRED, topics, 5000, False))
        (elected,) = c.sink.changes[already:]
        assert elected.cause is not None
        assert (elected.cause.event, elected.leader) == ("ElectLeadersReceived", 1)
        assert named(elected) == ("r-1", "User:operator", "ipv4:127.0.0.1:5555")
        sent = [request for _, request in c.brokers.received]
        assert {type(request) for request in sent} == {LeaderAndIsrRequest, UpdateMetadataRequest}
        assert {request.causes for request in sent} == {cause_in_request(c, elected)}
        await c.stop()

    run_virtually(main)


def test_a_change_that_nobody_asked_for_names_no_call() -> None:
    async def main() -> None:
        world, c = await cluster(1, 2)
        await world.create_topic("t", [1, 2])
        await quiesce()
        topics = (ElectLeadersTopic("t", (0,)),)
        await c.node.handle(CALL, ElectLeadersRequest(PREFERRED, topics, 5000, False))
        already = len(c.sink.changes)
        c.brokers.received.clear()
        await stop_broker(world, c, 1)
        await quiesce()
        seen = c.sink.changes[already:]
        assert {change.cause.event for change in seen if change.cause is not None} == {"BrokerChange"}
        assert {named(change) for change in seen} == {(None, None, None)}
        assert {request.causes for _, request in c.brokers.received} == {cause_in_request(c, seen[0])}
        await c.stop()

    run_virtually(main)


def test_the_deletion_of_a_topic_is_recorded_from_its_start_to_its_end() -> None:
    async def main() -> None:
        world, c = await cluster(1, 2)
        await world.create_topic("t", [1, 2])
        await quiesce()
        c.brokers.received.clear()
        topic_id = c.context.topics.ids.get("t")
        await c.node.handle(CALL, DeleteTopicsRequest((TopicToDelete("t"),), 5000))
        await until(lambda: "t" not in c.context.topics.names)
        deletions = c.sink.of(Kind.DELETION)
        assert [(change.topic, change.topic_id, change.to_state) for change in deletions] == [
            ("t", topic_id, "started"),
            ("t", topic_id, "completed"),
        ]
        stops = [request for _, request in c.brokers.received if isinstance(request, StopReplicaRequest)]
        assert {request.causes for request in stops} == {cause_in_request(c, deletions[0])}
        assert c.context.epoch == ControllerEpoch(1)
        await c.stop()

    run_virtually(main)


def test_the_end_of_an_epoch_names_what_ended_it() -> None:
    async def main() -> None:
        world, c = await cluster(1)
        await world.create_topic("t", [1])
        await quiesce()
        await c.node.handle(CALL, ElectLeadersRequest(PREFERRED, (ElectLeadersTopic("t", (0,)),), 5000, False))
        c.zookeeper.expire()
        await until(lambda: any(r.to_state == "resigned" for r in c.sink.of(Kind.CONTROLLER)))
        resigned = next(r for r in c.sink.of(Kind.CONTROLLER) if r.to_state == "resigned")
        assert resigned.cause is not None
        assert (resigned.cause.event, named(resigned)) == ("Expire", (None, None, None))
        await c.stop()

    run_virtually(main)


def test_records_of_topics_created_expanded_and_deleted_on_request_name_each_call() -> None:
    async def main() -> None:
        world, c = await cluster(1, 2)
        await quiesce()
        user, peer = "User:dev", "ipv4:127.0.0.1:6666"
        calls = {request_id: RequestContext(peer, user, request_id=request_id) for request_id in ("c1", "c2", "x", "d")}
        already = len(c.sink.changes)
        for topic, id_ in (("t", "c1"), ("u", "c2")):
            new = NewTopic(topic, num_partitions=1, replication_factor=2)
            await c.node.handle(calls[id_], CreateTopicsRequest((new,), 5000))
        await world.create_topic("by-a-tool", [1, 2])
        await quiesce()
        await c.node.handle(calls["x"], CreatePartitionsRequest((NewPartitions("t", 2),), 5000))
        await quiesce()
        await c.node.handle(calls["d"], DeleteTopicsRequest((TopicToDelete("t"),), 5000))
        await until(lambda: "t" not in c.context.topics.names)
        of_topic = {
            topic: [r for r in c.sink.changes[already:] if r.topic == topic] for topic in ("t", "u", "by-a-tool")
        }
        assert {r.request_id for r in of_topic["t"] if r.cause and r.cause.event == "TopicChange"} == {"c1"}
        assert {r.request_id for r in of_topic["t"] if r.cause and r.cause.event == "PartitionModifications"} == {"x"}
        assert {r.request_id for r in of_topic["t"] if r.kind is Kind.DELETION} == {"d"}
        assert {r.request_id for r in of_topic["t"]} == {"c1", "x", "d"}
        assert {named(r) for r in of_topic["u"]} == {("c2", user, peer)}
        assert {named(r) for r in of_topic["by-a-tool"]} == {(None, None, None)}
        await c.stop()

    run_virtually(main)


def test_a_call_is_not_named_by_records_of_other_events_or_after_it_is_done() -> None:
    async def main() -> None:
        world, c = await cluster(1, 2)
        new = NewTopic("t", num_partitions=1, replication_factor=2)
        await c.node.handle(CALL, CreateTopicsRequest((new,), 5000))
        await quiesce()
        already = len(c.sink.changes)
        await stop_broker(world, c, 1)
        await delete_tree(world, topic_path("t"))
        await quiesce()
        later = c.sink.changes[already:]
        assert {r.cause.event for r in later if r.cause is not None} == {"BrokerChange", "TopicChange"}
        assert {named(r) for r in later} == {(None, None, None)}
        await c.stop()

    run_virtually(main)
