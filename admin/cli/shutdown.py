"""`klamm brokers shutdown`."""

import asyncio
from typing import Annotated, Any, Final, NamedTuple

import typer

from admin.cli.broker_documents import threat_documents
from admin.cli.completions import broker_ids
from admin.cli.options import Cluster, DryRunOption, WaitOption, talks_to_cluster
from admin.cli.output import examples, say
from admin.cli.plans import plan_document, write_plan
from admin.connecting.client import AdminClient
from admin.kafka.kafka_requests import HOW_TO_STOP
from cluster.cli.documents import Format, write_document
from cluster.model.broker import BrokerId
from cluster.model.errors import ApiError, ErrorCode
from cluster.model.exit_codes import ExitCode
from cluster.model.printable import counted
from cluster.requests.cluster import DescribedBroker
from cluster.requests.elections import PlanControlledShutdownResponse

SHUTDOWN_EXAMPLES = examples(
    "klamm brokers shutdown 2 --dry-run",
    "klamm brokers shutdown 2 --timeout 120",
    "klamm brokers shutdown 2 --force",
    exit_codes="0 stopped; 1 refused or timed out; 2 wrong usage; 3 --dry-run: it would be refused.",
)
_POLL_S: Final = 0.2
_THREATS_SHOWN: Final = 20


class _Outcome(NamedTuple):
    """Says what became of a shutdown.

    `host_of_kafkas`: where the broker runs if it is one of Apache Kafka, which only its host can stop.
    """

    plan: PlanControlledShutdownResponse
    begun: bool = False
    host_of_kafkas: str = ""


@talks_to_cluster(timeout=60)
def shutdown(
    broker: Annotated[int, typer.Argument(metavar="ID", min=0, autocompletion=broker_ids)],
    *,
    force: Annotated[bool, typer.Option("--force", help="Shut down even if partitions would go offline.")] = False,
    wait: WaitOption = True,
    dry_run: DryRunOption = False,
    cluster: Cluster,
) -> None:
    """Controlled shutdown of a broker: move its leaderships away, then stop the process, as SIGTERM does.

    Refuses if a partition would have no leader or fewer in-sync replicas
    than min.insync.replicas, and lists those partitions. --dry-run shows
    every leader change. To remove a broker for good, move its replicas
    first: 'klamm reassign generate'.
    A broker of Apache Kafka is not stopped from here: the plan is shown, and
    how its host stops it.
    """

    async def main(client: AdminClient) -> _Outcome:
        plan = await client.plan_controlled_shutdown(BrokerId(broker))
        if client.kafka is not None:
            return _Outcome(plan, host_of_kafkas=(await client.registered_broker(broker)).endpoint.host)
        if dry_run or ((plan.leaderless or plan.below_min_isr) and not force):
            return _Outcome(plan)
        leaving = await _begin_shutdown(client, broker)
        if wait:
            await _wait_until_gone(client, leaving, cluster.timeout)
        return _Outcome(plan, begun=True)

    outcome = cluster.ask(main)
    plan, threats = outcome.plan, threat_documents(outcome.plan)
    if cluster.form is not Format.TABLE:
        state = {"broker": broker, "dry_run": dry_run, "begun": outcome.begun}
        write_document({**state, **threats, "plan": plan_document(plan.plan)}, cluster.form)
    elif dry_run or outcome.host_of_kafkas:
        write_plan(plan.plan)
    _say_threats(threats)
    if outcome.begun:
        say(f"broker {broker} {'has shut down' if wait else 'is shutting down'}")
        return
    if outcome.host_of_kafkas:
        say(f"broker {broker} on {outcome.host_of_kafkas} {'is' if dry_run else 'was'} not shut down: {HOW_TO_STOP}")
    elif any(threats.values()):
        without_force = "would not be shut down without --force"
        say(f"broker {broker} {without_force if dry_run else 'was not shut down; --force shuts it down anyway'}")
    if not dry_run:
        raise typer.Exit(ExitCode.REFUSED)
    if any(threats.values()):
        raise typer.Exit(ExitCode.FINDINGS)


async def _begin_shutdown(client: AdminClient, broker_id: int) -> DescribedBroker:
    broker = await client.registered_broker(broker_id)
    answer = await client.shut_down_broker(broker)
    if answer.error_code is not ErrorCode.NONE:
        raise ApiError(answer.error_code, "the broker refused to shut down", field="broker", value=broker_id)
    return broker


async def _wait_until_gone(client: AdminClient, broker: DescribedBroker, limit_s: float) -> None:
    """Wait until this incarnation of the broker is no longer registered."""
    still = f"broker {broker.id} is shutting down, but is still registered"
    try:
        with client.waiting.named(lambda: still, client.limits.left_s):
            async with client.limits.outlasting_calls():
                while True:
                    if not await _is_registered(client, broker):
                        return
                    await asyncio.sleep(_POLL_S)
    except TimeoutError:
        raise ApiError(ErrorCode.REQUEST_TIMED_OUT, f"{still} after {limit_s:g} s; raise --timeout") from None


async def _is_registered(client: AdminClient, broker: DescribedBroker) -> bool:
    registered = (await client.describe_controller()).brokers
    return any((b.id, b.epoch) == (broker.id, broker.epoch) for b in registered)


def _say_threats(threats: dict[str, list[dict[str, Any]]]) -> None:
    lines = [f"{t['topic']}-{t['partition']} would have no leader" for t in threats["leaderless"]]
    lines += [
        f"{t['topic']}-{t['partition']} would have {counted(t['isr_after'], 'in-sync replica')},"
        f" fewer than min.insync.replicas {t['min_insync_replicas']}"
        for t in threats["below_min_isr"]
    ]
    for line in lines[:_THREATS_SHOWN]:
        say(line)
    if len(lines) > _THREATS_SHOWN:
        say(f"… and {len(lines) - _THREATS_SHOWN} more partitions; use -o json to list all")
