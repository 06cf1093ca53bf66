"""The images of the stack: from a registry if one is reached, else made of Debian's packages and pip's wheels."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

from tests.compose.engine import Engine, NoEngineError, run
from tests.documents.pages import ROOT
from tests.observability.zookeeper_metrics import NoProviderError, provider_jars

BASE: Final = "klamm-test-base"
CORE_BYTES_MAX: Final = 250_000_000
_DEBIANS_ZOOKEEPER: Final = "3.8.0"
_SERVICES: Final = "klamm-test-services"
_DEBIANS: Final = ("zookeeper", "prometheus", "alertmanager")
_PACKAGES: Final = ("openjdk-17-jre-headless", "zookeeper", "prometheus", "prometheus-alertmanager", "wget")


class Images:
    """`variables`: for compose, over those in its `.env`. `has_grafana`: whether a registry has given that image."""

    def __init__(self, base: str, variables: dict[str, str], *, has_grafana: bool) -> None:
        self.base, self.variables, self.has_grafana = base, variables, has_grafana


def copy_tree(folder: Path) -> Path:
    """What git knows of this tree, and what is new in it: the context of the build, without its environment."""
    names = run(["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"], cwd=ROOT).stdout
    tree = folder / "tree"
    for name in filter(None, names.split("\0")):
        if (ROOT / name).is_file():
            (tree / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, tree / name)
    return tree


def make_images(engine: Engine, tree: Path) -> Images:
    """Build klamm's images, after pulling or making those that they and the stack need. Raises NoEngineError."""
    defaults = dict(
        line.split("=", 1) for line in (tree / "deploy/docker/.env").read_text().splitlines() if re.match(r"\w+=", line)
    )
    if run(["docker", "pull", "-q", defaults["KLAMM_BASE"]], check=False, env=engine.environment).returncode == 0:
        print("images come from a registry", flush=True)
        images = Images(defaults["KLAMM_BASE"], {}, has_grafana=True)
    else:
        print("no image registry is reached: images are made here, without Grafana", flush=True)
        images = _make_bases(engine, tree)
    for target, name in (("core", "klamm"), ("audit", "klamm-audit")):
        _build(
            engine,
            tree,
            "--file=deploy/docker/Dockerfile",
            f"--target={target}",
            f"--tag={name}",
            f"--build-arg=BASE={images.base}",
            *(["--network=none", "--build-arg=PIP_NO_INDEX=1"] if not images.has_grafana else []),
        )
        print(f"image {name}: {size(engine, name) / 1e6:.0f} MB, base {size(engine, images.base) / 1e6:.0f} MB")
    return images


def size(engine: Engine, image: str) -> int:
    """Bytes on disk."""
    return int(engine.docker("image", "inspect", "--format={{.Size}}", image))


def _make_bases(engine: Engine, tree: Path) -> Images:
    if os.geteuid() != 0 or shutil.which("debootstrap") is None:
        raise NoEngineError("no image registry is reached, and images can be made by root with debootstrap only")
    mirror, suite = _debian()
    root = engine.folder / "debian"
    print(f"debootstrap {suite}", flush=True)
    included = "--include=python3,python3-venv,ca-certificates"
    run(["debootstrap", "--variant=minbase", included, suite, str(root), mirror])
    _import(engine, root, BASE)
    version = run(["chroot", str(root), "python3", "-c", "import sys; print('%d.%d' % sys.version_info[:2])"]).stdout
    _fill_wheelhouse(tree, version.strip())
    print(f"apt-get install {' '.join(_PACKAGES)}", flush=True)
    shutil.copy("/etc/resolv.conf", root / "etc/resolv.conf")
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for command in (("update",), ("install", "-y", "--no-install-recommends", *_PACKAGES), ("clean",)):
        run([*_in_chroot(root), "apt-get", "-qq", *command], env=environment)
    _import(engine, root, _SERVICES)
    shutil.rmtree(root, ignore_errors=True)
    _add_metrics_provider(tree / "tests/compose/images/zookeeper/jars")
    for name in _DEBIANS:
        folder = tree / "tests/compose/images" / name
        _build(engine, folder, f"--build-arg=SERVICES={_SERVICES}", f"--tag=klamm-test-{name}", "--network=none")
    variables = {f"{name.upper()}_IMAGE": f"klamm-test-{name}" for name in _DEBIANS}
    return Images(BASE, {**variables, "KLAMM_BASE": BASE}, has_grafana=False)


def _add_metrics_provider(folder: Path) -> None:
    """ZooKeeper's provider of metrics for Prometheus, which the official image has and Debian has not."""
    folder.mkdir()
    try:
        jars = provider_jars(_DEBIANS_ZOOKEEPER)
    except NoProviderError as error:
        raise NoEngineError(str(error)) from error
    for jar in jars:
        shutil.copy(jar, folder)


def _in_chroot(root: Path) -> list[str]:
    """With a /proc, which Java's packages need, and which ends with the command."""
    script = 'mount -t proc proc "$0/proc" && exec chroot "$0" "$@"'
    return ["unshare", "--mount", "sh", "-c", script, str(root)]


def _debian() -> tuple[str, str]:
    """Mirror and suite of this machine's own Debian, from apt's sources."""
    release = dict(line.split("=", 1) for line in Path("/etc/os-release").read_text().splitlines() if "=" in line)
    if release.get("ID") != "debian":
        raise NoEngineError("no image registry is reached, and this is no Debian to make images of")
    sources = [Path("/etc/apt/sources.list"), *sorted(Path("/etc/apt/sources.list.d").glob("debian*"))]
    text = "\n".join(path.read_text() for path in sources if path.exists())
    found = re.search(r"^URIs:\s*(\S+)|^deb\s+(?:\[[^]]*\]\s+)?(\S+)", text, re.MULTILINE)
    if found is None:
        raise NoEngineError("no image registry is reached, and apt's sources name no mirror")
    return found[1] or found[2], release["VERSION_CODENAME"].strip('"')


def _fill_wheelhouse(tree: Path, version: str) -> None:
    own = f"{sys.version_info.major}.{sys.version_info.minor}"
    python = sys.executable if own == version else shutil.which(f"python{version}")
    if python is None:
        raise NoEngineError(f"Debian's Python is {version}, and there is none on this machine to make wheels for it")
    print(f"wheels for Python {version}", flush=True)
    run([str(tree / "deploy/docker/fill-wheelhouse")], env={**os.environ, "PYTHON": python})


def _import(engine: Engine, root: Path, name: str) -> None:
    with subprocess.Popen(["tar", "-C", str(root), "--one-file-system", "-c", "."], stdout=subprocess.PIPE) as tar:
        run(["docker", "import", "-", name], stdin=tar.stdout, env=engine.environment)
    assert tar.returncode == 0, f"tar of {root}: exit code {tar.returncode}"


def _build(engine: Engine, context: Path, *options: str) -> None:
    # Debian's own client builds with BuildKit; others only with a plugin, and else as in the last decade.
    command = ["docker", "build", "--quiet", *options, "."]
    modern = {**engine.environment, "DOCKER_BUILDKIT": "1"}
    if run(command, check=False, cwd=context, env=modern).returncode != 0:
        run(command, cwd=context, env={**engine.environment, "DOCKER_BUILDKIT": "0"})
