"""Access control lists as Kafka's brokers and tools read them: written with their notice, or not at all."""

from typing import Any

import structlog
from msgspec.structs import replace

from cluster.model.errors import ErrorCode
from cluster.requests import acls
from cluster.requests.context import RequestContext
from cluster.security.acl_numbers import ANY
from cluster.security.acl_znodes import changes_of, decode_notice, decode_rules, encode_rules, path_of
from cluster.security.acls import AccessRule, Operation, Pattern, PatternType, ResourceType
from cluster.security.identities import Identity
from cluster.security.principals import Principal
from cluster.zookeeper.port import Create, SetData
from controller.fenced_writes import FencedWriter
from state_log.record import Kind
from tests.controllers.worlds import RunningController, World, run_virtually, running_cluster

ALICE, BOB, ADMIN = (Principal("User", name) for name in ("alice", "bob", "admin"))
ORDERS, PAYMENTS = Pattern(ResourceType.TOPIC, "orders"), Pattern(ResourceType.TOPIC, "pay", PatternType.PREFIXED)
READ_ORDERS = acls.AclCreation(2, "orders", "User:alice", "*", 3, 3)
WRITE_PAYMENTS = acls.AclCreation(2, "pay", "User:bob", "10.0.0.1", 4, 3, 4)
EVERYTHING = acls.DeleteAclsFilter(ANY, ANY, ANY, ANY)


async def _create(c: RunningController, *creations: acls.AclCreation) -> list[tuple[ErrorCode, str | None]]:
    response = await c.ask(acls.CreateAclsRequest(creations))
    return [(result.error_code, result.error_message) for result in response.results]


def _stored(world: World, pattern: Pattern) -> frozenset[AccessRule] | None:
    znode = world.server.tree.get(path_of(pattern))
    return None if znode is None else decode_rules(znode.data).rules


async def _notices(world: World, kind: PatternType) -> list[Pattern]:
    names = sorted(await world.tool.children(changes_of(kind)) or ())
    found = await world.tool.get_many([f"{changes_of(kind)}/{name}" for name in names])
    return [decode_notice(kind, znode.data) for znode in found if znode is not None]


DONE = (ErrorCode.NONE, None)


def test_rules_are_written_with_their_notices_described_and_deleted() -> None:
    async def main() -> None:
        world, c = await running_cluster(1)
        again = replace(READ_ORDERS, operation=8)
        assert await _create(c, READ_ORDERS, WRITE_PAYMENTS, again) == [DONE] * 3
        both = {AccessRule(ALICE, Operation.READ), AccessRule(ALICE, Operation.DESCRIBE)}
        assert _stored(world, ORDERS) == both
        assert _stored(world, PAYMENTS) == {AccessRule(BOB, Operation.WRITE, host="10.0.0.1")}
        assert await _notices(world, PatternType.LITERAL) == [ORDERS]
        assert await _notices(world, PatternType.PREFIXED) == [PAYMENTS]
        # What is there already is not written again.
        assert await _create(c, READ_ORDERS) == [DONE]
        assert len(await _notices(world, PatternType.LITERAL)) == 1
        described = await c.ask(acls.DescribeAclsRequest(ANY, ANY, ANY, ANY))
        assert [(r.resource_name, len(r.acls)) for r in described.resources] == [("orders", 2), ("pay", 1)]
        deleted = await c.ask(
            acls.DeleteAclsRequest((replace(EVERYTHING, operation=3), replace(EVERYTHING, operation=4)))
        )
        assert [[m.resource_name for m in r.matching_acls] for r in deleted.filter_results] == [["orders"], ["pay"]]
        assert _stored(world, ORDERS) == {AccessRule(ALICE, Operation.DESCRIBE)}
        assert _stored(world, PAYMENTS) is None, "a list without rules is deleted, as by Kafka"
        assert len(await _notices(world, PatternType.PREFIXED)) == 2
        await c.stop()

    run_virtually(main)


def test_each_rule_that_is_added_or_removed_is_recorded_with_who_asked_for_it() -> None:
    async def main() -> None:
        world, c = await running_cluster(1)
        await world.create_topic("orders", [1])
        await world.leads("orders", leader=1)
        c.sink.changes.clear()
        every = replace(READ_ORDERS, resource_name="*")
        admin = RequestContext(
            principal="User:admin", request_id="r1", peer="ipv4:10.0.0.9:1", identity=Identity(ADMIN)
        )
        creation = acls.CreateAclsRequest((READ_ORDERS, WRITE_PAYMENTS, every, replace(READ_ORDERS, principal="bad")))
        await c.node.handle(admin, creation)
        again, later = (replace(admin, request_id=name) for name in ("r2", "r3"))
        await c.node.handle(again, acls.CreateAclsRequest((READ_ORDERS,)))
        await c.node.handle(later, acls.DeleteAclsRequest((replace(EVERYTHING, operation=3),)))
        records = [record for record in c.sink.changes if record.kind is Kind.ACCESS_RULE]
        assert [(r.to_state, r.resource, r.reason, r.topic) for r in records] == [
            ("added", "Topic:LITERAL:orders", "Allow Read by User:alice from *", "orders"),
            ("added", "Topic:PREFIXED:pay", "Allow Write by User:bob from 10.0.0.1", None),
            ("added", "Topic:LITERAL:*", "Allow Read by User:alice from *", None),
            ("removed", "Topic:LITERAL:*", "Allow Read by User:alice from *", None),
            ("removed", "Topic:LITERAL:orders", "Allow Read by User:alice from *", "orders"),
        ]
        assert {(r.principal, r.peer) for r in records} == {("User:admin", "ipv4:10.0.0.9:1")}
        assert records[0].request_id == "r1"
        assert records[0].topic_id is not None
        assert records[0].cause is not None
        assert records[0].cause.event == "CreateAclsReceived"
        await c.stop()

    run_virtually(main)


