"""Rules in ZooKeeper: read before anything is judged, followed by notices, and kept while ZooKeeper is away."""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from random import Random

from cluster.security.acl_znodes import changes_of, encode_notice, encode_rules, path_of
from cluster.security.acls import AccessRule, Authorizer, Operation, Pattern, PatternType, ResourceType
from cluster.security.principals import Principal
from cluster.zookeeper.access_rules import AccessRules, access_list_paths
from cluster.zookeeper.port import Create, Delete, Op, SetData
from simulator.cluster import VirtualClock
from simulator.virtual_time_loop import VirtualTimeLoop
from simulator.zookeeper import SimulatedZooKeeper
from simulator.zookeeper_client import SimulatedZooKeeperClient

ALICE, BOB = Principal("User", "alice"), Principal("User", "bob")
ORDERS = Pattern(ResourceType.TOPIC, "orders")
PAYMENTS = Pattern(ResourceType.TOPIC, "pay", PatternType.PREFIXED)
MINUTE_S = 60


class Followed:
    """A process that follows the rules, and a tool that writes them."""

    def __init__(self) -> None:
        self.server = SimulatedZooKeeper(Random(1))
        self.client = SimulatedZooKeeperClient(self.server)
        self.rules = AccessRules(self.client, VirtualClock(), partial(Authorizer))
        self.tool = SimulatedZooKeeperClient(self.server)

    async def write(self, *ops: Op) -> None:
        results = await self.tool.multi(ops)
        assert all(result.ok for result in results), results

    async def put(self, pattern: Pattern, *principals: Principal) -> None:
        """As kafka-acls does: the znode, and a notice."""
        data = encode_rules(AccessRule(principal, Operation.READ) for principal in principals)
        znode = await self.tool.exists(path_of(pattern))
        await self.write(Create(path_of(pattern), data) if znode is None else SetData(path_of(pattern), data))
        await self.announce(pattern)

    async def announce(self, pattern: Pattern, data: bytes | None = None) -> None:
        notice = encode_notice(pattern) if data is None else data
        await self.write(Create(f"{changes_of(pattern.type)}/acl_changes_", notice, sequential=True))

    def may_read(self, principal: Principal = ALICE, topic: str = "orders") -> bool:
        return self.rules.authorizer.allows(principal, "10.0.0.1", Operation.READ, ResourceType.TOPIC, topic)


def run(scenario: Callable[[Followed], Awaitable[None]], *before: Op) -> None:
    async def main() -> None:
        followed = Followed()
        followed.tool.listen(lambda _: None)
        await followed.tool.start_session()
        if before:
            await followed.write(*map(Create, access_list_paths()))
            await followed.write(*before)
        await followed.rules.load()
        following = asyncio.ensure_future(followed.rules.run())
        await asyncio.sleep(0.1)
        await scenario(followed)
        following.cancel()
        await asyncio.wait([following])

    VirtualTimeLoop(max_steps=200_000).run_until_complete(main())


def stored(pattern: Pattern, principal: Principal = ALICE) -> Create:
    return Create(path_of(pattern), encode_rules([AccessRule(principal, Operation.READ)]))


def test_the_paths_are_those_of_kafkas_brokers() -> None:
    paths = access_list_paths()
    assert paths[0] == "/kafka-acl-extended"
    assert {"/kafka-acl/Topic", "/kafka-acl-extended/prefixed/Group", "/kafka-acl-changes"} <= set(paths)
    assert len(paths) == len(set(paths)) == 17


def test_rules_are_known_once_they_are_loaded() -> None:
    async def scenario(followed: Followed) -> None:
        assert followed.may_read()
        assert followed.may_read(BOB, "payments")
        assert not followed.may_read(BOB)
        assert followed.rules.stale_ms == 0

    run(scenario, stored(ORDERS), stored(PAYMENTS, BOB))


