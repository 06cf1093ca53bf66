"""`klamm brokers`: list, describe, configure and shut down brokers."""

from collections.abc import Iterable
from typing import Annotated, Any

import typer

from admin.cli.broker_documents import (
    BROKER_COLUMNS,
    all_broker_documents,
    by_registration,
    config_documents,
    load_of_brokers,
    write_configs,
)
from admin.cli.completions import node_ids
from admin.cli.log_dirs import LOG_DIRS_EXAMPLES, log_dirs
from admin.cli.move_dir import BALANCE_EXAMPLES, MOVE_DIR_EXAMPLES, balance_dirs, move_dir
from admin.cli.online_dir import ONLINE_DIR_EXAMPLES, online_dir
from admin.cli.options import Cluster, ConfigOption, DryRunOption, ShowConfigsOption, talks_to_cluster
from admin.cli.output import examples, say, say_source, source, write
from admin.cli.parsing import alterations, parse_configs, parse_partition_names
from admin.cli.plans import plan_document, write_plan
from admin.cli.shutdown import SHUTDOWN_EXAMPLES, shutdown
from admin.connecting.client import AdminClient
from admin.connecting.connection import KLAMM
from admin.describing.brokers_view import described_cluster, of_controller_or_brokers
from cluster.cli.documents import Format, write_document, write_table
from cluster.model.errors import ApiError, ErrorCode
from cluster.requests.cluster import AcknowledgeDamageResponse, DescribeClusterResponse, LostOffsets
from cluster.requests.configs import BROKER_RESOURCE, AlterConfigsResource, ConfigResource
from cluster.requests.plans import Plan

app = typer.Typer(no_args_is_help=True, help="List, describe, configure and shut down brokers.")

_OF_CONTROLLERS = frozenset({"log.level", "unclean.leader.election.enable"})
"""The dynamic configs that have an effect on a controller."""


@app.command(
    "acknowledge-damage",
    epilog=examples(
        "klamm brokers acknowledge-damage 2 orders-0 --dry-run",
        "klamm brokers acknowledge-damage 2 orders-0",
        exit_codes="0 acknowledged; 1 refused: nothing is lost there, or it heals by itself; 2 wrong usage.",
    ),
)
@talks_to_cluster()
def acknowledge_damage(
    broker: Annotated[int, typer.Argument(metavar="ID", min=0, help="The broker that the issue names.")],
    partition: Annotated[str, typer.Argument(metavar="TOPIC-PARTITION", help="The partition, such as orders-0.")],
    *,
    dry_run: DryRunOption = False,
    cluster: Cluster,
) -> None:
    """End a damaged_replica issue of records that are lost for good.

    A log was cut at its end and its replica has led since, so no other
    replica can have the records any more. The broker reports this, also
    after restarts, until you acknowledge it with this command, which changes
    no record. Damage in the middle of a log ends with 'klamm topics
    delete-records', and damage of a follower ends by itself.
    """
    (tp,) = parse_partition_names([partition])

    async def main(client: AdminClient) -> AcknowledgeDamageResponse:
        return await client.acknowledge_damage(await client.registered_broker(broker), tp, validate_only=dry_run)

    lost = cluster.ask(main).lost
    say(f"loss of {', '.join(map(_offsets, lost))} of {tp} {'would be ' if dry_run else ''}acknowledged")
    documents = [
        {"topic": tp.topic, "partition": tp.partition, "from_offset": one.from_offset, "to_offset": one.to_offset}
        for one in lost
    ]
    write(
        {"broker": broker, "dry_run": dry_run, "lost": documents},
        cluster.form,
        ("topic", "partition", "from_offset", "to_offset"),
        (tuple(document.values()) for document in documents),
    )


def _offsets(lost: LostOffsets) -> str:
    return f"{'' if lost.is_end_known else 'at least '}offsets {lost.from_offset}..{lost.to_offset - 1}"


