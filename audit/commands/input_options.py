"""The options of `klamm audit run` that say what is read: folders, URIs, or a Kafka topic."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from audit.topic.topics import Topic

LogDirOrUrlOption = Annotated[
    list[str] | None,
    typer.Option(
        "--log-dir",
        metavar="DIR|URI",
        help="Folder with state-change logs, or with sealed segments, such as s3a://BUCKET/FOLDER. Repeatable.",
    ),
]


def inputs_of(
    log_dirs: Sequence[str] | None, kafka: str, topic: str, connector: str, *, until_clean: bool
) -> "tuple[Sequence[Path | str] | Topic, list[Path]]":
    """Find the inputs that these options name, and the local folders among them. Raises BadParameter."""
    if bool(kafka) != bool(topic):
        raise typer.BadParameter("--kafka and --topic go together", param_hint="--kafka" if kafka else "--topic")
    if bool(kafka) == bool(log_dirs):
        raise typer.BadParameter("give --log-dir, or --kafka and --topic", param_hint="--log-dir")
    if not kafka:
        folders = _folders(log_dirs or ())
        return folders, _local(folders, until_clean)
    if until_clean:
        raise typer.BadParameter("follows local folders only; use --once for a topic", param_hint="--until-clean")
    from audit.topic.topics import Topic  # noqa: PLC0415

    return Topic(kafka, topic, connector), []


def _folders(log_dirs: Sequence[str]) -> list[Path | str]:
    """Local folders as paths, others as they are."""
    found: list[Path | str] = [name if "://" in name else Path(name) for name in log_dirs]
    for folder in found:
        if isinstance(folder, Path) and not folder.is_dir():
            raise typer.BadParameter(f"{folder}: is not a directory", param_hint="--log-dir")
    if len({type(folder) is str for folder in found}) > 1:
        raise typer.BadParameter("local folders and URIs do not go together: give file:///… for the local ones")
    return found


def _local(folders: Sequence[Path | str], until_clean: bool) -> list[Path]:
    local = [folder for folder in folders if isinstance(folder, Path)]
    if until_clean and len(local) < len(folders):
        raise typer.BadParameter("follows local folders only; use --once for URIs", param_hint="--until-clean")
    return local
