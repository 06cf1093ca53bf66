"""Write the software bill of materials: what klamm runs with, as CycloneDX 1.6 in JSON.

    python -m deploy.make_sbom [FILE]

The Python packages are those of this environment that klamm requires, with its extras for running; the jars are those
of the lock files. Nothing is asked of a network. With `SOURCE_DATE_EPOCH` the same environment gives the same document.
"""

import os
import sys
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path
from typing import Final
from uuid import NAMESPACE_URL, uuid5

from cyclonedx.contrib.license.factories import LicenseFactory
from cyclonedx.model import HashAlgorithm, HashType, Property
from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.model.dependency import Dependency
from cyclonedx.output.json import JsonV1Dot6
from packageurl import PackageURL
from packaging.requirements import Requirement

from deploy.local.locked_jars import FOLDER, SUFFIX, JarLock, LockedJar

ROOT: Final = "klamm"
EXTRAS: Final = ("embedded", "audit", "kerberos")
"""Those of klamm with which it runs; `dev` is for its developers."""


def main() -> None:
    """Write the document to the file that is named, or else to stdout."""
    document = bill_of_materials()
    if len(sys.argv) > 1:
        Path(sys.argv[1]).write_text(document + "\n")
    else:
        sys.stdout.write(document + "\n")


def bill_of_materials() -> str:
    """Make the document."""
    packages, requires = _packages()
    components = {name: _component(found, name) for name, found in packages.items()}
    bom = Bom(serial_number=uuid5(NAMESPACE_URL, f"{ROOT} {distribution(ROOT).version}"))
    root = components.pop(ROOT)
    root.type = ComponentType.APPLICATION
    bom.metadata.component = root
    epoch = os.environ.get("SOURCE_DATE_EPOCH")
    bom.metadata.timestamp = datetime.now(UTC) if epoch is None else datetime.fromtimestamp(int(epoch), UTC)
    bom.components.update(components.values(), _jars())
    of = {ROOT: root, **components}
    for name, needed in requires.items():
        bom.dependencies.add(Dependency(of[name].bom_ref, [Dependency(of[one].bom_ref) for one in sorted(needed)]))
    return JsonV1Dot6(bom).output_as_string(indent=1)


def _packages() -> tuple[dict[str, Distribution], dict[str, set[str]]]:
    """Find the installed packages that klamm needs, by their normalised names, and what each of them requires."""
    found: dict[str, Distribution] = {}
    requires: dict[str, set[str]] = {}
    waiting = [Requirement(f"{ROOT}[{','.join(EXTRAS)}]")]
    seen: set[tuple[str, frozenset[str]]] = set()
    while waiting:
        wanted = waiting.pop()
        name, extras = _normalised(wanted.name), frozenset(wanted.extras)
        if (name, extras) in seen:
            continue
        seen.add((name, extras))
        found[name] = distribution(wanted.name)
        needed = [one for one in _requirements(found[name], extras) if _is_installed(one.name)]
        requires.setdefault(name, set()).update(_normalised(one.name) for one in needed)
        waiting += needed
    return found, requires


def _requirements(package: Distribution, extras: frozenset[str]) -> Iterator[Requirement]:
    """Yield what a package requires on this machine, with these extras."""
    for text in package.requires or ():
        wanted = Requirement(text)
        if wanted.marker is None or any(wanted.marker.evaluate({"extra": extra}) for extra in ("", *extras)):
            yield wanted


def _is_installed(name: str) -> bool:
    try:
        distribution(name)
    except PackageNotFoundError:
        return False
    return True


def _component(package: Distribution, name: str) -> Component:
    licences = [text for text in _licences(package.metadata.json) if text]
    return Component(
        name=name,
        version=package.version,
        type=ComponentType.LIBRARY,
        bom_ref=f"pypi/{name}",
        purl=PackageURL("pypi", None, name, package.version),
        licenses=[LicenseFactory().make_from_string(text) for text in licences[:1]],
    )


def _licences(metadata: Mapping[str, object]) -> Iterator[str]:
    """Yield what a package says of its licence, the most exact first."""
    yield str(metadata.get("license_expression", ""))
    classifiers = metadata.get("classifier", [])
    names = [str(one).rpartition(" :: ")[2] for one in classifiers if str(one).startswith("License ::")]  # type: ignore[attr-defined]
    yield from names
    yield str(metadata.get("license", "")).partition("\n")[0]


def _jars() -> Iterator[Component]:
    """The jars of all lock files, each once, with the programs that run with it."""
    programs: dict[LockedJar, list[str]] = {}
    for file in sorted(FOLDER.glob(f"*{SUFFIX}")):
        name = file.name.removesuffix(SUFFIX)
        for jar in JarLock(name, name).jars():
            programs.setdefault(jar, []).append(name)
    for jar, names in programs.items():
        group, artifact, version = jar.coordinates.split(":")
        yield Component(
            name=artifact,
            group=group,
            version=version,
            type=ComponentType.LIBRARY,
            bom_ref=f"maven/{jar.coordinates}",
            purl=PackageURL("maven", group, artifact, version),
            hashes=[HashType(alg=HashAlgorithm.SHA_256, content=jar.sha256)],
            properties=[Property(name="klamm:program", value=name) for name in names],
        )


def _normalised(name: str) -> str:
    return name.lower().replace("_", "-").replace(".", "-")


if __name__ == "__main__":
    main()
