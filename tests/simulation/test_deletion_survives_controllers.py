"""A controller dies between any two writes of a topic deletion; the next one finishes it, in memory, files included."""

from collections.abc import Awaitable, Callable, Iterable

import pytest

from cluster.model.broker import BrokerId
from cluster.model.errors import ErrorCode
from cluster.model.partition import ReplicaAssignment, TopicAssignment
from cluster.requests.topics import (
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    NewTopic,
    TopicToDelete,
)
from cluster.znodes.configs import encode_config
from cluster.znodes.paths import LEFT_REPLICAS, delete_topic_path, topic_config_path, topic_path
from cluster.znodes.topics import encode_topic
from cluster.zookeeper.port import Create
from simulator.cluster import DEFAULT_SETTINGS, SimulatedCluster, simulate
from simulator.partition_znodes import partition_states
from simulator.zookeeper_client import SimulatedZooKeeperClient
from state_log.invariants import check_all
from tests.controllers.contexts import ids
from tests.controllers.controller_crashes import SAFETY_LIMIT, DyingController

DOOMED = ("a", "b")
KEPT = "kept"


class Deleting:
    """A cluster of three agents with three topics, two of which are to go while the controller dies."""

    def __init__(self, seed: int, grace_ms: int = 600_000) -> None:
        settings = DEFAULT_SETTINGS.model_copy(update={"klamm_delete_topic_absent_broker_grace_ms": grace_ms})
        self.cluster = SimulatedCluster(seed, controllers=2, brokers=3, settings=settings)
        self.tool = SimulatedZooKeeperClient(self.cluster.zookeeper, session_timeout_ms=600_000)
        self.tool.listen(lambda _: None)

    async def start(self) -> None:
        cluster = self.cluster
        await self.tool.start_session()
        cluster.start_all()
        await cluster.until(lambda: cluster.active_controller() is not None, "an active controller")
        await cluster.until(lambda: self.children("/brokers/ids") == {"1", "2", "3"}, "all agents registered")
        await self.create(*DOOMED, KEPT)
        await cluster.until(lambda: all(self.directories(b) == 6 for b in (1, 2, 3)), "every replica has its directory")

    async def create(self, *topics: str) -> None:
        replicas = {0: (BrokerId(1), BrokerId(2), BrokerId(3)), 1: (BrokerId(3), BrokerId(1), BrokerId(2))}
        answer = await self.ask(CreateTopicsRequest(tuple(NewTopic(t, assignments=replicas) for t in topics)))
        assert isinstance(answer, CreateTopicsResponse)
        assert {t.error_code for t in answer.topics} == {ErrorCode.NONE}, answer

    async def write_topics(self) -> None:
        """Create the doomed topics as a tool does it, which no dying controller has to answer."""
        replicas = {p: ReplicaAssignment(ids(*of)) for p, of in ((0, (1, 2, 3)), (1, (3, 1, 2)))}
        for topic in DOOMED:
            config, znode = encode_config({}), encode_topic(TopicAssignment(replicas))
            await self.tool.multi([Create(topic_config_path(topic), config), Create(topic_path(topic), znode)])

    async def ask(self, request: object) -> object:
        active = self.cluster.active_controller()
        assert active is not None
        return await self.cluster.network.call("client", active.address, request)

    async def mark(self) -> None:
        """As a tool does it."""
        await self.tool.multi([Create(delete_topic_path(topic)) for topic in DOOMED])

    async def fail(self, broker: int) -> None:
        self.cluster.agents[BrokerId(broker)].crash()
        await self.cluster.until(lambda: str(broker) not in self.children("/brokers/ids"), f"broker {broker} is gone")

    async def rise(self, broker: int) -> None:
        self.cluster.agents[BrokerId(broker)].start()

    def in_sync(self, broker: int) -> bool:
        """Whether the broker is in every ISR."""
        states = partition_states(self.cluster.zookeeper.tree)
        return bool(states) and all(broker in state.isr for state in states.values())

    def children(self, path: str) -> set[str]:
        return set(self.cluster.zookeeper.tree.children(path) or ())

    def directories(self, broker: int, topics: Iterable[str] = (*DOOMED, KEPT)) -> int:
        """How many log directories of the topics the broker has, renamed ones included."""
        names = self.cluster.agents[BrokerId(broker)].disk.list_directory("/data")
        return sum(any(name.startswith(f"{topic}-") for topic in topics) for name in names)

    async def come_to_rest(self, dying: DyingController | None = None) -> None:
        cluster = self.cluster
        paths = [path(topic) for topic in DOOMED for path in (topic_path, topic_config_path, delete_topic_path)]
        await cluster.until(lambda: not any(cluster.zookeeper.tree.get(p) for p in paths), "nothing in ZooKeeper")
        assert self.children("/brokers/topics") == self.children("/config/topics") == {KEPT}
        await cluster.until(
            lambda: all(self.directories(b, DOOMED) == 0 for b in (1, 2, 3)), "no directory left", timeout_s=120
        )
        assert all(self.directories(b) == 2 for b in (1, 2, 3))
        await cluster.until(lambda: cluster.active_controller() is not None, "an active controller")
        if dying is not None:
            dying.spare()
        assert not any(self.children(f"{LEFT_REPLICAS}/{broker}") for broker in (1, 2, 3))
        await self.create(*DOOMED)
        assert check_all(cluster.records()) == []


