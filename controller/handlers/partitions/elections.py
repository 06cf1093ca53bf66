"""Leader elections requested through the API or `/admin/preferred_replica_election`, and the periodic preferred ones.

Source: Kafka KafkaController.processReplicaLeaderElection, processAutoPreferredReplicaLeaderElection.
"""

import asyncio
from collections.abc import Mapping
from typing import Final

import structlog

from cluster.aio.off_loop import off_loop
from cluster.model.errors import ApiError, ErrorCode
from cluster.model.partition import LeaderAndIsr, TopicPartition
from cluster.model.state_machines import PartitionState
from cluster.requests.elections import PREFERRED, ElectLeadersRequest, ElectLeadersResponse
from controller.active_controller import ActiveController
from controller.decisions.partitions.leader_balance import BalanceRound, plan_leader_balance
from controller.decisions.partitions.leader_election import ElectionFailure, Preferred
from controller.decisions.partitions.requested_elections import (
    RefusedElection,
    RequestedElections,
    answer_elections,
    classify_elections,
    election_result,
    is_election_type,
    requested_partitions,
)
from controller.events import ReplicaLeaderElection
from controller.fenced_writes import Failed
from controller.handlers.partitions.partition_transitions import move_partitions
from controller.handlers.waiting import ElectLeadersDecision

NEXT_BALANCE_S: Final = 1
"""Pause after a preferred leader check that left elections to the next one, in which brokers take over (D-104)."""
_log = structlog.stdlib.get_logger()


async def elect_leaders(active: ActiveController, request: ElectLeadersRequest) -> ElectLeadersDecision:
    """Elect leaders for the requested partitions that need it; one result per partition (EP-1 to EP-5).

    Raises ApiError(INVALID_REQUEST) for an unknown election type, and ControllerMovedError when a write is fenced.
    """
    if not is_election_type(request.election_type):
        raise ApiError(
            ErrorCode.INVALID_REQUEST, "there is no such election", field="election_type", value=request.election_type
        )
    context = active.context
    asked = tuple(await off_loop(requested_partitions, context, request))
    elections = await off_loop(classify_elections, context, request.election_type, asked)
    outcomes = await move_partitions(active, elections.partitions, PartitionState.ONLINE, elections.strategy)
    refusals, elected = _election_results(elections, request.election_type, outcomes)
    _log.info("Requested leader elections processed", asked=len(asked), elected=len(elected), refused=len(refusals))
    leaders = {tp: leadership.leader for tp, leadership in elected.items()}
    delivered = {leader: active.channels.delivered(leader) for leader in sorted(set(leaders.values()))}
    return ElectLeadersDecision(asked, refusals, leaders, delivered)


async def wait_for_delivery(decided: ElectLeadersDecision, request: ElectLeadersRequest) -> ElectLeadersResponse:
    """Respond once every new leader acknowledged its leadership, at the latest after the request's timeout (EP-6).

    At once for a request that does not await its leaders: they are elected, and the requests to them are queued.
    Otherwise runs outside the event loop. REQUEST_TIMED_OUT for a partition whose new leader did not acknowledge in
    time, or whose controller resigned before; the leader is elected all the same.
    """
    if not request.awaits_leaders:
        answers = await off_loop(answer_elections, request, decided.partitions, decided.refusals)
        return ElectLeadersResponse(answers, plan=decided.plan)
    waiting = decided.delivered.values()
    if waiting and request.timeout_ms > 0:
        await asyncio.wait(waiting, timeout=request.timeout_ms / 1000)
    delivered = {leader for leader, news in decided.delivered.items() if news.done() and news.result()}
    late = {
        tp: RefusedElection(ErrorCode.REQUEST_TIMED_OUT, f"broker {leader} is elected, but did not hear of it in time")
        for tp, leader in decided.leaders.items()
        if leader not in delivered
    }
    answers = await off_loop(answer_elections, request, decided.partitions, decided.refusals | late)
    return ElectLeadersResponse(answers, plan=decided.plan)


async def replica_leader_election(active: ActiveController) -> None:
    """Run the preferred elections requested in `/admin/preferred_replica_election` and arm its watch.

    Failures are only logged, as nobody waits for a response. In every case the znode is deleted and read once more,
    because the next request may be there already (EP-8, EP-10, EP-11).
    """
    requested = await active.admin_requests.read_requested_elections()
    if requested is None:
        return
    partitions, version = requested
    try:
        elections = classify_elections(active.context, PREFERRED, dict.fromkeys(partitions))
        outcomes = await move_partitions(active, elections.partitions, PartitionState.ONLINE, elections.strategy)
        refusals, elected = _election_results(elections, PREFERRED, outcomes)
        _log.info(
            "Leader elections requested in ZooKeeper processed",
            elected=len(elected),
            refused={str(tp): refusal.message for tp, refusal in refusals.items()},
        )
    finally:
        outcome = await active.admin_requests.delete_requested_elections(version)
        if isinstance(outcome, Failed):
            _log.error("Deleting the leader election request failed", outcome=str(outcome))
        else:
            active.enqueue(ReplicaLeaderElection())


async def balance_leaders(active: ActiveController) -> None:
    """Elect preferred leaders on brokers above the imbalance limit, then schedule the next run: soon if this one was at
    its limit, else after the interval (EP-20 to EP-25, D-104).
    """
    config, begun = active.config, active.balance_round
    # The interval starts at the end of this run, so that long runs do not queue up.
    pause_s: float = config.settings.leader_imbalance_check_interval_seconds
    try:
        plan = plan_leader_balance(
            active.context,
            config.settings.leader_imbalance_per_broker_percentage,
            begun,
            elections_max=config.settings.klamm_leader_rebalance_max_elections,
        )
        active.balance_round = BalanceRound(plan.brokers)
        failed = set(begun.failed)
        for broker, partitions in plan.moves.items():
            outcomes = await move_partitions(active, partitions, PartitionState.ONLINE, Preferred())
            lost = [tp for tp in partitions if not isinstance(outcomes.get(tp), LeaderAndIsr)]
            failed.update(lost)
            won = len(partitions) - len(lost)
            _log.info("Preferred leaders elected", broker=broker, partitions=len(partitions), elected=won)
        if plan.has_more:
            # Each partition is tried once until there is a pause, so the short ones come to an end.
            active.balance_round = BalanceRound(plan.brokers, frozenset(failed))
            pause_s = NEXT_BALANCE_S
    finally:
        active.balance_later(pause_s)


def _election_results(
    elections: RequestedElections, election_type: int, outcomes: Mapping[TopicPartition, LeaderAndIsr | ElectionFailure]
) -> tuple[dict[TopicPartition, RefusedElection], dict[TopicPartition, LeaderAndIsr]]:
    """Split the outcomes: partitions without a new leader with the reason, and those with one."""
    refusals = dict(elections.refusals)
    elected: dict[TopicPartition, LeaderAndIsr] = {}
    for tp in elections.partitions:
        result = election_result(election_type, outcomes.get(tp))
        if isinstance(result, RefusedElection):
            refusals[tp] = result
        else:
            elected[tp] = result
    return refusals, elected
