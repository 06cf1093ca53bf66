"""The bill of materials: valid CycloneDX 1.6, complete, and the same for the same environment."""

import json
from pathlib import Path
from typing import Any

import pytest
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from packaging.utils import canonicalize_name

from deploy.local.locked_jars import FOLDER, SUFFIX, JarLock
from deploy.make_sbom import bill_of_materials
from tests.processes.installations import declared


@pytest.fixture(scope="module")
def document() -> str:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SOURCE_DATE_EPOCH", "1700000000")
        made = bill_of_materials()
        assert bill_of_materials() == made
    return made


@pytest.fixture(scope="module")
def components(document: str) -> dict[str, dict[str, Any]]:
    return {component["purl"]: component for component in json.loads(document)["components"]}


def test_it_is_cyclonedx(document: str) -> None:
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(document) is None
    assert json.loads(document)["metadata"]["component"]["name"] == "klamm"


def test_every_package_that_klamm_requires_is_in_it_with_a_licence(components: dict[str, dict[str, Any]]) -> None:
    packages = {purl.removeprefix("pkg:pypi/").partition("@")[0]: one for purl, one in components.items()}
    assert {canonicalize_name(wanted.name) for wanted in declared("embedded", "audit")} <= packages.keys()
    unlicensed = [name for name, one in packages.items() if not name.startswith("pkg:") and not one.get("licenses")]
    assert not unlicensed
    assert "pytest" not in packages


def test_every_locked_jar_is_in_it_with_its_digest(components: dict[str, dict[str, Any]]) -> None:
    locks = [
        JarLock(name, name) for file in FOLDER.glob(f"*{SUFFIX}") if (name := Path(file).name.removesuffix(SUFFIX))
    ]
    assert len(locks) > 1
    for lock in locks:
        for jar in lock.jars():
            group, artifact, version = jar.coordinates.split(":")
            component = components[f"pkg:maven/{group}/{artifact}@{version}"]
            assert component["hashes"] == [{"alg": "SHA-256", "content": jar.sha256}]
            assert lock.name in {one["value"] for one in component["properties"]}
