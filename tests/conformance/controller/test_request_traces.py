"""Who is told what, request by request: the whole of what each broker hears in the ordinary turns of a cluster's life.

One row for each thing that happens; brokers that hear the same share an entry. Topic t has the replicas [1,2,3], [2,3]
and [3,9], and nobody has ever seen broker 9.
"""

from collections.abc import Awaitable, Callable
from typing import Final

import pytest

from cluster.model.broker import BrokerId
from cluster.requests.agents import ControlledShutdownRequest
from cluster.requests.elections import PREFERRED, UNCLEAN
from cluster.znodes.paths import delete_topic_path
from tests.controllers.contexts import tp
from tests.controllers.elections import catch_up, cluster, elect, stop_broker
from tests.controllers.request_traces import requests_sent
from tests.controllers.worlds import RunningController, World, quiesce, run_virtually, until

Happening = Callable[[World, RunningController], Awaitable[object]]
Trace = list[tuple[str, Happening, dict[str, list[str]]]]
"""What happened, how, and what brokers "1,2" each heard of it."""


async def start_broker(world: World, c: RunningController, *brokers: int) -> None:
    await world.start_broker(*brokers)
    await until(lambda: c.context.brokers.live_ids.issuperset(brokers))


async def bounce(world: World, broker: int) -> None:
    await world.stop_broker(broker)
    await world.start_broker(broker)


