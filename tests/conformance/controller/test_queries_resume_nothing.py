"""A query or a dry run that fails leads to no resumption: it stopped nothing."""

from typing import Any

import pytest
from msgspec.structs import replace

from cluster.model.errors import ApiError, ZooKeeperError
from cluster.requests.configs import TOPIC_RESOURCE, AlterableConfig, AlterConfigsRequest, AlterConfigsResource
from cluster.requests.topics import DescribeTopicsRequest
from tests.controllers.worlds import quiesce, run_virtually, running_cluster

SETTINGS = AlterConfigsRequest((AlterConfigsResource(TOPIC_RESOURCE, "u", (AlterableConfig("retention.ms", 0, "7"),)),))


@pytest.mark.rule("D-28")
@pytest.mark.parametrize(
    "request_", [DescribeTopicsRequest(("u",)), replace(SETTINGS, validate_only=True)], ids=["query", "dry-run"]
)
def test_a_query_or_a_dry_run_that_fails_retries_nothing(request_: Any) -> None:
    async def main() -> None:
        world, c = await running_cluster(1, 2, auto_leader_rebalance_enable=False)
        await world.create_topic("u", [1, 2])
        await world.leads("u", leader=1)
        await quiesce()
        c.zookeeper.get_many = unreadable  # type: ignore[method-assign]
        with pytest.raises(ApiError):
            await c.ask(request_)
        assert c.controller._active is not None
        assert c.controller._active._resumption is None
        await c.stop()

    async def unreadable(*_paths: Any, **_options: Any) -> Any:
        raise ZooKeeperError("not to be read")

    run_virtually(main)