def test_one_bad_rule_does_not_keep_others_from_being_written() -> None:
    async def main() -> None:
        world, c = await running_cluster(1)
        codes = await _create(c, replace(READ_ORDERS, principal="alice"), READ_ORDERS)
        assert [code for code, _ in codes] == [ErrorCode.INVALID_REQUEST, ErrorCode.NONE]
        assert _stored(world, ORDERS) == {AccessRule(ALICE, Operation.READ)}
        bad = acls.DeleteAclsRequest((replace(EVERYTHING, operation=99), EVERYTHING))
        results = (await c.ask(bad)).filter_results
        assert [result.error_code for result in results] == [ErrorCode.INVALID_REQUEST, ErrorCode.NONE]
        assert _stored(world, ORDERS) is None
        await c.stop()

    run_virtually(main)


def test_what_another_tool_writes_at_the_same_time_is_kept() -> None:
    async def main() -> None:
        world, c = await running_cluster(1)
        await _create(c, READ_ORDERS)
        write = FencedWriter.write
        raced: list[bool] = []

        async def beaten(self: FencedWriter, units: Any) -> Any:
            if not raced and any(path_of(ORDERS) == op.path for unit in units for op in unit):
                raced.append(True)
                both = encode_rules([AccessRule(ALICE, Operation.READ), AccessRule(BOB, Operation.READ)])
                await world.tool.multi([SetData(path_of(ORDERS), both)])
            return await write(self, units)

        FencedWriter.write = beaten  # type: ignore[method-assign]
        try:
            assert await _create(c, replace(READ_ORDERS, operation=8)) == [DONE]
        finally:
            FencedWriter.write = write  # type: ignore[method-assign]
        assert raced
        assert _stored(world, ORDERS) == {
            AccessRule(ALICE, Operation.READ),
            AccessRule(BOB, Operation.READ),
            AccessRule(ALICE, Operation.DESCRIBE),
        }
        await c.stop()

    run_virtually(main)


def test_a_list_of_an_unknown_version_is_left_as_it_is() -> None:
    async def main() -> None:
        world, c = await running_cluster(1)
        await _create(c, READ_ORDERS)
        newer = b'{"version":2,"acls":[]}'
        await world.tool.multi([SetData(path_of(ORDERS), newer)])
        ((code, message),) = await _create(c, READ_ORDERS)
        assert code is ErrorCode.UNKNOWN_SERVER_ERROR
        assert message == "Topic orders: version 2: only 1 is known: it is left as it is"
        znode = world.server.tree.get(path_of(ORDERS))
        assert znode is not None
        assert znode.data == newer
        await c.stop()

    run_virtually(main)


def test_every_change_stands_in_the_log_of_the_authorizer_with_its_author() -> None:
    async def main() -> None:
        _, c = await running_cluster(1)
        admin = RequestContext(identity=Identity(ADMIN, "10.0.0.9"))
        with structlog.testing.capture_logs() as lines:
            await c.node.handle(admin, acls.CreateAclsRequest((READ_ORDERS,)))
            await c.node.handle(admin, acls.DeleteAclsRequest((EVERYTHING,)))
        changes = [line for line in lines if line["event"] == "Access rules changed"]
        rule = "Allow Read by User:alice from *"
        assert [(line["principal"], line["host"], line["added"], line["removed"]) for line in changes] == [
            ("User:admin", "10.0.0.9", [rule], []),
            ("User:admin", "10.0.0.9", [], [rule]),
        ]
        assert {line["resource"] for line in changes} == {"Topic:LITERAL:orders"}
        await c.stop()

    run_virtually(main)


def test_lists_that_kafkas_tool_created_are_changed_in_place() -> None:
    async def main() -> None:
        world, c = await running_cluster(1)
        await _create(c, WRITE_PAYMENTS)
        await world.tool.multi([Create(path_of(ORDERS), encode_rules([AccessRule(BOB, Operation.READ)]))])
        assert await _create(c, READ_ORDERS) == [DONE]
        assert _stored(world, ORDERS) == {AccessRule(BOB, Operation.READ), AccessRule(ALICE, Operation.READ)}
        await c.stop()

    run_virtually(main)
