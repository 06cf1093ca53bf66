"""What an operator is told of controllers that are missing, of brokers that cannot be told, and of authorizers."""

import pytest
from msgspec.structs import replace

from cluster.model.broker import BrokerId, ControllerId
from cluster.model.errors import ApiError, ErrorCode, PeerRefusesError
from cluster.requests.cluster import DescribeClusterRequest, DescribeFindingsRequest, Finding
from cluster.requests.context import RequestContext
from cluster.requests.topics import CreateTopicsRequest, ListTopicsRequest, NewTopic
from cluster.znodes.candidates import CandidateProfile
from cluster.znodes.paths import controller_registration_path
from cluster.zookeeper.port import SetData
from tests.controllers.worlds import RunningController, World, quiesce, run_virtually, running_cluster, until

ELSEWHERE = RequestContext(peer="ipv4:192.0.2.1:4711")
HERE = RequestContext(peer="ipv4:127.0.0.1:4711")
CREATE = CreateTopicsRequest((NewTopic("t", 1, 1),), timeout_ms=1000)


async def findings(c: RunningController) -> list[Finding]:
    return list((await c.ask(DescribeFindingsRequest())).findings)


async def kinds(c: RunningController) -> list[str]:
    return [f.kind for f in await findings(c)]


@pytest.mark.rule("D-110")
@pytest.mark.parametrize("killed_is_active", [True, False])
def test_a_controller_that_is_left_alone_is_a_finding_until_another_is_there(killed_is_active: bool) -> None:
    async def main() -> None:
        world, first = await running_cluster(1)
        second = world.start_controller(1002)
        await until(second.controller.registered.is_set)
        await quiesce()
        assert await kinds(first) == []
        killed, left = (first, second) if killed_is_active else (second, first)
        killed.crash()
        await quiesce(10)
        (finding,) = await findings(left)
        gone, alone = killed.controller.config.id, left.controller.config.id
        assert finding.kind == "single_controller"
        assert f"controller {alone} is alone" in finding.detail
        assert f"controller {gone} ran before and takes no part now" in finding.detail
        described = await left.ask(DescribeClusterRequest())
        assert [c.id for c in described.controllers] == [alone]
        back = world.start_controller(gone)
        await until(back.controller.registered.is_set)
        assert await kinds(left) == []
        await back.stop()
        await left.stop()

    run_virtually(main)


@pytest.mark.rule("D-110")
def test_a_controller_that_does_not_stand_for_election_is_described_so_and_not_counted() -> None:
    async def main() -> None:
        world = await World().start()
        profile = CandidateProfile("0.3", "klamm", "3.9", "PLAINTEXT", "CONTROL")
        c = world.start_controller(1001, profile=profile)
        await until(lambda: c.is_active)
        standby = world.start_controller(1002, profile=profile)
        await until(standby.controller.registered.is_set)
        await quiesce()
        await standby.controller.election.say_unfit("it would admit 0 of 3 brokers")
        described = (await c.ask(DescribeClusterRequest())).controllers
        assert [(d.id, d.unfit) for d in described] == [(1001, ""), (1002, "it would admit 0 of 3 brokers")]
        assert await kinds(c) == ["single_controller"]
        await standby.controller.election.say_unfit("")
        assert await kinds(c) == []
        # Whatever somebody writes there, the process is one of the controllers.
        path = controller_registration_path(ControllerId(1002))
        await world.write(SetData(path, b'{"version":1,"host":"h","port":1,"candidate":7}'))
        assert [d.id for d in (await c.ask(DescribeClusterRequest())).controllers] == [1001, 1002]
        assert await kinds(c) == ["malformed_znode"]
        await standby.stop()
        await c.stop()

    run_virtually(main)


@pytest.mark.rule("D-110")
def test_one_controller_that_was_always_alone_is_no_finding_unless_more_are_expected() -> None:
    async def main() -> None:
        _, c = await running_cluster(1)
        assert await kinds(c) == []
        await c.stop()
        _, c = await running_cluster(1, klamm_controllers_expected=2)
        assert await kinds(c) == ["single_controller"]
        await c.stop()

    run_virtually(main)


@pytest.mark.rule("D-110")
def test_one_that_is_meant_to_be_enough_is_no_finding() -> None:
    async def main() -> None:
        world, c = await running_cluster(1, klamm_controllers_expected=1)
        for name in ("1002", "nobody"):
            await world.create(f"/klamm/controllers/{name}")
        assert await kinds(c) == []
        await c.stop()

    run_virtually(main)


