"""What the contract suites run on."""

import pytest

from tests.contract.zookeeper_worlds import RealWorld, SimulatedWorld, World


@pytest.fixture(params=["simulated", pytest.param("real", marks=pytest.mark.real)])
def world(request: pytest.FixtureRequest) -> World:
    if request.param == "simulated":
        return SimulatedWorld()
    return RealWorld(request.getfixturevalue("zookeeper"))
