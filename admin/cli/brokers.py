"""`klamm brokers`: who is there, what they carry, how they are configured, and how one leaves."""

import asyncio
from typing import TYPE_CHECKING, Annotated, Any

import typer

from admin.cli.broker_documents import (
    BROKER_COLUMNS,
    broker_document,
    load_of_brokers,
    threat_documents,
)
from admin.cli.config_documents import config_documents
from admin.cli.options import Cluster, DryRunOption, WaitOption, examples, run, talks_to_cluster
from admin.cli.output import counted, say, write
from admin.cli.parsing import alterations, parse_configs
from admin.cli.plans import plan_document, write_plan
from cluster.errors import ApiError, ErrorCode
from cluster.process.documents import Format
from cluster.process.exit_codes import ExitCode

if TYPE_CHECKING:
    from admin.client import AdminClient
    from cluster.requests.cluster import DescribedBroker
    from cluster.requests.elections import PlanControlledShutdownResponse
    from cluster.requests.plans import Plan

app = typer.Typer(no_args_is_help=True, help="Look at the brokers, configure them, let one leave.")

BrokerArgument = Annotated[int, typer.Argument(metavar="ID", min=0)]
_POLL_S = 0.2
_THREATS_SHOWN = 20


@app.command("list")
@talks_to_cluster()
def list_(
    *,
    cluster: Cluster,
) -> None:
    """List the live brokers."""

    async def main() -> "list[DescribedBroker]":
        async with cluster.connect() as client:
            return list((await client.describe_controller()).brokers)

    brokers = [broker_document(b) for b in sorted(run(main()), key=lambda b: b.id)]
    write({"brokers": brokers}, cluster.form, BROKER_COLUMNS, (tuple(b.values()) for b in brokers))


@app.command(
    epilog=examples(
        "klamm brokers describe",
        "klamm brokers describe 2 --configs -o json",
    )
)
@talks_to_cluster()
def describe(
    ids: Annotated[list[int] | None, typer.Argument(metavar="ID", help="Default: all live brokers.")] = None,
    *,
    configs: Annotated[bool, typer.Option("--configs", help="Show what is configured, and where.")] = False,
    cluster: Cluster,
) -> None:
    """Show what each broker carries: leaderships, replicas, and those that are out of sync."""

    async def main() -> list[dict[str, Any]]:
        async with cluster.connect() as client:
            live = {b.id: b for b in (await client.describe_controller()).brokers}
            missing = [broker for broker in ids or () if broker not in live]
            if missing:
                raise ApiError(ErrorCode.BROKER_NOT_AVAILABLE, f"brokers {missing} are not alive", field="broker")
            load = load_of_brokers((await client.describe_topics()).topics)
            chosen = [broker for _, broker in sorted(live.items()) if not ids or broker.id in ids]
            described = [broker_document(b) | load[b.id] for b in chosen]
            if configs:
                for document in described:
                    document["configs"] = await _configs(client, str(document["id"]))
            return described

    described = run(main())
    columns = (*BROKER_COLUMNS, "leaders", "preferred", "replicas", "out of sync")
    write({"brokers": described}, cluster.form, columns, (tuple(b.values())[: len(columns)] for b in described))
    if configs and cluster.form is Format.TABLE:
        for broker in described:
            typer.echo(f"\nbroker {broker['id']}")
            write(
                {},
                cluster.form,
                ("config", "value", "from"),
                ((c["name"], c["value"], c["source"]) for c in broker["configs"]),
            )


@app.command(
    epilog=examples(
        "klamm brokers alter default --config unclean.leader.election.enable=true",
        "klamm brokers alter 2 --delete-config num.replica.fetchers --dry-run",
    )
)
@talks_to_cluster()
def alter(
    broker: Annotated[str, typer.Argument(metavar="ID|default", help="One broker, or the default of all of them.")],
    *,
    config: Annotated[list[str] | None, typer.Option(metavar="KEY=VALUE", help="Set this; may be repeated.")] = None,
    delete_config: Annotated[
        list[str] | None, typer.Option(metavar="KEY", help="Go back to what it is without; may be repeated.")
    ] = None,
    dry_run: DryRunOption = False,
    cluster: Cluster,
) -> None:
    """Change the configuration of a running broker, or of all."""
    from cluster.requests.configs import BROKER_RESOURCE, AlterConfigsResource

    if broker != "default" and not broker.isdecimal():
        raise typer.BadParameter(f"{broker!r}: must be a broker id or 'default'")
    configs, deleted = parse_configs(config), list(delete_config or ())
    if not configs and not deleted:
        raise typer.BadParameter("nothing to change: give --config or --delete-config")
    name = "" if broker == "default" else broker

    async def main() -> "tuple[Plan | None, list[dict[str, Any]]]":
        async with cluster.connect() as client:
            resource = AlterConfigsResource(BROKER_RESOURCE, name, alterations(configs, deleted))
            response = await client.alter_configs([resource], validate_only=dry_run)
            (result,) = response.responses
            if result.error_code is not ErrorCode.NONE:
                raise ApiError(
                    result.error_code,
                    result.error_message or "refused",
                    field="broker",
                    value=broker,
                    violations=result.violations,
                )
            return response.plan, await _configs(client, name)

    plan, present = run(main())
    if plan is None or plan.settings:
        say(f"configuration of broker {broker} {'would be ' if dry_run else ''}changed")
    if plan is not None and cluster.form is Format.TABLE:
        write_plan(plan)
        return
    document = {
        "broker": broker,
        "dry_run": dry_run,
        "set": configs,
        "deleted": deleted,
        "configs": present,
        "plan": None if plan is None else plan_document(plan),
    }
    write(document, cluster.form, ("config", "value", "from"), ((c["name"], c["value"], c["source"]) for c in present))