app.command("shutdown", epilog=SHUTDOWN_EXAMPLES)(shutdown)
app.command("log-dirs", epilog=LOG_DIRS_EXAMPLES)(log_dirs)
app.command("move-dir", epilog=MOVE_DIR_EXAMPLES)(move_dir)
app.command("balance-dirs", epilog=BALANCE_EXAMPLES)(balance_dirs)
app.command("online-dir", epilog=ONLINE_DIR_EXAMPLES)(online_dir)


@app.command("list", epilog=examples("klamm brokers list", "klamm brokers list -o json"))
@talks_to_cluster()
def list_(*, cluster: Cluster) -> None:
    """List the brokers with address, rack, broker epoch and state.

    A broker that is not registered and hosts replicas all the same is dead.
    While no controller is active, from the metadata of the brokers, which has
    no epochs and no states.
    """
    described, why_of_brokers = cluster.ask(
        lambda client: of_controller_or_brokers(client, client.describe_controller(), (), described_cluster)
    )
    kind = described.broker_protocol or KLAMM
    brokers = all_broker_documents(described)
    shown = () if kind == KLAMM else (kind,)
    columns = (*BROKER_COLUMNS, *("kind" for _ in shown))
    rows = ((*broker.values(), *shown) for broker in brokers)
    say_source(why_of_brokers)
    document = {"brokers": brokers, "broker_protocol": kind, "source": source(why_of_brokers)}
    write(document, cluster.form, columns, rows)


@app.command(
    epilog=examples(
        "klamm brokers describe",
        "klamm brokers describe 2 --configs -o json",
        "klamm brokers describe 1001 --configs   (a controller)",
    )
)
@talks_to_cluster()
def describe(
    ids: Annotated[
        list[int] | None,
        typer.Argument(
            metavar="ID", help="Ids of brokers or controllers. Default: all brokers.", autocompletion=node_ids
        ),
    ] = None,
    *,
    configs: ShowConfigsOption = False,
    cluster: Cluster,
) -> None:
    """Show per broker how many partitions it leads, is preferred leader of, hosts, and hosts out of sync.

    An ID of a controller shows that controller; with --configs, its log.level
    and what else it can change while it runs.
    """

    async def main(client: AdminClient) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
        known = await client.describe_controller()
        _check_registered(ids or (), known)
        chosen = [document for document in all_broker_documents(known) if not ids or document["id"] in ids]
        load = load_of_brokers((await client.describe_topics()).topics) if chosen else {}
        described = [document | load[document["id"]] for document in chosen]
        controllers = [
            {"id": c.id, "address": c.address, "active": c.id == known.controller_id}
            for c in sorted(known.controllers, key=lambda c: c.id)
            if c.id in (ids or ())
        ]
        if configs:
            for document in described:
                document["configs"] = await _configs(client, str(document["id"]))
            for document in controllers:
                document["configs"] = await _configs(client, str(document["id"]), of_controller=True)
        return described, controllers

    described, controllers = cluster.ask(main)
    if cluster.form is not Format.TABLE:
        write_document({**by_registration(described), "controllers": controllers}, cluster.form)
        return
    load = ("leaders", "preferred_leaders", "replicas", "out_of_sync")
    has_racks = any(b["rack"] is not None for b in described)
    keys = (*(key for key in BROKER_COLUMNS if has_racks or key != "rack"), *load)
    rows = (tuple(b[key] for key in keys) for b in described)
    if described or not controllers:
        write_table([key.removesuffix("_leaders") for key in keys], rows)
    if controllers:
        columns = ("controller", "address", "active")
        write_table(columns, ((c["id"], c["address"], "yes" if c["active"] else "") for c in controllers))
    if configs:
        for role, documents in (("broker", described), ("controller", controllers)):
            for document in documents:
                typer.echo(f"\n{role} {document['id']}")
                write_configs(document["configs"])


