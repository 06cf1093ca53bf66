"""Users whom the znodes of Kafka have, as a process follows them."""

from structlog.testing import capture_logs

from cluster.config.scram_users import ScramUsers
from cluster.model.errors import ZooKeeperAccessError
from cluster.znodes.configs import ConfigEntity, encode_config
from cluster.zookeeper.port import Create, Delete, SetData
from simulator.zookeeper_client import SimulatedZooKeeperClient
from tests.brokers.agents import AgentWorld, connect, virtually
from tests.unit.cluster.sasl.test_scram import OF_KAFKA

BOTH = ("SCRAM-SHA-256", "SCRAM-SHA-512")


class Followed:
    """A process that follows users, and the tool that writes them."""

    def __init__(self, zookeeper: SimulatedZooKeeperClient) -> None:
        self.zookeeper, self.removed = zookeeper, list[str]()
        self.users = ScramUsers(is_needed=True, on_removal=self.removed.append)

    async def set(self, name: str, content: bytes) -> None:
        path = f"/config/users/{name}"
        exists = await self.zookeeper.get(path) is not None
        (result,) = await self.zookeeper.multi([SetData(path, content) if exists else Create(path, content)])
        assert result.ok

    async def changed(self, *names: str) -> None:
        entities = [ConfigEntity("users", name) for name in names]
        await self.users.take_over(self.zookeeper, entities, is_new_session=False)

    async def begin_session(self) -> None:
        await self.users.take_over(self.zookeeper, [], is_new_session=True)

    def mechanisms(self, user: str) -> list[str]:
        return [name for name in BOTH if self.users.credential(name, user) is not None]


async def followed() -> Followed:
    return Followed(await connect(AgentWorld().zookeeper))


@virtually
async def test_all_users_are_read_at_first_and_the_changed_ones_later() -> None:
    process = await followed()
    await process.set("alice", encode_config(OF_KAFKA))
    await process.set("a%2Cb%3D", encode_config(OF_KAFKA))
    await process.set("<default>", encode_config(OF_KAFKA))
    assert not process.users.is_loaded
    await process.begin_session()
    assert process.users.is_loaded
    assert [process.mechanisms(user) for user in ("alice", "a,b=", "<default>", "bob")] == [[*BOTH], [*BOTH], [], []]
    await process.set("alice", encode_config({"SCRAM-SHA-512": OF_KAFKA["SCRAM-SHA-512"], "producer_byte_rate": "1"}))
    await process.set("bob", encode_config(OF_KAFKA))
    assert process.mechanisms("bob") == []
    await process.changed("alice", "bob", "alice/clients/app")
    assert (process.mechanisms("alice"), process.mechanisms("bob")) == (["SCRAM-SHA-512"], [*BOTH])
    assert process.removed == []


@virtually
async def test_a_user_without_credentials_is_removed_also_while_there_was_no_session() -> None:
    process = await followed()
    for name in ("alice", "bob"):
        await process.set(name, encode_config(OF_KAFKA))
    await process.begin_session()
    await process.set("alice", encode_config({"producer_byte_rate": "1"}))
    await process.changed("alice")
    await process.zookeeper.multi([Delete("/config/users/bob")])
    await process.begin_session()
    assert process.removed == ["alice", "bob"]
    assert process.mechanisms("bob") == []


@virtually
async def test_a_malformed_znode_changes_nothing_and_a_credential_that_cannot_be_used_is_named() -> None:
    process = await followed()
    await process.set("alice", encode_config(OF_KAFKA))
    await process.begin_session()
    await process.set("alice", b"{")
    await process.changed("alice")
    assert process.mechanisms("alice") == [*BOTH]
    weak = {**OF_KAFKA, "SCRAM-SHA-256": OF_KAFKA["SCRAM-SHA-256"].replace("8192", "100")}
    await process.set("alice", encode_config(weak))
    with capture_logs() as logs:
        await process.changed("alice")
    assert process.mechanisms("alice") == ["SCRAM-SHA-512"]
    (line,) = logs
    assert line["why"] == "100 iterations; must be 4096 to 16384"
    assert "stored_key" not in str(line)


@virtually
async def test_a_process_whose_listeners_have_no_scram_reads_no_users() -> None:
    process = await followed()
    process.users = ScramUsers()
    await process.set("alice", encode_config(OF_KAFKA))
    await process.begin_session()
    assert process.mechanisms("alice") == []


@virtually
async def test_users_whom_zookeeper_does_not_show_keep_nothing_else_from_being_read() -> None:
    process = await followed()

    async def refuse(_path: str) -> None:
        raise ZooKeeperAccessError("/config/users: not permitted")

    process.zookeeper.children = refuse  # type: ignore[method-assign, assignment]
    with capture_logs() as logs:
        await process.begin_session()
    assert not process.users.is_loaded
    assert "none with SCRAM can authenticate" in logs[0]["event"]