@pytest.mark.rule("D-111")
@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (ErrorCode.UNSUPPORTED_VERSION, "requests_not_understood"),
        (ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "requests_not_authorized"),
    ],
)
def test_a_refusal_of_the_controller_is_a_finding_at_once_and_nothing_of_it_is_lost(code: ErrorCode, kind: str) -> None:
    async def main() -> None:
        world, c = await running_cluster(1)
        c.brokers.refusal = PeerRefusesError("host1:9092", code, "give the controllers another setting")
        await world.create_topic("t", [1])
        await quiesce()
        (finding,) = await findings(c)
        assert (finding.kind, finding.broker) == (kind, 1)
        assert finding.detail.endswith("host1:9092: give the controllers another setting")
        # It is asked again, but not as often as one that only may have been away for a moment.
        before = len(c.brokers.received)
        c.brokers.refusal = None
        await quiesce(2)
        assert await kinds(c) == []
        assert len(c.brokers.received) > before
        await c.stop()

    run_virtually(main)


@pytest.mark.rule("D-111", "AG-10")
def test_a_broker_that_cannot_be_reached_is_a_finding_with_the_reason_until_it_answers() -> None:
    async def main() -> None:
        world, c = await running_cluster(1)
        c.brokers.unreachable.add(BrokerId(1))
        await world.create_topic("t", [1])
        await quiesce(2)
        assert await kinds(c) == []
        await quiesce(2)
        (finding,) = await findings(c)
        assert (finding.kind, finding.broker) == ("silent_broker", 1)
        assert finding.detail.endswith("; the last attempt: 1: unplugged")
        c.brokers.unreachable.clear()
        await quiesce(2)
        assert await kinds(c) == []
        await c.stop()

    run_virtually(main)


@pytest.mark.rule("D-111")
def test_a_broker_that_answers_with_an_error_is_a_finding_until_it_obeys_or_restarts() -> None:
    async def main() -> None:
        world, c = await running_cluster(1)
        c.brokers.answers[BrokerId(1)] = ErrorCode.UNKNOWN_SERVER_ERROR
        await world.create_topic("t", [1])
        await quiesce()
        found = await findings(c)
        assert [(f.kind, f.broker) for f in found] == [("requests_fail", 1)] * 2
        assert [f.detail.partition(" with ")[0] for f in found] == [
            "broker 1 answered the last LeaderAndIsr",
            "broker 1 answered the last UpdateMetadata",
        ]
        c.brokers.answers.clear()
        await world.create_topic("u", [1])
        await quiesce()
        assert await kinds(c) == []
        c.brokers.answers[BrokerId(1)] = ErrorCode.UNKNOWN_SERVER_ERROR
        await world.create_topic("v", [1])
        await quiesce()
        c.brokers.answers.clear()
        await world.stop_broker(1)
        await world.start_broker(1)
        await quiesce(2)
        assert await kinds(c) == []
        await c.stop()

    run_virtually(main)


@pytest.mark.rule("D-112")
def test_with_an_authorizer_changes_come_from_this_host_only_and_it_is_a_finding() -> None:
    async def main() -> None:
        _, c = await running_cluster(1, 2)
        c.brokers.with_authorizer.add(BrokerId(2))
        (finding,) = await findings(c)
        assert (finding.kind, finding.broker) == ("authorizer_on_broker", 2)
        with pytest.raises(ApiError, match="broker 2 has an authorizer.*the host of the active controller") as refused:
            await c.node.handle(ELSEWHERE, CREATE)
        assert refused.value.code is ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        # What changes nothing is answered, as before.
        assert (await c.node.handle(ELSEWHERE, ListTopicsRequest())).topics == ()
        (planned,) = (await c.node.handle(ELSEWHERE, replace(CREATE, validate_only=True))).topics
        assert planned.error_code is ErrorCode.NONE
        (created,) = (await c.node.handle(HERE, CREATE)).topics
        assert created.error_code is ErrorCode.NONE
        c.brokers.with_authorizer.clear()
        assert await kinds(c) == []
        again = replace(CREATE, topics=(NewTopic("u", 1, 1),))
        (created,) = (await c.node.handle(ELSEWHERE, again)).topics
        assert created.error_code is ErrorCode.NONE
        await c.stop()

    run_virtually(main)


@pytest.mark.rule("D-112")
def test_a_standby_still_names_the_active_controller() -> None:
    async def main() -> None:
        world, c = await running_cluster(1)
        standby: RunningController = world.start_controller(1002)
        await until(standby.controller.registered.is_set)
        standby.brokers.with_authorizer.add(BrokerId(1))
        with pytest.raises(ApiError) as refused:
            await standby.node.handle(ELSEWHERE, CREATE)
        assert refused.value.code is ErrorCode.NOT_CONTROLLER
        await standby.stop()
        await c.stop()

    run_virtually(main)
