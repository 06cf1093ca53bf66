"""The options of `klamm audit run` that concern Spark, and `klamm audit package`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from cluster.cli.typed_command import typed_command
from cluster.model.errors import ConfigError, StartupError
from cluster.model.exit_codes import ExitCode

if TYPE_CHECKING:
    from audit.spark.settings import SparkSettings

_PANEL: Final = "Spark"

MasterOption = Annotated[
    str,
    typer.Option(
        metavar="URL",
        rich_help_panel=_PANEL,
        help="Where Spark runs: local[4], spark://HOST:7077, yarn, … Default: this machine.",
    ),
]
MemoryOption = Annotated[
    str,
    typer.Option(
        metavar="SIZE",
        rich_help_panel=_PANEL,
        help="Memory of the JVM on this machine, or of each executor of a cluster. Python needs its own beside it.",
    ),
]
CoresOption = Annotated[
    int | None,
    typer.Option(
        min=1, max=1024, rich_help_panel=_PANEL, help="Cores to use, on a cluster in all. Default: 4 of this machine."
    ),
]
PartitionsOption = Annotated[
    int | None,
    typer.Option(min=1, max=1024, rich_help_panel=_PANEL, help="Tasks of a batch. Default: cores; 16 on a cluster."),
]
TriggerOption = Annotated[
    float,
    typer.Option(min=0, max=86_400, metavar="SECONDS", rich_help_panel=_PANEL, help="Time between starts of batches."),
]
ConfOption = Annotated[
    list[str] | None,
    typer.Option("--conf", metavar="spark.X=Y", rich_help_panel=_PANEL, help="Any other Spark setting. Repeatable."),
]
CheckpointOption = Annotated[
    str,
    typer.Option(
        metavar="DIR",
        rich_help_panel=_PANEL,
        help="Where Spark keeps its offsets, if not below --output: needed once for an output on S3.",
    ),
]
ClassArchiveOption = Annotated[
    bool,
    typer.Option(
        rich_help_panel=_PANEL, help="Keep the JVM's classes in ~/.cache/klamm (180 MB), for a quicker start."
    ),
]


def spark_settings(
    master: str, memory: str, cores: int | None, partitions: int | None, conf: list[str] | None, *, class_archive: bool
) -> "SparkSettings":
    """The settings that these options ask for. Raises BadParameter."""
    from audit.spark.settings import SparkSettings, parse_conf  # noqa: PLC0415

    try:
        given = parse_conf(conf or [])
    except ConfigError as error:
        raise typer.BadParameter(str(error), param_hint="--conf") from None
    try:
        return SparkSettings(master, memory, cores, partitions, given, class_archive)
    except ConfigError as error:
        raise typer.BadParameter(str(error), param_hint="--memory") from None


def package(
    output: Annotated[Path, typer.Option(help="The zip to write.", dir_okay=False)] = Path("klamm-audit.zip"),
) -> None:
    """Pack what the workers of a Spark cluster need to run the audit, about 90 MB.

    klamm's packages and those that they import. Workers then need Spark, and
    Python of this version, but no klamm and no network. 'klamm audit run
    --master' packs by itself; this is for spark-submit, and to keep the file
    where the workers can read it.
    """
    from audit.spark.packages import FOLDER, python_of_workers, write_package  # noqa: PLC0415

    try:
        size = write_package(output)
    except (OSError, StartupError) as error:
        typer.echo(f"{output}: could not be written: {error}", err=True)
        raise typer.Exit(ExitCode.REFUSED) from None
    typer.echo(f"{output}: {size / 1e6:.0f} MB, for workers with {python_of_workers()}")
    typer.echo(f"Use: {typed_command()} audit run --master URL --conf spark.archives={output}#{FOLDER} …")
