"""`klamm topics alter` and `klamm topics delete`."""

import asyncio
import contextlib
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from typing import Annotated, Any

import typer

from admin.cli.completions import topic_names
from admin.cli.options import Cluster, ConfigOption, DryRunOption, WaitOption, YesOption, confirm, talks_to_cluster
from admin.cli.output import examples, say, write
from admin.cli.parsing import alterations, parse_assignment, parse_configs
from admin.cli.plans import join_plans, plan_document, write_plan
from admin.connecting.client import AdminClient
from admin.moving.progress import Progress
from cluster.cli.documents import Format
from cluster.model.errors import ApiError, ErrorCode, FieldViolation
from cluster.model.exit_codes import ExitCode
from cluster.model.printable import counted
from cluster.requests.configs import TOPIC_RESOURCE, AlterableConfig, AlterConfigsResource, AlterConfigsResponse
from cluster.requests.topics import (
    CreatePartitionsResponse,
    DeletableTopicResult,
    DeleteTopicsResponse,
    DescribedTopicDeletion,
    NewPartitions,
    NewPartitionsAssignment,
    WaitingReplica,
)

ALTER_EXAMPLES = examples(
    "klamm topics alter orders --partitions 12",
    "klamm topics alter orders --partitions 4 --replica-assignment 2:3,3:1  (replicas of two new partitions)",
    "klamm topics alter orders --config retention.ms=60000 --delete-config min.insync.replicas",
)
DELETE_EXAMPLES = examples(
    "klamm topics delete orders",
    "klamm topics delete a b c --yes --timeout 120",
    "klamm topics delete orders --if-exists --yes   (for scripts that run again)",
    "klamm topics delete orders --no-wait   (repeat it to see the progress)",
    exit_codes="0 deleted, or accepted with --no-wait; 1 refused or timed out; 2 wrong usage.",
)
_BEGUN = frozenset({ErrorCode.NONE, ErrorCode.REQUEST_TIMED_OUT})
"""The codes of a deletion that has begun: with wait_ms=0 it is REQUEST_TIMED_OUT."""
_ABSENT = "absent"
_POLL_S = 0.5


@talks_to_cluster()
def alter(
    name: Annotated[str, typer.Argument(metavar="TOPIC", autocompletion=topic_names)],
    *,
    partitions: Annotated[
        int | None, typer.Option(min=1, help="New number of partitions, larger than the current one.")
    ] = None,
    replica_assignment: Annotated[
        str | None,
        typer.Option(metavar="B:B,B:B", help="Replicas of each new partition, or of all as in Kafka's tool."),
    ] = None,
    config: ConfigOption = None,
    delete_config: Annotated[
        list[str] | None, typer.Option(metavar="KEY", help="Reset a config to its default. Repeatable.")
    ] = None,
    dry_run: DryRunOption = False,
    cluster: Cluster,
) -> None:
    """Add partitions to a topic, or change its configs.

    Partitions cannot be removed. Adding some changes which partition a key
    hashes to.
    """
    configs, deleted = parse_configs(config), list(delete_config or ())
    if replica_assignment is not None and partitions is None:
        raise typer.BadParameter("--replica-assignment needs --partitions")
    if partitions is None and not configs and not deleted:
        raise typer.BadParameter("nothing to change: pass --partitions, --config or --delete-config")

    async def main(client: AdminClient) -> tuple[CreatePartitionsResponse | None, AlterConfigsResponse | None]:
        wanted = altered = None
        if partitions is not None:
            wanted = await _new_partitions(client, name, partitions, replica_assignment)
            # Validated first, so that it cannot be refused after the configs have changed.
            await _add(client, wanted, dry_run=True)
        if configs or deleted:
            altered = await _alter_configs(client, name, alterations(configs, deleted), dry_run)
        return None if wanted is None else await _add(client, wanted, dry_run), altered

    added, altered = cluster.ask(main, check=f"klamm topics describe {name} --configs")
    would = "would be " if dry_run else ""
    document: dict[str, Any] = {"name": name, "dry_run": dry_run, "set": configs, "deleted": deleted, "added": []}
    if added is not None:
        placed = added.results[0].assignments
        document["added"] = [{"partition": p, "replicas": list(r)} for p, r in sorted(placed.items())]
        say(f"{counted(len(placed), 'partition')} of {name} {would}added")
    if altered is not None and (altered.plan is None or altered.plan.settings):
        say(f"configs of {name} {would}changed")
    plan = join_plans(answer.plan for answer in (altered, added) if answer is not None) if dry_run else None
    rows = [(p["partition"], p["replicas"]) for p in document["added"]]
    if plan is not None and cluster.form is Format.TABLE:
        write_plan(plan)
    elif rows or cluster.form is not Format.TABLE:
        whole = {"topics": [document], "plan": None if plan is None else plan_document(plan)}
        write(whole, cluster.form, ("new_partition", "replicas"), rows)


