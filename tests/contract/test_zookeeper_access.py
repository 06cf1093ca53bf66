"""ACLs: who may do what to znodes created with and without them, on the real server and on the in-memory one."""

import pytest

from cluster.model.errors import ZooKeeperAccessError
from cluster.zookeeper.port import ANY_VERSION, Check, Create, Delete, Op, SetData, ZkError, ZooKeeper
from tests.contract.zookeeper_worlds import World, create, eventually

pytestmark = pytest.mark.rule("ZK-6")

OK, UNDONE, NO_AUTH = ZkError.OK, ZkError.RUNTIME_INCONSISTENCY, ZkError.NO_AUTH


async def errors(client: ZooKeeper, *ops: Op) -> list[ZkError]:
    return [result.error for result in await client.multi(ops)]


def test_what_the_cluster_creates_others_may_read_but_not_change(world: World) -> None:
    async def test(world: World) -> None:
        owner, _ = await world.client(user="klamm", sets_acl=True)
        await create(owner, "/a", "/a/b", data=b"one")
        assert await errors(owner, Create("/a/e", ephemeral=True), Create("/a/s_", sequential=True)) == [OK, OK]
        for user in (None, "other"):
            other, _ = await world.client(user=user)
            assert (await other.get_many(["/a", "/a/b"]))[1] == await owner.get("/a/b")
            assert await other.children("/a") == ("b", "e", "s_0000000002")
            assert await errors(other, Check("/a", 0)) == [OK]
            for op in (
                SetData("/a", b"two"),
                SetData("/a", b"two", version=7),
                SetData("/a/e", b"two"),
                Create("/a/c"),
                Create("/a/b"),
                Create("/a/s_", sequential=True),
                Delete("/a/b"),
                Delete("/a/b", version=7),
                Delete("/a/e"),
            ):
                assert await errors(other, op) == [NO_AUTH], op
            # As a part of a transaction it undoes the rest.
            assert await errors(other, Check("/a", 0), SetData("/a", b"two")) == [UNDONE, NO_AUTH]
        znode = await owner.get("/a")
        assert znode is not None
        assert (znode.data, znode.stat.version) == (b"one", 0)

    world.run(test)


def test_another_session_of_the_same_user_may_do_everything(world: World) -> None:
    async def test(world: World) -> None:
        first, _ = await world.client(user="klamm", sets_acl=True)
        await create(first, "/a", "/config", "/config/users", data=b"one")
        assert await errors(first, Create("/a/e", ephemeral=True)) == [OK]
        second, _ = await world.client(user="klamm")
        assert await errors(second, SetData("/config/users", b"two"), Create("/a/c"), Delete("/a/e")) == [OK, OK, OK]
        assert await second.get("/config/users") is not None

    world.run(test)


def test_secrets_are_not_read_by_others(world: World) -> None:
    async def test(world: World) -> None:
        owner, _ = await world.client(user="klamm", sets_acl=True)
        await create(owner, "/config", "/config/users", "/config/users/alice", data=b"secret")
        other, _ = await world.client()
        assert await other.children("/config") == ("users",)
        for watch in (False, True):
            with pytest.raises(ZooKeeperAccessError, match="^/config/users/alice cannot be read"):
                await other.exists("/config/users/alice", watch=watch)
            with pytest.raises(ZooKeeperAccessError, match="^/config/users/alice cannot be read: NO_AUTH"):
                await other.get("/config/users/alice", watch=watch)
            with pytest.raises(ZooKeeperAccessError, match="^/config/users cannot be read"):
                await other.children("/config/users", watch=watch)
            with pytest.raises(ZooKeeperAccessError, match="^/config/users cannot be read"):
                await other.get_many(["/config", "/none", "/config/users"], watch=watch)
        with pytest.raises(ZooKeeperAccessError, match="^/config/users cannot be read"):
            await other.children_many(["/config", "/config/users"])
        assert await errors(other, Check("/config/users", 0)) == [NO_AUTH]
        assert (await owner.get_many(["/config/users/alice"]))[0] == await owner.get("/config/users/alice")
        # A refusal costs nothing but itself.
        assert await other.get("/config") is not None

    world.run(test)


def test_nobody_fills_the_disk_below_consumers(world: World) -> None:
    async def test(world: World) -> None:
        owner, _ = await world.client(user="klamm", sets_acl=True)
        await create(owner, "/consumers")
        other, _ = await world.client()
        assert await errors(other, Create("/consumers/group", b"mine")) == [NO_AUTH]
        assert await errors(other, SetData("/consumers", b"x")) == [NO_AUTH]

    world.run(test)


def test_a_user_who_sets_no_access_lists_leaves_nodes_open(world: World) -> None:
    async def test(world: World) -> None:
        user, _ = await world.client(user="klamm")
        await create(user, "/a", "/config", "/config/users", data=b"one")
        other, _ = await world.client()
        assert await errors(other, SetData("/config/users", b"two"), Create("/a/b"), Delete("/a/b")) == [OK, OK, OK]

    world.run(test)


def test_nobody_cannot_own_a_node(world: World) -> None:
    async def test(world: World) -> None:
        nobody, _ = await world.client(chroot="/", sets_acl=True)
        name = f"{world.chroot}-nobody"
        assert await errors(nobody, Create(name)) == [ZkError.INVALID_ACL]
        assert await errors(nobody, Create(f"{name}/below")) == [ZkError.INVALID_ACL]
        assert await errors(nobody, Create("/consumers-of-nobody/c", ephemeral=True)) == [ZkError.INVALID_ACL]
        assert await nobody.exists(name) is None

    world.run(test)


def test_znodes_that_everyone_may_change_are_named(world: World) -> None:
    async def test(world: World) -> None:
        owner, _ = await world.client(user="klamm", sets_acl=True)
        await create(owner, "/config", "/config/users", "/consumers")
        stray, _ = await world.client(user="klamm")
        await create(stray, "/config/topics")
        paths = ["/config", "/config/users", "/consumers", "/config/topics", "/nothing"]
        assert await owner.open_to_everyone(paths) == [False, False, False, True, False]
        other, _ = await world.client()
        assert (await other.open_to_everyone(paths))[2:] == [False, True, False]
        assert await owner.open_to_everyone([]) == []

    world.run(test)


def test_who_may_not_create_a_chroot_may_use_it(world: World) -> None:
    async def test(world: World) -> None:
        owner, _ = await world.client(user="klamm", sets_acl=True)
        await create(owner, "/inner", data=b"one")
        other, _ = await world.client(chroot=f"{world.chroot}/inner")
        assert await other.children("/") == ()

    world.run(test)


def test_the_user_is_proven_again_on_every_new_connection_and_session(world: World) -> None:
    async def test(world: World) -> None:
        owner, events = await world.client(user="klamm", sets_acl=True)
        await create(owner, "/config", "/config/users", "/config/users/alice", data=b"secret")
        await world.disconnect(owner, 0.2)
        assert await owner.get("/config/users/alice") is not None
        assert await errors(owner, SetData("/config/users/alice", b"more", version=0)) == [OK]
        await world.expire(owner)
        await eventually(lambda: events.states[-1].value == "expired")
        await owner.start_session()
        assert await errors(owner, SetData("/config/users/alice", b"most", version=1)) == [OK]
        assert await errors(owner, Delete("/config/users/alice", ANY_VERSION)) == [OK]

    world.run(test)
