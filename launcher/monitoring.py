"""`klamm monitoring`: the configuration of Prometheus, Alertmanager and Grafana, of clones and wheels alike."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from admin.cli.options import DataOption, FormatOption
from admin.cli.output import examples, say, write
from admin.cli.target import parse_addresses
from cluster.cli.documents import Format
from cluster.model.errors import StartupError
from cluster.model.printable import counted, path_text
from launcher.installation import ROOT

app = typer.Typer()

RUNBOOKS: Final = "alerts.md"
_DEPLOY: Final = ROOT / "deploy"
_RUNBOOKS_OF_RULES: Final = "docs/alerts.md"
_COPIES: Final = {
    f"prometheus/{path.name}": path for path in sorted((_DEPLOY / "prometheus/copies").glob("*.rules.yaml"))
}
"""Written on request only: sums count what they record a second time."""
_COPIED: Final = {
    "prometheus/{name}": sorted((_DEPLOY / "prometheus").glob("*.rules.yaml")),
    "grafana/dashboards/{name}": sorted((_DEPLOY / "grafana/dashboards").glob("*.json")),
    "grafana/provisioning/dashboards/{name}": [_DEPLOY / "grafana/provisioning/dashboards/klamm.yaml"],
    "grafana/provisioning/datasources/{name}": [_DEPLOY / "grafana/provisioning/datasources/prometheus.yaml"],
    "alertmanager.yml": [_DEPLOY / "docker/alertmanager.yml"],
    RUNBOOKS: [ROOT / "docs" / RUNBOOKS],
}
"""Where each file goes below the output folder."""


@app.command(
    epilog=examples(
        "klamm monitoring --output monitoring                     (of the cluster of 'klamm up')",
        "klamm monitoring --output monitoring --controller c1:9404 --controller c2:9404 --broker b1:9404",
        "klamm monitoring --output monitoring --strimzi           (also for Strimzi's dashboards)",
        "prometheus --config.file=monitoring/prometheus/prometheus.yml",
        exit_codes="0 written; 1 cannot be written, or is there already; 2 wrong usage.",
    )
)
def monitoring(
    *,
    output: Annotated[Path, typer.Option(file_okay=False, help="Folder to write to; new, unless with --force.")],
    data: DataOption = Path(".klamm"),
    controller: Annotated[
        list[str] | None, typer.Option(metavar="HOST:PORT", help="Metrics of a controller. Repeatable.")
    ] = None,
    broker: Annotated[
        list[str] | None, typer.Option(metavar="HOST:PORT", help="Metrics of a broker. Repeatable.")
    ] = None,
    audit: Annotated[list[str] | None, typer.Option(metavar="HOST:PORT", help="Metrics of an audit.")] = None,
    alertmanager: Annotated[str, typer.Option(metavar="HOST:PORT", help="Where alerts are sent.")] = "127.0.0.1:9093",
    prometheus: Annotated[
        str, typer.Option(metavar="HOST:PORT", help="Metrics of Prometheus itself, which watches its own rules.")
    ] = "127.0.0.1:9090",
    strimzi: Annotated[
        bool, typer.Option("--strimzi", help="Also copies of metrics for Strimzi's dashboards: sums count them too.")
    ] = False,
    confluent: Annotated[bool, typer.Option("--confluent", help="The same for Confluent's dashboards.")] = False,
    runbooks: Annotated[
        str | None, typer.Option(metavar="URL", help="URL of alerts.md, for links in alerts. Default: the file's path.")
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Replace files that are there, and remove copies that are not asked for.")
    ] = False,
    form: FormatOption = Format.TABLE,
) -> None:
    """Write the configuration of Prometheus, Alertmanager and Grafana: targets, alerts, dashboards.

    Targets are those of --controller, --broker and --audit, else the cluster
    that 'klamm up' started, whose file of targets Prometheus follows.
    Alertmanager's file sends alerts to nobody yet: alerts.md says how to add
    a receiver.

    With --strimzi and --confluent Prometheus also records klamm's metrics
    under the labels of those dashboards, most under the same name. Your own
    sums count them too, unless they select klamm_copy="".
    """
    jobs = {"klamm-controller": controller, "klamm-broker": broker, "klamm-audit": audit}
    addresses = {job: [a for text in given for a in parse_addresses(text)] for job, given in jobs.items() if given}
    (manager,) = parse_addresses(alertmanager, "--alertmanager")
    (itself,) = parse_addresses(prometheus, "--prometheus")
    scraped = _jobs(addresses) if addresses else [_local_job(data)]
    link = runbooks or str((output / RUNBOOKS).absolute())
    files = {where.format(name=path.name): path for where, paths in _COPIED.items() for path in paths}
    contents = {name: path.read_text("utf-8").replace(_RUNBOOKS_OF_RULES, link) for name, path in files.items()}
    contents["prometheus/prometheus.yml"] = _prometheus([*scraped, _own_job(itself)], manager)
    wanted = {"strimzi": strimzi, "confluent": confluent}
    copies = {name: path for name, path in _COPIES.items() if wanted[path.name.partition(".")[0]]}
    contents |= {name: path.read_text("utf-8") for name, path in copies.items()}
    _write(output, contents, force=force)
    row = {"folder": path_text(output), "files": sorted(contents)}
    write(row, form, ("folder", "files"), [(row["folder"], len(contents))])
    say(f"{counted(len(contents), 'file')} written; Prometheus reads {path_text(output / 'prometheus/prometheus.yml')}")


def _jobs(addresses: dict[str, list[str]]) -> list[dict[str, Any]]:
    """Rules and dashboards need the names of the jobs, and the label `node`."""
    label = [{"source_labels": ["__address__"], "target_label": "node"}]
    return [
        {"job_name": job, "static_configs": [{"targets": found}], "relabel_configs": label}
        for job, found in addresses.items()
    ]


def _local_job(data: Path) -> dict[str, Any]:
    """The processes of `klamm up`, which writes their addresses, jobs and nodes into a file."""
    from deploy.local.cluster_folder import TARGETS_FILE

    found = {"files": [str((data / TARGETS_FILE).absolute())], "refresh_interval": "5s"}
    return {"job_name": "klamm", "file_sd_configs": [found]}


def _own_job(address: str) -> dict[str, Any]:
    """The alert RulesFailing needs Prometheus's own metrics."""
    return {"job_name": "prometheus", "static_configs": [{"targets": [address]}]}


def _prometheus(jobs: Sequence[dict[str, Any]], alertmanager: str) -> str:
    import yaml

    document = {
        "global": {"scrape_interval": "15s", "evaluation_interval": "15s"},
        "rule_files": ["*.rules.yaml"],
        "alerting": {"alertmanagers": [{"static_configs": [{"targets": [alertmanager]}]}]},
        "scrape_configs": list(jobs),
    }
    text: str = yaml.safe_dump(document, sort_keys=False)
    return text


def _write(folder: Path, contents: dict[str, str], *, force: bool) -> None:
    """Write the files. Raises StartupError if some are there already, or cannot be written.

    Prometheus would load copies of an earlier call: they are removed if they are not among the contents.
    """
    there = [name for name in sorted({*contents, *_COPIES}) if (folder / name).exists()]
    if there and not force:
        raise StartupError(f"{folder / there[0]}: is there already; name another folder, or replace it with --force")
    try:
        for name in set(there) - set(contents):
            (folder / name).unlink()
        for name, text in contents.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, "utf-8")
    except OSError as error:
        raise StartupError(f"{error.filename}: cannot be written: {error.strerror}") from error