@talks_to_cluster()
def delete(
    names: Annotated[list[str], typer.Argument(metavar="TOPIC", autocompletion=topic_names)],
    *,
    yes: YesOption = False,
    if_exists: Annotated[bool, typer.Option("--if-exists", help="Ignore topics that do not exist.")] = False,
    wait: WaitOption = True,
    dry_run: DryRunOption = False,
    cluster: Cluster,
) -> None:
    """Delete topics with all their records, and wait until every replica is deleted.

    While a broker that hosts a replica is down, the topic stays marked for
    deletion; the deletion completes when the broker returns. A timeout does
    not undo it: repeat the command to see the progress.
    """
    if not dry_run:
        confirm(f"Delete {', '.join(names)} with all records?", yes)

    async def main(
        client: AdminClient,
    ) -> tuple[DeleteTopicsResponse, dict[str, DeletableTopicResult], list[DescribedTopicDeletion]]:
        response = await client.delete_topics(names, wait_ms=0, validate_only=dry_run)
        refused = {str(r.name): r for r in response.responses if r.error_code not in _BEGUN}
        accepted = [name for name in names if name not in refused]
        if if_exists:
            refused = {n: r for n, r in refused.items() if r.error_code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
        if not accepted:
            return response, refused, []
        if dry_run:
            return response, refused, await _preview(client, accepted)
        return response, refused, await _watch_deletions(client, accepted, wait=wait)

    response, refused, pending = cluster.ask(main, check=f"klamm topics describe {' '.join(names)}")
    left = {d.topic: d for d in pending}
    absent = {str(r.name) for r in response.responses if r.error_code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    documents = [_deletion_document(name, refused.get(name), left.get(name), absent) for name in names]
    _say_outcomes([document for document in documents if document["name"] not in left])
    if left or cluster.form is not Format.TABLE:
        columns = ("topic", "state", "deleted_replicas", "waiting_for")
        plan = None if response.plan is None else plan_document(response.plan)
        whole = {"topics": documents, "dry_run": dry_run, "plan": plan}
        write(whole, cluster.form, columns, map(_deletion_row, pending))
    if response.plan is not None and cluster.form is Format.TABLE and left:
        typer.echo()
        write_plan(response.plan)
    late = left and wait and not dry_run
    if late:
        say("timed out: the deletion continues by itself once what it waits for is back")
    if refused or late:
        raise typer.Exit(ExitCode.REFUSED)


async def _alter_configs(
    client: AdminClient, name: str, changes: tuple[AlterableConfig, ...], dry_run: bool
) -> AlterConfigsResponse:
    response = await client.alter_configs([AlterConfigsResource(TOPIC_RESOURCE, name, changes)], validate_only=dry_run)
    (result,) = client.results_for([f"topic {name}"], response.responses)
    _raise_if_refused(name, result.error_code, result.error_message, result.violations)
    return response


async def _new_partitions(client: AdminClient, name: str, count: int, replica_assignment: str | None) -> NewPartitions:
    if replica_assignment is None:
        return NewPartitions(name, count)
    assigned = [NewPartitionsAssignment(brokers) for brokers in parse_assignment(replica_assignment).values()]
    if len(assigned) == count:
        # As with Kafka's tool: the list covers existing partitions too, which stay as they are.
        (described,) = client.results_for([f"topic {name}"], (await client.describe_topics([name])).topics)
        _raise_if_refused(name, described.error_code, None)
        assigned = assigned[len(described.partitions) :]
    return NewPartitions(name, count, tuple(assigned))


async def _add(client: AdminClient, partitions: NewPartitions, dry_run: bool) -> CreatePartitionsResponse:
    response = await client.create_partitions([partitions], validate_only=dry_run)
    (result,) = client.results_for([f"topic {partitions.name}"], response.results)
    _raise_if_refused(partitions.name, result.error_code, result.error_message)
    return response


async def _preview(client: AdminClient, names: Sequence[str]) -> list[DescribedTopicDeletion]:
    """List the deletions that would start, and what each would wait for."""
    previews = []
    for topic in (await client.describe_topics(names)).topics:
        offline = tuple(
            WaitingReplica(p.partition, broker, "OfflineReplica", f"broker {broker} is not available")
            for p in topic.partitions
            for broker in p.offline_replicas
        )
        replicas = sum(len(p.replicas) for p in topic.partitions)
        previews.append(DescribedTopicDeletion(topic.name, "would be deleted", "", 0, replicas, offline))
    return previews


async def _watch_deletions(client: AdminClient, names: Sequence[str], *, wait: bool) -> list[DescribedTopicDeletion]:
    """Wait until the timeout, printing progress to stderr. Returns the deletions that are still pending."""
    left = list((await client.describe_topic_deletions(names)).deletions)
    if not wait:
        return left
    loop = asyncio.get_running_loop()
    progress = Progress(sum(d.replicas for d in left), loop.time())
    said = ""
    with contextlib.suppress(TimeoutError):
        async with client.limits.outlasting_calls():
            while left:
                deleted = progress.total - sum(d.replicas - d.deleted_replicas for d in left)
                progress.update(max(0, deleted), loop.time())
                text = progress.describe("replicas deleted", ((d.topic, d.reason) for d in left if d.reason))
                if text != said:
                    say(text)
                    said = text
                await asyncio.sleep(_POLL_S)
                left = list((await client.describe_topic_deletions(names)).deletions)
    return left


def _say_outcomes(documents: Sequence[dict[str, Any]]) -> None:
    for document in documents:
        if "error" in document:
            said = f": {document['error']}: {document['reason']}"
        else:
            said = " does not exist" if document["state"] == _ABSENT else f" {document['state']}"
        say(f"topic {document['name']}{said}")


def _deletion_row(d: DescribedTopicDeletion) -> tuple[object, ...]:
    replicas = sorted({w.reason for w in d.waiting if w.reason})
    return d.topic, d.state, f"{d.deleted_replicas} of {d.replicas}", "; ".join(replicas) or d.reason


def _deletion_document(
    name: str, refused: DeletableTopicResult | None, d: DescribedTopicDeletion | None, absent: AbstractSet[str]
) -> dict[str, Any]:
    if refused is not None:
        error, reason = refused.error_code.name, refused.error_message or ""
        return {"name": name, "state": "refused", "error": error, "reason": reason}
    if d is None:
        return {"name": name, "state": _ABSENT if name in absent else "deleted"}
    return {
        "name": name,
        "state": d.state,
        "reason": d.reason,
        "deleted_replicas": d.deleted_replicas,
        "replicas": d.replicas,
        "waiting": [
            {"partition": w.partition, "broker": w.broker_id, "state": w.state, "reason": w.reason} for w in d.waiting
        ],
    }


def _raise_if_refused(
    name: str, code: ErrorCode, message: str | None, violations: Sequence[FieldViolation] = ()
) -> None:
    if code is not ErrorCode.NONE:
        raise ApiError(code, message or f"topic {name!r}", field="topic", value=name, violations=violations)
