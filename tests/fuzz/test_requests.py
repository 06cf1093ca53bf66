"""Every request of every service, made from the descriptors, at simulated agents and controllers."""

import asyncio
from collections.abc import Sequence
from functools import cache
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from simulator.cluster import simulate
from tests.fuzz.budget import count_case, fuzz
from tests.fuzz.cluster_under_fire import (
    METHODS,
    METHODS_OF_AGENTS,
    METHODS_OF_CONTROLLERS,
    Method,
    Sent,
    check_all_run,
    check_serves_after_restart,
    no_error_is_logged,
    send,
    start_cluster,
)
from tests.fuzz.known import TOPICS, known_values
from tests.fuzz.messages import Draw, Known, messages, on_the_wire


@cache
def known() -> Known:
    """What the nodes of the cluster know when it has started, which is the same in each run."""

    async def main() -> tuple[list[str], list[int]]:
        cluster = await start_cluster()
        context = cluster.controllers[next(iter(cluster.controllers))].context
        return [str(context.topics.ids[topic]) for topic in TOPICS], list(context.brokers.epochs.values())

    topic_ids, broker_epochs = simulate(main)
    return known_values(topic_ids, broker_epochs, [1, 2, 3])


@st.composite
def sent_to(draw: Draw, methods: Sequence[Method], nodes: range, values: Known) -> Sent:
    """A request to one of these nodes."""
    call = draw(st.sampled_from([method.name for method in methods]))
    message = draw(messages(METHODS[call].request.message_class.DESCRIPTOR, values))
    return Sent(draw(st.sampled_from(nodes)), call, draw(on_the_wire(message)))


TO_CONTROLLER = st.deferred(lambda: sent_to(METHODS_OF_CONTROLLERS, range(1), known()))
TO_AGENTS = st.deferred(lambda: sent_to(METHODS_OF_AGENTS, range(1, 4), known()))


def withstand(requests: list[Sent]) -> None:
    """The cluster answers all these requests, goes on, and serves after a restart."""

    async def main() -> Any:
        cluster = await start_cluster()
        for sent in requests:
            await send(cluster, sent)
            await check_all_run(cluster)
            await asyncio.sleep(0.1)
        await asyncio.sleep(12)
        await check_all_run(cluster)
        await check_serves_after_restart(cluster)
        await check_all_run(cluster)

    with no_error_is_logged():
        simulate(main)


@fuzz(examples=60)
@given(st.lists(TO_AGENTS, min_size=1, max_size=12))
def test_requests_to_agents(requests: list[Sent]) -> None:
    count_case("requests to agents")
    withstand(requests)


@fuzz(examples=60)
@given(st.lists(TO_CONTROLLER, min_size=1, max_size=12))
def test_requests_to_controllers(requests: list[Sent]) -> None:
    count_case("requests to controllers")
    withstand(requests)