@app.command(
    epilog=examples(
        "klamm brokers alter default --config unclean.leader.election.enable=true",
        "klamm brokers alter 1001 --config log.level=debug   (a controller)",
        "klamm brokers alter 2 --delete-config num.replica.fetchers --dry-run",
    )
)
@talks_to_cluster()
def alter(
    broker: Annotated[
        str,
        typer.Argument(
            metavar="ID|default",
            help="The id of a broker or controller, or 'default' for the cluster-wide default.",
            autocompletion=node_ids,
        ),
    ],
    *,
    config: ConfigOption = None,
    delete_config: Annotated[
        list[str] | None, typer.Option(metavar="KEY", help="Remove a dynamic config. Repeatable.")
    ] = None,
    dry_run: DryRunOption = False,
    cluster: Cluster,
) -> None:
    """Change the dynamic configs of one broker or controller, or the cluster-wide default of all.

    Takes effect at once, without a restart; keys that need one are refused.
    """
    if broker != "default" and not broker.isdecimal():
        raise typer.BadParameter(f"broker {broker!r}: must be a broker id or 'default'")
    configs, deleted = parse_configs(config), list(delete_config or ())
    if not configs and not deleted:
        raise typer.BadParameter("nothing to change: pass --config KEY=VALUE or --delete-config KEY")
    name = "" if broker == "default" else broker

    async def main(client: AdminClient) -> tuple[Plan | None, list[dict[str, Any]]]:
        of_controller = await _warn_of_no_effect(client, name, configs)
        resource = AlterConfigsResource(BROKER_RESOURCE, name, alterations(configs, deleted))
        response = await client.alter_configs([resource], validate_only=dry_run)
        (result,) = client.results_for([f"broker {broker}"], response.responses)
        if result.error_code is not ErrorCode.NONE:
            message = result.error_message or "refused"
            raise ApiError(result.error_code, message, field="broker", value=broker, violations=result.violations)
        return response.plan, await _configs(client, name, of_controller=of_controller)

    described = f"{name} --configs" if name else "--configs"
    plan, present = cluster.ask(main, check=f"klamm brokers describe {described}")
    if plan is None or plan.settings:
        say(f"configs of broker {broker} {'would be ' if dry_run else ''}changed")
    if cluster.form is Format.TABLE:
        if plan is None:
            write_configs(present)
        else:
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
    write_document(document, cluster.form)


def _check_registered(ids: Iterable[int], known: DescribeClusterResponse) -> None:
    brokers = [*(int(b.id) for b in known.brokers), *map(int, known.dead_brokers)]
    registered = {*brokers, *(int(c.id) for c in known.controllers)}
    missing = [str(id_) for id_ in ids if id_ not in registered]
    if missing:
        message = f"no broker or controller {', '.join(missing)} is registered; registered: {sorted(registered)}"
        raise ApiError(ErrorCode.BROKER_NOT_AVAILABLE, message, field="broker")


async def _warn_of_no_effect(client: AdminClient, name: str, keys: Iterable[str]) -> bool:
    """Warn of configs without effect: no process has this id, or a controller ignores the keys.

    As in Kafka, a broker that is not running can be configured; more often its number is a mistake. Returns whether the
    id is a controller's.
    """
    described = await client.describe_controller()
    known = {b.id for b in described.brokers} | {c.id for c in described.controllers}
    if name and int(name) not in known:
        say(f"warning: no broker or controller {name} is registered; its configs take effect once it is")
    of_controller = bool(name) and int(name) in {c.id for c in described.controllers}
    if of_controller and (without := sorted({*keys} - _OF_CONTROLLERS)):
        say(f"warning: {name} is a controller, on which {', '.join(without)} has no effect")
    return of_controller


async def _configs(client: AdminClient, broker: str, *, of_controller: bool = False) -> list[dict[str, Any]]:
    described = await client.describe_configs([ConfigResource(BROKER_RESOURCE, broker)])
    (result,) = client.results_for([f"broker {broker or 'default'}"], described.results)
    if result.error_code is not ErrorCode.NONE:
        message = result.error_message or "cannot describe the configs of the broker"
        raise ApiError(result.error_code, message, value=broker)
    known = (c for c in result.configs if not of_controller or c.name in _OF_CONTROLLERS)
    return config_documents(tuple(known))
