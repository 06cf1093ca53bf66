"""What the producer says of brokers that throttle it, and for how long it says so."""

import asyncio

from admin.connecting.connection import ClusterConnection
from admin.moving.throttled_leaders import ThrottledLeaders

ADDRESS = "127.0.0.1:1"


async def test_a_throttle_is_named_until_a_broker_that_should_hear_again_does_not_answer() -> None:
    async with ClusterConnection([ADDRESS], client_id="app") as client:
        leaders = ThrottledLeaders(client)
        leaders.answered(ADDRESS, 60_000)
        leaders.hold({ADDRESS: asyncio.get_running_loop().time() + 90})
        # It holds back what it was sent before: no answer in time is no news.
        leaders.failed(ADDRESS)
        assert leaders.is_throttled
        assert leaders.describe(ADDRESS).startswith(f"throttled by quota: {ADDRESS} hears this client again in ")
        leaders.answered(ADDRESS, 1)
        await asyncio.sleep(0.01)
        assert leaders.describe(ADDRESS).endswith("only now and then")
        leaders.failed(ADDRESS)
        assert leaders.describe(ADDRESS) == ""
        assert leaders.until(ADDRESS) is None
        leaders.failed(ADDRESS)
        leaders.release()