Story = Callable[[Deleting, int], Awaitable[DyingController]]


async def everybody_alive(deleting: Deleting, fatal_write: int) -> DyingController:
    await deleting.start()
    dying = DyingController(deleting.cluster, fatal_write)
    await deleting.mark()
    await deleting.come_to_rest(dying)
    return dying


async def a_replica_down(deleting: Deleting, fatal_write: int) -> DyingController:
    await deleting.start()
    await deleting.fail(3)
    dying = DyingController(deleting.cluster, fatal_write)
    await deleting.mark()
    await deleting.cluster.until(lambda: deleting.directories(1) == 2 or dying.died, "the living replicas", 120)
    await deleting.rise(3)
    await deleting.come_to_rest(dying)
    return dying


async def a_replica_dies(deleting: Deleting, fatal_write: int) -> DyingController:
    await deleting.start()
    dying = DyingController(deleting.cluster, fatal_write)
    deleting.cluster.agents[BrokerId(2)].crash()
    await deleting.mark()
    await deleting.cluster.until(lambda: "2" not in deleting.children("/brokers/ids"), "broker 2 is gone")
    await deleting.rise(2)
    await deleting.come_to_rest(dying)
    return dying


async def without_a_broker(deleting: Deleting, fatal_write: int) -> DyingController:
    """The topics are deleted and created again while a broker is away; the controller dies at any write of all this."""
    await deleting.start()
    await deleting.fail(3)
    dying = DyingController(deleting.cluster, fatal_write)
    await deleting.mark()
    cluster = deleting.cluster
    await cluster.until(lambda: deleting.children("/brokers/topics") == {KEPT}, "they are gone without broker 3")
    await cluster.until(lambda: not deleting.children("/admin/delete_topics"), "and so are the markers")
    await cluster.until(lambda: cluster.active_controller() is not None, "an active controller")
    await deleting.write_topics()
    await deleting.rise(3)
    await cluster.until(lambda: all(deleting.directories(b) == 6 for b in (1, 2, 3)), "new replicas everywhere", 120)
    await cluster.until(lambda: deleting.in_sync(3), "broker 3 is in sync", 120)
    await deleting.mark()
    await deleting.come_to_rest(dying)
    return dying


@pytest.mark.rule("D-98", "D-99", "D-100", "TD-28")
@pytest.mark.parametrize("grace_ms", [0, 2000])
def test_whenever_the_controller_dies_a_broker_that_is_back_deletes_the_old_and_gets_the_new(grace_ms: int) -> None:
    for fatal_write in range(SAFETY_LIMIT):
        dying = simulate(lambda: without_a_broker(Deleting(seed=1, grace_ms=grace_ms), fatal_write))  # noqa: B023
        if fatal_write and not dying.died:
            break
    assert fatal_write > 5, "the controller died several times"


@pytest.mark.rule("TD-15", "TD-28", "FO-7", "FO-8", "FO-13", "INV-9", "ZC-8")
@pytest.mark.parametrize("story", [everybody_alive, a_replica_down, a_replica_dies], ids=lambda s: s.__name__)
def test_whenever_the_controller_dies_the_next_one_finishes_the_deletion(story: Story) -> None:
    for fatal_write in range(SAFETY_LIMIT):
        dying = simulate(lambda: story(Deleting(seed=1), fatal_write))  # noqa: B023 (run at once)
        if fatal_write and not dying.died:
            break
    assert fatal_write > 5, "the controller died several times"


async def asked_for(deleting: Deleting) -> DeleteTopicsResponse:
    await deleting.start()
    answer = await deleting.ask(DeleteTopicsRequest(tuple(TopicToDelete(topic) for topic in DOOMED)))
    assert isinstance(answer, DeleteTopicsResponse)
    assert deleting.children("/brokers/topics") == {KEPT}, "the answer comes when the topics are gone"
    await deleting.come_to_rest()
    return answer


@pytest.mark.rule("TP-3", "TP-4")
def test_topics_deleted_through_the_api_are_gone_when_the_answer_comes() -> None:
    answer = simulate(lambda: asked_for(Deleting(seed=2)))
    assert {(r.name, r.error_code) for r in answer.responses} == {(topic, ErrorCode.NONE) for topic in DOOMED}
