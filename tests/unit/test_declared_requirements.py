"""Every import of the product is of a distribution that its metadata require: what tests bring is not relied on.

Nor is what a requirement requires in turn: its next release may do without, as that of dateutil does without six.
"""

import sys
from collections.abc import Iterator
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest
from packaging.utils import canonicalize_name

from tests.processes.installations import ROOT, declared
from tests.unit.test_tidy import PACKAGES, imported, sources

EXTRAS = {
    "audit": ("audit", "audit-kafka", "audit-delta"),
    "cluster": ("kerberos",),
    "deploy": ("embedded",),
    "launcher": ("embedded", "audit"),
}
"""What a package may import beside the requirements of every installation."""
OURS = {Path(package).name for package in PACKAGES}
OWNERS = {
    # It is compiled where it is installed, with headers that few machines have.
    "gssapi": ["gssapi"],
    **packages_distributions(),
    # Several distributions share the first name.
    "google": [],
    "google.protobuf": ["protobuf"],
    "google.rpc": ["googleapis-common-protos"],
}


def is_shipped(path: Path) -> bool:
    """Whether users run it. What makes files of the repository, and benchmarks, may need the tools of the tests."""
    return not path.is_relative_to(ROOT / "benchmarks") and not path.name.startswith("make_")


def foreign_imports() -> Iterator[tuple[str, str]]:
    """Each package of ours with what it imports, late or not, that is neither ours nor Python's."""
    for path in filter(is_shipped, sources()):
        for module in imported(path):
            if module.partition(".")[0] not in {*OURS, *sys.stdlib_module_names}:
                yield path.relative_to(ROOT).parts[0], module


def owners(module: str) -> set[str]:
    """The distributions that a module may come from."""
    first, second = (*module.split("."), "")[:2]
    return {canonicalize_name(name) for name in OWNERS.get(f"{first}.{second}", OWNERS.get(first, []))}


def test_every_import_is_of_a_distribution_that_is_required() -> None:
    found = set(foreign_imports())
    required = {
        package: {canonicalize_name(wanted.name) for wanted in declared(*EXTRAS.get(package, ()))}
        for package, _ in found
    }
    assert required.keys() >= {"cluster", "controller", "broker_agent", "admin", "audit", "deploy", "launcher"}
    undeclared = {
        (package, module.partition(".")[0]) for package, module in found if owners(module).isdisjoint(required[package])
    }
    assert sorted(undeclared) == []


@pytest.mark.parametrize("module", ["pytest", "six", "google.auth", "no_such_module"])
def test_an_import_that_an_installation_does_not_satisfy_is_noticed(module: str) -> None:
    assert owners(module).isdisjoint(canonicalize_name(wanted.name) for wanted in declared("embedded", "audit"))