@app.command(
    epilog=examples(
        "klamm brokers shutdown 2 --dry-run",
        "klamm brokers shutdown 2 --timeout 120",
        "klamm brokers shutdown 2 --force",
    )
)
@talks_to_cluster(timeout=60)
def shutdown(
    broker: BrokerArgument,
    *,
    force: Annotated[bool, typer.Option("--force", help="Go on although partitions would suffer.")] = False,
    wait: WaitOption = True,
    dry_run: DryRunOption = False,
    cluster: Cluster,
) -> None:
    """Move a broker's leaderships away and let it end, as SIGTERM does.

    Refuses when partitions would be left without a leader or fall below
    min.insync.replicas, and says which. --dry-run shows every move (exit
    code 3 when it would refuse).
    """
    from cluster.broker import BrokerId

    async def main() -> "tuple[PlanControlledShutdownResponse, bool]":
        async with cluster.connect() as client:
            plan = await client.plan_controlled_shutdown(BrokerId(broker))
            if dry_run or ((plan.leaderless or plan.below_min_isr) and not force):
                return plan, False
            leaving = await _begin_shutdown(client, broker)
            if wait:
                await _wait_until_gone(client, leaving, cluster.timeout)
            return plan, True

    plan, begun = run(main())
    threats = threat_documents(plan)
    document = {
        "broker": broker,
        "dry_run": dry_run,
        "begun": begun,
        **threats,
        "plan": plan_document(plan.plan),
    }
    if cluster.form is not Format.TABLE:
        write(document, cluster.form, (), ())
    elif dry_run:
        write_plan(plan.plan)
    _say_threats(threats)
    if any(threats.values()) and not begun:
        say(
            f"broker {broker} should not leave now"
            if dry_run
            else f"broker {broker} goes on; --force ends it all the same"
        )
        raise typer.Exit(ExitCode.FINDINGS if dry_run else ExitCode.REFUSED)
    if begun:
        say(f"broker {broker} {'is gone' if wait else 'is leaving'}")


async def _begin_shutdown(client: "AdminClient", broker_id: int) -> "DescribedBroker":
    live = {int(b.id): b for b in (await client.describe_controller()).brokers}
    broker = live.get(broker_id)
    if broker is None:
        raise ApiError(ErrorCode.BROKER_NOT_AVAILABLE, "the broker is not alive", field="broker", value=broker_id)
    answer = await client.shut_down_broker(broker)
    if answer.error_code is not ErrorCode.NONE:
        raise ApiError(answer.error_code, "the broker refused to shut down", field="broker", value=broker_id)
    return broker


async def _wait_until_gone(client: "AdminClient", broker: "DescribedBroker", limit_s: float) -> None:
    """Until this incarnation is not registered any more."""
    try:
        async with asyncio.timeout(limit_s):
            while True:
                registered = (await client.describe_controller()).brokers
                if all((b.id, b.epoch) != (broker.id, broker.epoch) for b in registered):
                    return
                await asyncio.sleep(_POLL_S)
    except TimeoutError:
        message = f"broker {broker.id} has begun to leave, but was not gone within {limit_s:g} s"
        raise ApiError(ErrorCode.REQUEST_TIMED_OUT, message) from None


async def _configs(client: "AdminClient", broker: str) -> list[dict[str, Any]]:
    from cluster.requests.configs import BROKER_RESOURCE, ConfigResource

    (result,) = (await client.describe_configs([ConfigResource(BROKER_RESOURCE, broker)])).results
    if result.error_code is not ErrorCode.NONE:
        raise ApiError(result.error_code, result.error_message or "configuration of the broker", value=broker)
    return config_documents(result.configs)


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
        say(f"… and {len(lines) - _THREATS_SHOWN} more partitions; -o json lists all")
