"""`klamm features`: finalized feature levels, as kafka-features shows and changes them."""

from typing import Annotated, Any, Final

import typer
from msgspec.structs import asdict

from admin.cli.options import Cluster, DryRunOption, talks_to_cluster
from admin.cli.output import examples, say, write
from admin.connecting.client import AdminClient
from cluster.cli.documents import Format
from cluster.model.errors import ErrorCode
from cluster.model.exit_codes import ExitCode
from cluster.requests.configs import (
    FeatureUpdate,
    PlanFeatureUpdatesResponse,
    UpdatableFeatureResult,
    UpdateFeaturesResponse,
)

app = typer.Typer(no_args_is_help=True, help="Describe, upgrade, downgrade and disable features.")

FeatureOption = Annotated[
    list[str], typer.Option("--feature", metavar="NAME=LEVEL", help="Feature and level. Repeatable.")
]
NameOption = Annotated[list[str], typer.Option("--feature", metavar="NAME", help="Feature to disable. Repeatable.")]
UnsafeOption = Annotated[bool, typer.Option("--unsafe", help="Allow a downgrade that may lose metadata.")]
_UPGRADE: Final = 1
_SAFE_DOWNGRADE: Final = 2
_UNSAFE_DOWNGRADE: Final = 3


@app.command(epilog=examples("klamm features describe", "klamm features describe -o json"))
@talks_to_cluster()
def describe(*, cluster: Cluster) -> None:
    """Show each feature: its finalized level, and the levels that the controller and each broker support."""
    described = cluster.ask(AdminClient.describe_features)
    features = [
        asdict(f)
        | {
            "brokers": [
                {"id": b.broker_id, "min_version_level": b.min_version_level, "max_version_level": b.max_version_level}
                for b in f.brokers
            ]
        }
        for f in described.features
    ]
    if features or cluster.form is not Format.TABLE:
        rows = (
            (
                f.feature,
                f.finalized_level,
                _range(f.min_version_level, f.max_version_level),
                [f"{b.broker_id}:{_range(b.min_version_level, b.max_version_level)}" for b in f.brokers],
            )
            for f in described.features
        )
        document = {"enabled": described.enabled, "features": features}
        write(document, cluster.form, ("feature", "finalized", "controller", "brokers"), rows)
    if not described.enabled:
        say("inter.broker.protocol.version of this cluster does not support feature versioning")
    elif not features:
        say("no features")


@app.command(epilog=examples("klamm features upgrade --feature group.version=1 --dry-run"))
@talks_to_cluster()
def upgrade(feature: FeatureOption, *, dry_run: DryRunOption = False, cluster: Cluster) -> None:
    """Raise finalized feature levels. Every registered broker must support the new level."""
    _update([(name, level, _UPGRADE) for name, level in map(_parse, feature)], dry_run, cluster)


@app.command(epilog=examples("klamm features downgrade --feature group.version=0"))
@talks_to_cluster()
def downgrade(
    feature: FeatureOption, *, unsafe: UnsafeOption = False, dry_run: DryRunOption = False, cluster: Cluster
) -> None:
    """Lower finalized feature levels. --unsafe allows a downgrade that may lose metadata."""
    kind = _UNSAFE_DOWNGRADE if unsafe else _SAFE_DOWNGRADE
    _update([(name, level, kind) for name, level in map(_parse, feature)], dry_run, cluster)


@app.command(epilog=examples("klamm features disable --feature group.version"))
@talks_to_cluster()
def disable(
    feature: NameOption, *, unsafe: UnsafeOption = False, dry_run: DryRunOption = False, cluster: Cluster
) -> None:
    """Remove finalized features, so that brokers need not support them."""
    _update([(name, 0, _UNSAFE_DOWNGRADE if unsafe else _SAFE_DOWNGRADE) for name in feature], dry_run, cluster)


def _update(wanted: list[tuple[str, int, int]], dry_run: bool, cluster: Cluster) -> None:
    updates = [FeatureUpdate(*update) for update in wanted]

    async def main(client: AdminClient) -> tuple[dict[str, int], UpdateFeaturesResponse | PlanFeatureUpdatesResponse]:
        described = (await client.describe_features()).features
        before = {f.feature: f.finalized_level for f in described if f.finalized_level is not None}
        answer = await (client.plan_feature_updates if dry_run else client.update_features)(updates)
        client.results_for([f"feature {update.feature}" for update in updates], answer.results)
        return before, answer

    before, answer = cluster.ask(main, check="klamm features describe")
    rows: list[dict[str, Any]] = [
        {
            "feature": update.feature,
            "before": before.get(update.feature),
            "after": _level_after(update, result, before),
            "error": result.error_code.name,
            "message": result.error_message or "",
        }
        for update, result in zip(updates, answer.results, strict=True)
    ]
    refused = sum(row["error"] != ErrorCode.NONE.name for row in rows)
    say(f"{len(rows) - refused} {'would be ' if dry_run else ''}updated, {refused} refused")
    columns = ("feature", "before", "after", "error", "message")
    write({"features": rows, "dry_run": dry_run}, cluster.form, columns, (tuple(row.values()) for row in rows))
    if refused:
        raise typer.Exit(ExitCode.REFUSED)


def _level_after(update: FeatureUpdate, result: UpdatableFeatureResult, before: dict[str, int]) -> int | None:
    """Compute the finalized level after an update, None if it is not finalized. A refused update changes nothing."""
    if result.error_code is not ErrorCode.NONE:
        return before.get(update.feature)
    return update.max_version_level if update.max_version_level > 0 else None


def _parse(text: str) -> tuple[str, int]:
    name, equals, level = text.rpartition("=")
    if not (name.strip() and equals and level.strip().isdecimal()):
        raise typer.BadParameter(f"{text!r}: must be NAME=LEVEL, such as group.version=1", param_hint="--feature")
    return name.strip(), int(level)


def _range(least: int | None, most: int | None) -> str | None:
    return None if least is None else f"{least}-{most}"
