"""`klamm bundle`: one archive with what somebody needs who is to help from afar, without secrets."""

import concurrent.futures
import errno
import io
import json
import os
import platform
import ssl
import stat
import subprocess
import sys
import tarfile
import time
import tomllib
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from functools import partial
from http.client import HTTPException
from importlib.metadata import distributions
from pathlib import Path
from typing import Annotated, BinaryIO, Final

import typer
from msgspec import Struct

from admin.cli.metrics_text import HTTPS, read_metrics
from admin.cli.options import Cluster, talks_to_cluster
from admin.cli.output import examples, say, write
from admin.cli.target import parse_addresses
from admin.connecting.waiting import NOTICE_AFTER_S
from cluster.model.bounds import FILE_BYTES
from cluster.model.errors import StartupError
from cluster.model.printable import counted
from cluster.process.local_cluster import LocalClusterState, read_cluster_state
from launcher.redaction import redact, redact_document

app = typer.Typer()

FILE_BYTES_MAX: Final = 2 << 20
"""Of one file in the archive, before compression; of a log its end is kept, of others their beginning."""
TOTAL_BYTES_MAX: Final = 64 << 20
_METRICS_TIMEOUT_S: Final = 5.0
_PROGRESS_S: Final = 10.0
_STARTS_S: Final = 30.0
"""All commands end after the timeout, which each of them has, and what a busy machine takes to start them."""
_AT_ONCE: Final = 32
_LOG_BYTES: Final = 256 << 10
_COMMANDS: Final = {
    "doctor.json": ("doctor",),
    "cluster.json": ("cluster", "describe"),
    "health.json": ("cluster", "health"),
    "topics.json": ("topics", "describe"),
    "deletions-and-topics.json": ("topics", "list"),
    "brokers.json": ("brokers", "describe", "--configs"),
    "reassignments.json": ("reassign", "list"),
    "features.json": ("features", "describe"),
    "load.json": ("top", "--once"),
}
"""By name in the archive: what is asked of the cluster, with -o json."""
_ENDINGS: Final = (".tar.gz", ".tgz")
_OTHER_ARCHIVES: Final = frozenset((".7z", ".bz2", ".gz", ".rar", ".tar", ".tbz2", ".txz", ".xz", ".zip", ".zst"))
_CUT: Final = "\n[cut: the rest does not fit into the archive]\n"


class _Part(Struct, frozen=True):
    name: str
    content: str


@app.command(
    epilog=examples(
        "klamm bundle",
        "klamm bundle --output incident.tgz",
        "klamm bundle --bootstrap broker-1:9092 --config /etc/klamm/broker.toml --log /var/log/klamm/broker.log",
        exit_codes="0 written; 1 cannot be written; 2 wrong usage.",
    )
)
@talks_to_cluster(timeout=10)
def bundle(
    *,
    output: Annotated[
        Path, typer.Option(help="Folder to write the archive to, or its name, which ends in .tar.gz or .tgz.")
    ] = Path(),
    config: Annotated[
        list[Path] | None, typer.Option(metavar="FILE", help="Add the configuration of a node. Repeatable.")
    ] = None,
    log: Annotated[list[Path] | None, typer.Option(metavar="FILE", help="Add the end of a log. Repeatable.")] = None,
    metrics: Annotated[
        list[str] | None,
        typer.Option(metavar="HOST:PORT", help="Add the metrics of a node; https://HOST:PORT with TLS. Repeatable."),
    ] = None,
    cluster: Cluster,
) -> None:
    """Write an archive for support: versions, checks, descriptions, health, configs, ends of logs, metrics.

    Secrets are removed: values of keys such as password, token and jaas,
    logins in URLs, private keys; files of logins are not read. Records are
    not in it, names of topics and addresses are. Look through it before you
    send it. Works while the cluster is down, with what is there.
    """
    name = f"klamm-bundle-{datetime.now(UTC):%Y%m%dT%H%M%SZ}"
    path = _target(output, name)
    state = _local_state(cluster)
    configs, logs, nodes = (
        list(config or ()),
        list(log or ()),
        [a for m in metrics or () for a in parse_addresses(m, "--metrics")],
    )
    if state is not None:
        configs += _files_in(cluster.target.data / "config", "*.toml")
        logs += _files_in(cluster.target.data / "logs", "*.log")
        nodes += [state.metrics_of(member) for member in state.nodes]
    read = partial(_metrics, cluster.target.tls_context(), min(_METRICS_TIMEOUT_S, cluster.timeout))
    ends_at = time.monotonic() + cluster.timeout + _STARTS_S
    gather: list[Callable[[], _Part]] = [
        _versions,
        *(partial(_answer, cluster, ends_at, name, command) for name, command in _COMMANDS.items()),
        *(partial(read, address) for address in dict.fromkeys(nodes)),
        *(partial(_config, path) for path in configs),
        *(partial(_log, path) for path in logs),
    ]
    with concurrent.futures.ThreadPoolExecutor(max_workers=_AT_ONCE) as pool:
        parts = _bounded(_awaited([pool.submit(part) for part in gather], ends_at))
    _write(path, name, parts)
    row = {"file": str(path), "bytes": path.stat().st_size, "parts": [part.name for part in parts]}
    write(row, cluster.form, ("file", "bytes"), [(row["file"], row["bytes"])])
    say(f"{counted(len(parts), 'file')} in the archive; look through it before you send it")


