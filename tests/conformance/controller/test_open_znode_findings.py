"""Znodes that everyone may change are a finding where znodes are to have owners."""

import pytest

from cluster.requests.cluster import DescribeFindingsRequest
from tests.controllers.worlds import quiesce, run_virtually, running_cluster

OF_OWNER = {"zookeeper_set_acl": True, "java_security_auth_login_config": "login.jaas"}


@pytest.mark.parametrize("settings", [{}, OF_OWNER])
def test_open_znodes_are_found_if_they_are_to_have_owners(settings: dict[str, object]) -> None:
    """The sessions of the simulation set no ACLs, as those of a tool may not."""

    async def scenario() -> None:
        world, c = await running_cluster(1, **settings)
        for path in ("/kafka-acl", "/kafka-acl/Topic", "/kafka-acl/Topic/orders"):
            await world.create(path)
        await quiesce()
        found = [f for f in (await c.ask(DescribeFindingsRequest())).findings if f.kind == "open_znode"]
        if not settings:
            assert found == []
            return
        (finding,) = found
        assert " of this kind, the first 3: /brokers: everyone who reaches ZooKeeper may change it" in finding.detail
        assert "klamm zookeeper-security-migration --zookeeper.acl secure" in finding.detail

    run_virtually(scenario)