STEPS: Final[Trace] = [
    (
        "a topic is created",
        lambda w, c: w.create_topic("t", [1, 2, 3], [2, 3], [3, 9]),
        {
            "1": [
                "lead by 1: new t-0 1/0 [1,2,3] v0 c1 of [1,2,3]",
                "know 1,2,3: t-0 1/0 [1,2,3] v0 c1 of [1,2,3] off []; t-1 2/0 [2,3] v0 c1 of [2,3] off [];"
                " t-2 3/0 [3] v0 c1 of [3,9] off [9]",
            ],
            "2": [
                "lead by 1,2: new t-0 1/0 [1,2,3] v0 c1 of [1,2,3]; new t-1 2/0 [2,3] v0 c1 of [2,3]",
                "know 1,2,3: t-0 1/0 [1,2,3] v0 c1 of [1,2,3] off []; t-1 2/0 [2,3] v0 c1 of [2,3] off [];"
                " t-2 3/0 [3] v0 c1 of [3,9] off [9]",
            ],
            "3": [
                "lead by 1,2,3: new t-0 1/0 [1,2,3] v0 c1 of [1,2,3]; new t-1 2/0 [2,3] v0 c1 of [2,3];"
                " new t-2 3/0 [3] v0 c1 of [3,9]",
                "know 1,2,3: t-0 1/0 [1,2,3] v0 c1 of [1,2,3] off []; t-1 2/0 [2,3] v0 c1 of [2,3] off [];"
                " t-2 3/0 [3] v0 c1 of [3,9] off [9]",
            ],
        },
    ),
    (
        "a leader dies: the election, and again what is left without the dead replica",
        lambda w, c: stop_broker(w, c, 1),
        {"2,3": ["lead by 2: t-0 2/1 [2,3] v1 c1 of [1,2,3]", "know 2,3: t-0 2/1 [2,3] v1 c1 of [1,2,3] off [1]"] * 2},
    ),
    (
        "a broker returns: others learn that it is there, it learns everything and what it hosts",
        lambda w, c: start_broker(w, c, 1),
        {
            "1": [
                "know 1,2,3: t-0 2/1 [2,3] v1 c1 of [1,2,3] off []; t-1 2/0 [2,3] v0 c1 of [2,3] off [];"
                " t-2 3/0 [3] v0 c1 of [3,9] off [9]",
                "lead by 2: t-0 2/1 [2,3] v1 c1 of [1,2,3]",
                "know 1,2,3: t-0 2/1 [2,3] v1 c1 of [1,2,3] off []",
            ],
            "2,3": ["know 1,2,3", "know 1,2,3: t-0 2/1 [2,3] v1 c1 of [1,2,3] off []"],
        },
    ),
    (
        "a leader has its follower's return to the ISR written: only metadata",
        lambda w, c: catch_up(w, c, tp("t-0"), broker=1),
        {"1,2,3": ["know 1,2,3: t-0 2/1 [2,3,1] v2 c1 of [1,2,3] off []"]},
    ),
    (
        "the preferred replica is elected",
        lambda w, c: elect(c, PREFERRED, "t-0"),
        {
            "1,2,3": [
                "lead by 1: t-0 1/2 [2,3,1] v3 c1 of [1,2,3]",
                "know 1,2,3: t-0 1/2 [2,3,1] v3 c1 of [1,2,3] off []",
            ]
        },
    ),
    (
        "a broker asks to go: its leaderships move, then its followers stop and leave their ISRs",
        lambda w, c: c.ask(ControlledShutdownRequest(BrokerId(2))),
        {
            "1": [
                "know 1,2,3: t-1 3/1 [3] v1 c1 of [2,3] off [2]",
                "lead by 1: t-0 1/3 [3,1] v4 c1 of [1,2,3]",
                "know 1,2,3: t-0 1/3 [3,1] v4 c1 of [1,2,3] off [2]",
            ],
            "2": [
                "lead by 3: t-1 3/1 [3] v1 c1 of [2,3]",
                "know 1,2,3: t-1 3/1 [3] v1 c1 of [2,3] off [2]",
                "know 1,2,3: t-0 1/3 [3,1] v4 c1 of [1,2,3] off [2]",
                "stop t-0/2",
            ],
            "3": [
                "lead by 3: t-1 3/1 [3] v1 c1 of [2,3]",
                "know 1,2,3: t-1 3/1 [3] v1 c1 of [2,3] off [2]",
                "lead by 1: t-0 1/3 [3,1] v4 c1 of [1,2,3]",
                "know 1,2,3: t-0 1/3 [3,1] v4 c1 of [1,2,3] off [2]",
            ],
        },
    ),
    (
        "it goes: nothing is written, what stands is told once more",
        lambda w, c: stop_broker(w, c, 2),
        {
            "1": [
                "lead by 1: t-0 1/3 [3,1] v4 c1 of [1,2,3]",
                "know 1,3: t-0 1/3 [3,1] v4 c1 of [1,2,3] off [2]; t-1 3/1 [3] v1 c1 of [2,3] off [2]",
            ],
            "3": [
                "lead by 1,3: t-0 1/3 [3,1] v4 c1 of [1,2,3]; t-1 3/1 [3] v1 c1 of [2,3]",
                "know 1,3: t-0 1/3 [3,1] v4 c1 of [1,2,3] off [2]; t-1 3/1 [3] v1 c1 of [2,3] off [2]",
            ],
        },
    ),
    (
        "a broker bounces unseen: it fails, then it starts",
        lambda w, c: bounce(w, 3),
        {
            "1": [
                "lead by 1: t-0 1/4 [1] v5 c1 of [1,2,3]",
                "know 1: t-0 1/4 [1] v5 c1 of [1,2,3] off [2,3]; t-1 -1/2 [3] v2 c1 of [2,3] off [2,3];"
                " t-2 -1/1 [3] v1 c1 of [3,9] off [3,9]",
                "know 1,3",
                "know 1,3: t-0 1/4 [1] v5 c1 of [1,2,3] off [2]; t-1 -1/2 [3] v2 c1 of [2,3] off [2];"
                " t-2 -1/1 [3] v1 c1 of [3,9] off [9]",
                "know 1,3: t-1 3/3 [3] v3 c1 of [2,3] off [2]; t-2 3/2 [3] v2 c1 of [3,9] off [9]",
            ],
            "3": [
                "know 1,3: t-0 1/4 [1] v5 c1 of [1,2,3] off [2]; t-1 -1/2 [3] v2 c1 of [2,3] off [2];"
                " t-2 -1/1 [3] v1 c1 of [3,9] off [9]",
                "lead by 1: t-0 1/4 [1] v5 c1 of [1,2,3]; t-1 -1/2 [3] v2 c1 of [2,3]; t-2 -1/1 [3] v1 c1 of [3,9]",
                "know 1,3: t-0 1/4 [1] v5 c1 of [1,2,3] off [2]; t-1 -1/2 [3] v2 c1 of [2,3] off [2];"
                " t-2 -1/1 [3] v1 c1 of [3,9] off [9]",
                "lead by 3: t-1 3/3 [3] v3 c1 of [2,3]; t-2 3/2 [3] v2 c1 of [3,9]",
                "know 1,3: t-1 3/3 [3] v3 c1 of [2,3] off [2]; t-2 3/2 [3] v2 c1 of [3,9] off [9]",
            ],
        },
    ),
    (
        "the last replica in sync dies: nobody leads, and it stays remembered",
        lambda w, c: stop_broker(w, c, 3),
        {
            "1": [
                "lead by 1: t-0 1/4 [1] v5 c1 of [1,2,3]",
                "know 1: t-0 1/4 [1] v5 c1 of [1,2,3] off [2,3]; t-1 -1/4 [3] v4 c1 of [2,3] off [2,3];"
                " t-2 -1/3 [3] v3 c1 of [3,9] off [3,9]",
            ]
        },
    ),
    (
        "a replica returns that was not in sync: it learns that nobody leads",
        lambda w, c: start_broker(w, c, 2),
        {
            "1": [
                "know 1,2",
                "know 1,2: t-0 1/4 [1] v5 c1 of [1,2,3] off [3]; t-1 -1/4 [3] v4 c1 of [2,3] off [3]",
            ],
            "2": [
                "know 1,2: t-0 1/4 [1] v5 c1 of [1,2,3] off [3]; t-1 -1/4 [3] v4 c1 of [2,3] off [3];"
                " t-2 -1/3 [3] v3 c1 of [3,9] off [3,9]",
                "lead by 1: t-0 1/4 [1] v5 c1 of [1,2,3]; t-1 -1/4 [3] v4 c1 of [2,3]",
                "know 1,2: t-0 1/4 [1] v5 c1 of [1,2,3] off [3]; t-1 -1/4 [3] v4 c1 of [2,3] off [3]",
            ],
        },
    ),
    (
        "somebody asks for an unclean election: only online replicas are told",
        lambda w, c: elect(c, UNCLEAN, "t-1"),
        {
            "1": ["know 1,2: t-1 2/5 [2] v5 c1 of [2,3] off [3]"],
            "2": [
                "lead by 2: t-1 2/5 [2] v5 c1 of [2,3] recovering",
                "know 1,2: t-1 2/5 [2] v5 c1 of [2,3] off [3]",
            ],
        },
    ),
    (
        "the topic is to be deleted: all forget it, then the living stop, then they delete",
        lambda w, c: w.create(delete_topic_path("t")),
        {
            "1": [
                "know 1,2: t-0 -2/0 [1] v0 c1 of [1,2,3] off [3]; t-1 -2/0 [2] v0 c1 of [2,3] off [3];"
                " t-2 -2/0 [3] v0 c1 of [3,9] off [3,9]",
                "stop t-0/-2",
                "delete t-0/-2",
            ],
            "2": [
                "know 1,2: t-0 -2/0 [1] v0 c1 of [1,2,3] off [3]; t-1 -2/0 [2] v0 c1 of [2,3] off [3];"
                " t-2 -2/0 [3] v0 c1 of [3,9] off [3,9]",
                "stop t-0/-2, stop t-1/-2",
                "delete t-0/-2, delete t-1/-2",
            ],
        },
    ),
]


