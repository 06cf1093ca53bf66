"""Plans of a controller, written for people and programs."""

from typing import TYPE_CHECKING, Any

import typer

from admin.cli.output import write_table

if TYPE_CHECKING:
    from cluster.requests import DescribedPartition, Plan


def plan_document(plan: "Plan") -> dict[str, Any]:
    """`changes[]` {topic, partition, before, after}, `requests[]` {broker, request, partitions}."""
    return {
        "changes": [
            {
                "topic": c.topic,
                "partition": c.before.partition,
                "before": partition_document(c.before),
                "after": partition_document(c.after),
            }
            for c in plan.changes
        ],
        "requests": [{"broker": r.broker_id, "request": r.name, "partitions": r.partitions} for r in plan.requests],
    }


def partition_document(p: "DescribedPartition") -> dict[str, Any]:
    return {
        "partition": p.partition,
        "leader": p.leader,
        "leader_epoch": p.leader_epoch,
        "partition_epoch": p.partition_epoch,
        "isr": list(p.isr),
        "replicas": list(p.replicas),
        "adding_replicas": list(p.adding_replicas),
        "removing_replicas": list(p.removing_replicas),
        "offline_replicas": list(p.offline_replicas),
    }


def write_plan(plan: "Plan") -> None:
    """Two tables: what would change in ZooKeeper, and who would be told."""
    if not plan.changes:
        typer.echo("nothing would change")
        return
    columns = ("topic", "partition", "leader", "leader_epoch", "isr", "replicas", "adding", "removing")
    fields = ("leader", "leader_epoch", "isr", "replicas", "adding_replicas", "removing_replicas")
    write_table(
        columns,
        (
            (c.topic, c.before.partition, *(_change(getattr(c.before, f), getattr(c.after, f)) for f in fields))
            for c in plan.changes
        ),
    )
    if plan.requests:
        typer.echo()
        write_table(("broker", "request", "partitions"), ((r.broker_id, r.name, r.partitions) for r in plan.requests))


def _change(before: object, after: object) -> str:
    return _text(before) if before == after else f"{_text(before)} -> {_text(after)}"


def _text(value: object) -> str:
    if isinstance(value, tuple):
        return ",".join(map(str, value)) if value else "-"
    return "none" if value == -1 else str(value)
