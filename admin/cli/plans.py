"""Writes a plan, the result of a dry run."""

from collections.abc import Iterable
from typing import Any, Final
from urllib.parse import unquote

import typer
from msgspec.structs import asdict

from cluster.cli.documents import write_table
from cluster.requests.configs import USER_RESOURCE
from cluster.requests.plans import DescribedPartition, Plan, PlannedSetting
from cluster.znodes.configs import DEFAULT_ENTITY

_RESOURCES: Final = {2: "topic", 4: "broker", 64: "client", 65: "user"}


def plan_document(plan: Plan) -> dict[str, Any]:
    """Describe a plan by its parts.

    They are `changes[]` {topic, partition, before, after}, `requests[]` {broker, request, partitions, delete} and
    `settings[]` {resource, name, config, before, after}.
    """
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
        "requests": [
            {"broker": r.broker_id, "request": r.name, "partitions": r.partitions, "delete": r.delete}
            for r in plan.requests
        ],
        "settings": [
            {
                "resource": _RESOURCES.get(s.resource_type, str(s.resource_type)),
                "name": _name_of(s),
                "config": s.name,
                "before": s.before,
                "after": s.after,
            }
            for s in plan.settings
        ],
    }


def partition_document(p: DescribedPartition) -> dict[str, Any]:
    return {name: list(v) if isinstance(v, tuple) else v for name, v in asdict(p).items()}


def write_plan(plan: Plan) -> None:
    """Write up to three tables: settings and partitions that would change, and the requests that brokers would get."""
    if not (plan.changes or plan.settings):
        typer.echo("no changes")
    tables = [_settings(plan), _changes(plan), _requests(plan)]
    for number, (columns, rows) in enumerate(table for table in tables if table[1]):
        if number:
            typer.echo()
        write_table(columns, rows)


def join_plans(plans: Iterable[Plan | None]) -> Plan:
    """Concatenate the plans of several requests; None counts as an empty plan."""
    there = [plan for plan in plans if plan is not None]
    return Plan(
        tuple(change for plan in there for change in plan.changes),
        tuple(request for plan in there for request in plan.requests),
        tuple(setting for plan in there for setting in plan.settings),
    )


_Table = tuple[tuple[str, ...], list[tuple[object, ...]]]


def _settings(plan: Plan) -> _Table:
    rows: list[tuple[object, ...]] = [
        (
            f"{_RESOURCES.get(s.resource_type, s.resource_type)} {_name_of(s)}",
            s.name,
            f"{_set_to(s.before)} -> {_set_to(s.after)}",
        )
        for s in plan.settings
    ]
    return ("resource", "config", "value"), rows


def _name_of(setting: PlannedSetting) -> str:
    """The name as people give it; that of a user is the name of a znode."""
    if setting.resource_type != USER_RESOURCE:
        return setting.resource_name or "default"
    user, of_client, client = setting.resource_name.partition("/clients/")
    names = ["default" if name == DEFAULT_ENTITY else unquote(name) for name in (user, client)]
    return f"{names[0]} with client {names[1]}" if of_client else names[0]


def _changes(plan: Plan) -> _Table:
    columns = ("topic", "partition", "leader", "leader_epoch", "isr", "replicas", "adding", "removing")
    fields = ("leader", "leader_epoch", "isr", "replicas", "adding_replicas", "removing_replicas")
    return columns, [
        (c.topic, c.before.partition, *(change_text(getattr(c.before, f), getattr(c.after, f)) for f in fields))
        for c in plan.changes
    ]


def _requests(plan: Plan) -> _Table:
    return ("broker", "request", "partitions"), [
        (r.broker_id, f"{r.name}, delete" if r.delete else r.name, r.partitions) for r in plan.requests
    ]


def _set_to(value: str | None) -> str:
    return "not set" if value is None else value


def change_text(before: object, after: object) -> str:
    """Format `before -> after`, or the value that stays."""
    return _text(before) if before == after else f"{_text(before)} -> {_text(after)}"


def _text(value: object) -> str:
    if isinstance(value, tuple):
        return ",".join(map(str, value)) if value else "-"
    return "none" if value == -1 else str(value)