def _awaited(parts: Sequence["concurrent.futures.Future[_Part]"], ends_at: float) -> list[_Part]:
    """The parts in their order; while they are waited for, how many there are is said, and how long it may take."""
    pause_s = NOTICE_AFTER_S
    while (waiting := concurrent.futures.wait(parts, timeout=pause_s).not_done) and ends_at > time.monotonic():
        left_s = ends_at - time.monotonic()
        say(f"{len(parts) - len(waiting)} of {len(parts)} files collected; waiting up to {left_s:.0f} s more")
        pause_s = _PROGRESS_S
    return [part.result() for part in parts]


def _files_in(folder: Path, pattern: str) -> list[Path]:
    """Files of the folder itself: links would let whoever writes there choose what is sent away."""
    return [path for path in sorted(folder.glob(pattern)) if not path.is_symlink()]


def _open_file(path: Path) -> BinaryIO:
    """Open a regular file; nobody is waited for who might write to anything else. Raises OSError."""
    file = open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK))  # noqa: SIM115
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.close()
        raise OSError(errno.EINVAL, "is not a regular file")
    return file


def _bounded(parts: Iterable[_Part]) -> list[_Part]:
    """Return all parts; those that do not fit any more have only a line that says so."""
    left, bounded = TOTAL_BYTES_MAX, []
    for part in parts:
        left -= len(part.content)
        bounded.append(part if left >= 0 else _Part(part.name, _CUT))
    return bounded


def _target(output: Path, name: str) -> Path:
    """The file to write: `output` if it is named like the archive, else `name` in that folder. Raises BadParameter."""
    if output.is_dir():
        return output / f"{name}.tar.gz"
    is_named, endings = output.name.endswith(_ENDINGS), " or ".join(_ENDINGS)
    if output.exists():
        new = "a new file" if is_named else f"a new file that ends in {endings}"
        why = "is there already" if is_named else "is a file"
        raise typer.BadParameter(f"{output}: {why}: name {new}, or a folder", param_hint="--output")
    if is_named:
        return output
    if output.suffix in _OTHER_ARCHIVES:
        raise typer.BadParameter(
            f"{output}: the archive is a compressed tar: name a file that ends in {endings}, or a folder",
            param_hint="--output",
        )
    return output / f"{name}.tar.gz"


