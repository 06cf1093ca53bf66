"""Has the controller write ISR changes: one AlterPartition request of an agent is in flight at a time.

Changes of many partitions, as after the failure of a broker, so travel together: those that arrive while a request is
in flight make up the next one. Source: Kafka DefaultAlterPartitionManager; KIP-497.
"""

import asyncio
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Final

import structlog

from broker_agent.ports import ClusterClient
from broker_agent.replication.isr_proposals import (
    RETRY_MS,
    WAIT_MAX_S,
    Completion,
    WaitingProposal,
    WaitingProposals,
)
from cluster.model.broker import BrokerEpoch, BrokerId, ControllerEpoch, Endpoint
from cluster.model.errors import ErrorCode, PeerUnreachableError
from cluster.model.partition import TopicPartition
from cluster.requests.agents import AlterPartitionItem, AlterPartitionRequest, AlterPartitionResponse
from cluster.requests.cluster import Finding
from cluster.requests.control import RequestCause
from state_log.causes import ISR_GRANTED
from state_log.record import Cause

UNREACHED_MAX_S: Final = 3
"""The same if the last request failed; longer than it takes to find the next controller once there is one."""
_log = structlog.stdlib.get_logger()


class ControllerIsrProposals:
    """Collects proposals and retries them until they are answered. Implements IsrProposals."""

    def __init__(
        self,
        own_id: BrokerId,
        *,
        broker_epoch: Callable[[], BrokerEpoch],
        controller: Callable[[], Endpoint | None],
        client: ClusterClient,
        timeout_ms: int,
    ) -> None:
        self._own_id = own_id
        self._broker_epoch = broker_epoch
        self._controller = controller
        self._client = client
        self._timeout_ms = timeout_ms
        self._waiting = WaitingProposals(own_id, Cause(ISR_GRANTED))
        self._failure = "it has not been sent"
        """Why the last request had no effect."""
        self._is_unreached = False
        """Whether it failed on its way, so that the controller is not merely slow."""

    def submit(self, item: AlterPartitionItem, complete: Completion, *, controller_epoch: ControllerEpoch) -> None:
        """Queue a proposal; a second one for its partition gets OPERATION_NOT_ATTEMPTED at once (R8.25)."""
        self._waiting.add(WaitingProposal(item, controller_epoch, complete))

    async def withdraw(self, partitions: Collection[TopicPartition]) -> None:
        """Drop the proposals of these partitions. One on its way is the controller's to refuse, by its topic id."""
        self._waiting.drop(partitions)

    def findings(self) -> Iterator[Finding]:
        """Report the proposals that have had no effect for too long, whether or not they were submitted again."""
        limit_s = UNREACHED_MAX_S if self._is_unreached else WAIT_MAX_S
        return self._waiting.findings(limit_s, self._failure, has_answers=not self._is_unreached)

    async def run(self) -> None:
        """Send queued proposals until cancelled. Retries after 50 ms without a response or progress (R8.26)."""
        while True:
            await self._waiting.until_added()
            while self._waiting:
                if not await self._send_waiting():
                    await asyncio.sleep(RETRY_MS / 1000)

    async def _send_waiting(self) -> bool:
        """Send every pending proposal in one AlterPartition request; True if the controller decided any of them."""
        sent = self._waiting.all()
        controller = self._controller()
        if controller is None:
            self._failure, self._is_unreached = "no controller is known", False
            return False
        items = tuple(proposal.item for proposal in sent.values())
        request = AlterPartitionRequest(self._own_id, self._broker_epoch(), items)
        try:
            async with asyncio.timeout(self._timeout_ms / 1000):
                response = await self._client.ask_controller(controller, request)
        except (PeerUnreachableError, TimeoutError) as error:
            # It may have been carried out. It is sent again unchanged: the controller answers a proposal that is in
            # effect already with the state that it wrote.
            why = error.why if isinstance(error, PeerUnreachableError) else "timed out"
            if not self._is_unreached:
                _log.warning("Sending AlterPartition failed; retrying", controller=controller.address, error=why)
            self._failure, self._is_unreached = f"controller {controller.address} does not respond: {why}", True
            return False
        self._is_unreached = False
        if response.error_code is not ErrorCode.NONE:
            _log.info("Controller refused AlterPartition", controller=controller.address, code=response.error_code.name)
            self._failure = f"controller {controller.address} answers {response.error_code.name}"
            return False
        self._complete(sent, response)
        return any(not self._waiting.has(tp, proposal) for tp, proposal in sent.items())

    def _complete(self, sent: Mapping[TopicPartition, WaitingProposal], response: AlterPartitionResponse) -> None:
        answers = {(answer.topic_id, answer.partition_index): answer for answer in response.partitions}
        named = {(answer.topic_name, answer.partition_index): answer for answer in response.partitions}
        for tp, proposal in sent.items():
            answer = named.get(tp)
            if answer is None and proposal.item.topic_id is not None:
                answer = answers.get((proposal.item.topic_id, tp.partition))
            if answer is not None and self._waiting.has(tp, proposal):
                refusal = f"the controller answers {answer.error_code.name}"
                self._waiting.complete(tp, answer, _granted_in(response.cause), refusal)


def _granted_in(event: RequestCause | None) -> Cause:
    """The cause of a record of a granted ISR: the controller's event, if it named one."""
    if event is None:
        return Cause(ISR_GRANTED)
    return Cause(ISR_GRANTED, event.id, event.controller_id, event.controller_epoch)