def test_changes_are_taken_when_they_are_announced_and_not_before() -> None:
    async def scenario(followed: Followed) -> None:
        await followed.write(stored(ORDERS))
        await asyncio.sleep(5)
        assert not followed.may_read()
        await followed.announce(ORDERS)
        await followed.put(PAYMENTS, BOB)
        await asyncio.sleep(1)
        assert followed.may_read()
        assert followed.may_read(BOB, "payments")
        await followed.write(Delete(path_of(ORDERS)))
        await followed.put(PAYMENTS, ALICE)
        await followed.announce(ORDERS)
        await asyncio.sleep(1)
        assert not followed.may_read()
        assert not followed.may_read(BOB, "payments")
        assert followed.may_read(ALICE, "payments")

    run(scenario)


def test_without_zookeeper_the_last_known_rules_hold_and_their_age_is_known() -> None:
    async def scenario(followed: Followed) -> None:
        followed.server.is_reachable = False
        followed.client.expire()
        await asyncio.sleep(90)
        assert followed.may_read()
        assert 85_000 <= followed.rules.stale_ms <= 90_000
        followed.server.is_reachable = True
        await asyncio.sleep(30)
        assert followed.rules.stale_ms == 0

    run(scenario, stored(ORDERS))


def test_what_changed_during_another_session_is_read_again() -> None:
    async def scenario(followed: Followed) -> None:
        followed.client.expire()
        await followed.write(Delete(path_of(ORDERS)))
        await followed.put(PAYMENTS, BOB)
        await asyncio.sleep(30)
        assert not followed.may_read()
        assert followed.may_read(BOB, "payments")

    run(scenario, stored(ORDERS))


def test_a_connection_that_comes_back_within_the_session_has_missed_nothing() -> None:
    async def scenario(followed: Followed) -> None:
        followed.client.disconnect(3)
        await asyncio.sleep(1)
        assert followed.rules.stale_ms > 0
        await followed.put(PAYMENTS, BOB)
        await asyncio.sleep(5)
        assert followed.rules.stale_ms == 0
        assert followed.may_read(BOB, "payments")

    run(scenario)


def test_malformed_znodes_and_notices_are_what_they_are_to_kafka() -> None:
    async def scenario(followed: Followed) -> None:
        # Malformed: no rules. Of another version: those that were known. Entries that are unknown: inert.
        await followed.write(SetData(path_of(ORDERS), b'{"version":2,"acls":[]}'))
        await followed.announce(ORDERS)
        await followed.write(SetData(path_of(PAYMENTS), b"no json"))
        await followed.announce(PAYMENTS)
        await followed.announce(ORDERS, b"TOPIC")
        await followed.announce(PAYMENTS, b'{"version":1,"resourceType":"TOPIC","name":"a/b","patternType":"PREFIXED"}')
        await asyncio.sleep(1)
        assert followed.may_read()
        assert not followed.may_read(BOB, "payments")
        assert [path for path, _ in sorted(followed.rules.problems.items())] == [path_of(PAYMENTS), path_of(ORDERS)]
        await followed.put(ORDERS, BOB)
        await asyncio.sleep(1)
        assert followed.may_read(BOB)
        assert not followed.may_read()
        assert followed.rules.problems.keys() == {path_of(PAYMENTS)}

    run(scenario, stored(ORDERS), stored(PAYMENTS, BOB))


def test_of_a_version_that_was_never_known_nobody_may_do_anything() -> None:
    async def scenario(followed: Followed) -> None:
        unlisted = Authorizer(followed.rules.authorizer.rules, allow_unlisted=True)
        assert not unlisted.allows(ALICE, "10.0.0.1", Operation.READ, ResourceType.TOPIC, "orders")
        assert followed.rules.problems.keys() == {path_of(ORDERS)}

    run(scenario, Create(path_of(ORDERS), b'{"version":2}'))


def test_notices_are_removed_after_a_quarter_of_an_hour() -> None:
    async def scenario(followed: Followed) -> None:
        await followed.put(ORDERS, ALICE)
        await asyncio.sleep(14 * MINUTE_S)
        await followed.put(ORDERS, BOB)
        await asyncio.sleep(2 * MINUTE_S)
        await followed.put(ORDERS, ALICE)
        await asyncio.sleep(1)
        assert len(followed.server.tree.children(changes_of(PatternType.LITERAL)) or ()) == 2
        assert followed.may_read()

    run(scenario)