def _write(path: Path, name: str, parts: Sequence[_Part]) -> None:
    """Write the archive, which its owner alone can read; `name`: of the folder in it. Raises StartupError."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
        with os.fdopen(descriptor, "wb") as file, tarfile.open(fileobj=file, mode="w:gz") as archive:
            for part in parts:
                content = part.content.encode(errors="replace")
                entry = tarfile.TarInfo(f"{name}/{part.name}")
                entry.size, entry.mode = len(content), 0o600
                entry.mtime = int(datetime.now(UTC).timestamp())
                archive.addfile(entry, io.BytesIO(content))
    except OSError as error:
        raise StartupError(f"{path}: cannot be written: {error.strerror}; name another folder with --output") from error


def _versions() -> _Part:
    known = {d.metadata["Name"]: d.version for d in distributions() if d.metadata["Name"]}
    document = {
        "python": sys.version,
        "platform": platform.platform(),
        "made_at": datetime.now(UTC).isoformat(),
        "distributions": dict(sorted(known.items(), key=lambda item: item[0].lower())),
    }
    return _Part("versions.json", json.dumps(document, indent=1))


def _answer(cluster: Cluster, ends_at: float, name: str, command: Sequence[str]) -> _Part:
    """Return what a command says until all have to end; an error is an answer, too."""
    target = cluster.target
    where = ["--bootstrap", target.bootstrap] if target.bootstrap is not None else ["--data", str(target.data)]
    if target.command_config is not None:
        where += ["--command-config", str(target.command_config)]
    full = [sys.executable, "-P", "-m", "klamm", *command, *where, "--timeout", f"{cluster.timeout:g}", "-o", "json"]
    left_s = max(0, ends_at - time.monotonic())
    try:
        ended = subprocess.run(
            full, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=left_s, check=False
        )
    except subprocess.TimeoutExpired:
        return _Part(name, f"no answer within {left_s:.0f} s\n")
    try:
        answer = json.dumps(redact_document(json.loads(ended.stdout)), ensure_ascii=False, indent=1)
    except ValueError:
        answer = redact(ended.stdout)
    said = redact(ended.stderr)
    return _Part(
        name, _begin(answer) + (f"\n[exit code {ended.returncode}]\n{_begin(said)}" if ended.returncode else "")
    )


def _metrics(tls: ssl.SSLContext | None, timeout_s: float, address: str) -> _Part:
    try:
        text = read_metrics(address, timeout_s, tls)
    except (OSError, ValueError, HTTPException) as error:
        text = f"{address}: {error}\n"
    return _Part(f"metrics/{address.removeprefix(HTTPS).replace(':', '-')}.txt", _begin(redact(text)))


def _config(path: Path) -> _Part:
    """Comments are left out: they may have anything in them."""
    name = f"config/{_flat(path)}.json"
    try:
        with _open_file(path) as file:
            content = file.read(FILE_BYTES.maximum + 1)
        if len(content) > FILE_BYTES.maximum:
            return _Part(name, f"{path}: has more than {FILE_BYTES.maximum >> 20} MiB\n")
        document = tomllib.loads(content.decode())
    except OSError as error:
        return _Part(name, f"{path}: {error.strerror}\n")
    except RecursionError:
        return _Part(name, f"{path}: is not TOML: brackets are nested too deeply\n")
    except ValueError as error:
        # Not shown: what is not TOML may have a secret anywhere.
        return _Part(name, f"{path}: is not TOML at {str(error).rpartition('(')[2].rstrip(')')}\n")
    return _Part(name, _begin(json.dumps(redact_document(document), indent=1, default=str)))


def _log(path: Path) -> _Part:
    name = f"logs/{_flat(path)}"
    try:
        with _open_file(path) as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - _LOG_BYTES))
            text = file.read(_LOG_BYTES).decode(errors="replace")
    except OSError as error:
        return _Part(name, f"{path}: {error.strerror}\n")
    # Half a line may be the second half of a secret.
    whole = text if size <= _LOG_BYTES else text.partition("\n")[2]
    return _Part(name, redact(whole))


def _flat(path: Path) -> str:
    """A name for the file in the archive that says where it comes from."""
    return "-".join(path.resolve().parts[-3:])


def _begin(text: str) -> str:
    return text if len(text) <= FILE_BYTES_MAX else text[: FILE_BYTES_MAX - len(_CUT)] + _CUT


def _local_state(cluster: Cluster) -> LocalClusterState | None:
    if cluster.target.bootstrap is not None:
        return None
    try:
        return read_cluster_state(cluster.target.data)
    except StartupError as error:
        say(str(error))
        return None