@pytest.mark.rule("PS-9", "PS-13", "RM-4", "RM-6", "RM-11", "RQ-4", "RQ-7", "RQ-8", "RQ-10", "RQ-12", "RQ-13", "D-15")
@pytest.mark.rule("BK-11", "BK-12", "BK-13", "BK-30", "BK-32", "BK-33", "IS-15", "EP-5", "CS-10", "TD-13")
def test_everybody_hears_what_concerns_him_and_nothing_else() -> None:
    async def main() -> None:
        world, c = await cluster(1, 2, 3)
        requests_sent(c)
        for what, happening, expected in STEPS:
            await happening(world, c)
            await quiesce()
            assert requests_sent(c) == {
                int(b): lines for brokers, lines in expected.items() for b in brokers.split(",")
            }, what
        await c.stop()

    run_virtually(main)


@pytest.mark.rule("FO-9", "FO-10", "FO-11", "RM-20", "RM-21", "PS-30", "RQ-12")
def test_a_new_controller_introduces_everybody_and_then_says_all_once() -> None:
    async def main() -> None:
        world, first = await cluster(1, 2, 3)
        await world.create_topic("t", [1, 2, 3], [2, 3], [3, 9], [1])
        await world.leads("t", 3, leader=1)
        await first.stop()
        # Its followers, its leader and its only replica have died when the next controller comes.
        await world.stop_broker(1)
        c = world.start_controller(1002, auto_leader_rebalance_enable=False)
        await until(lambda: c.is_active)
        await quiesce()
        known = (
            "know 2,3: t-0 1/0 [1,2,3] v0 c1 of [1,2,3] off [1]; t-1 2/0 [2,3] v0 c1 of [2,3] off [];"
            " t-2 3/0 [3] v0 c1 of [3,9] off [9]"
        )
        # Dead replicas leave their ISRs, but for the last member of one. Who was not in sync costs no write, but what
        # stands is told again, as decided upon by this controller.
        after = "t-0 -1/1 [2,3] v1 c2 of [1,2,3]"
        removed = f"know 2,3: {after} off [1]; t-2 3/0 [3] v0 c2 of [3,9] off [9]; t-3 -1/1 [1] v1 c2 of [1] off [1]"
        elected = [
            "lead by 2: t-0 2/2 [2,3] v2 c2 of [1,2,3]",
            "know 2,3: t-0 2/2 [2,3] v2 c2 of [1,2,3] off [1]",
        ]
        before = "t-0 1/0 [1,2,3] v0 c1 of [1,2,3]; t-1 2/0 [2,3] v0 c1 of [2,3]"
        assert requests_sent(c) == {
            2: ["know 2,3", f"lead by 2: {before}", known, f"lead by : {after}", removed, *elected],
            3: [
                "know 2,3",
                f"lead by 2,3: {before}; t-2 3/0 [3] v0 c1 of [3,9]",
                known,
                f"lead by 3: {after}; t-2 3/0 [3] v0 c2 of [3,9]",
                removed,
                *elected,
            ],
        }
        await c.stop()

    run_virtually(main)
