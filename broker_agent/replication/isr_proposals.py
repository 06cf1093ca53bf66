"""Sends ISR changes to the controller: one AlterPartition request of an agent is in flight at a time.

Changes of many partitions, as after the failure of a broker, so travel together: those that arrive while a request is
in flight make up the next one. Source: Kafka AlterPartitionManager; KIP-497.
"""

import asyncio
from collections.abc import Callable, Iterator
from typing import Final

import structlog

from broker_agent.ports import ClusterClient
from cluster.model.broker import BrokerEpoch, BrokerId, Endpoint
from cluster.model.errors import ErrorCode, PeerUnreachableError
from cluster.model.partition import TopicPartition
from cluster.requests.agents import (
    AlterPartitionItem,
    AlterPartitionRequest,
    AlterPartitionResponse,
    AlterPartitionResult,
)
from cluster.requests.cluster import Finding
from cluster.requests.control import RequestCause

RETRY_MS: Final = 50
STUCK_ISR_CHANGE: Final = "stuck_isr_change"
WAIT_MAX_S: Final = 30
"""A proposal is a finding after this time; the controller answers within `request.timeout.ms` or not at all."""
UNREACHED_MAX_S: Final = 3
"""The same if the last request failed; longer than it takes to find the next controller once there is one."""

Completion = Callable[[AlterPartitionResult, RequestCause | None], None]
"""Called once for each submission, after it was removed from the queue, so that it may submit the next change.

The second argument is the event in which the controller wrote the accepted ISRs, if the response names one.
"""
_log = structlog.stdlib.get_logger()


class IsrProposals:
    """Collects proposals and retries them until they are answered. `run` does the sending."""

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
        self._waiting: dict[TopicPartition, tuple[AlterPartitionItem, Completion]] = {}
        self._since: dict[TopicPartition, float] = {}
        self._failure = "it has not been sent"
        """Why the last request had no effect."""
        self._is_unreached = False
        """Whether it failed on its way, so that the controller is not merely slow."""
        self._refusals: dict[TopicPartition, str] = {}
        self._submitted = asyncio.Event()

    def submit(self, item: AlterPartitionItem, complete: Completion) -> None:
        """Queue a proposal; a second one for its partition gets OPERATION_NOT_ATTEMPTED at once (R8.25).

        The second would have to name the partition epoch that only the answer to the first one brings.
        """
        tp = TopicPartition(item.topic_name, item.partition_index)
        if tp in self._waiting:
            code = ErrorCode.OPERATION_NOT_ATTEMPTED
            complete(AlterPartitionResult(item.topic_name, item.topic_id, item.partition_index, code), None)
            return
        self._waiting[tp] = (item, complete)
        self._since.setdefault(tp, asyncio.get_running_loop().time())
        self._submitted.set()

    def findings(self) -> Iterator[Finding]:
        """Report the proposals that have had no effect for too long, whether or not they were submitted again."""
        now = asyncio.get_running_loop().time()
        limit_s = UNREACHED_MAX_S if self._is_unreached else WAIT_MAX_S
        for tp, since in sorted(self._since.items()):
            if now - since > limit_s:
                why = self._failure if self._is_unreached else self._refusals.get(tp, self._failure)
                detail = f"broker {self._own_id} has proposed another ISR for {now - since:.0f} s without effect: {why}"
                yield Finding(STUCK_ISR_CHANGE, detail, tp.topic, tp.partition, self._own_id)

    async def run(self) -> None:
        """Send queued proposals until cancelled. Retries after 50 ms without a response or progress (R8.26)."""
        while True:
            await self._submitted.wait()
            self._submitted.clear()
            while self._waiting:
                if not await self._send_waiting():
                    await asyncio.sleep(RETRY_MS / 1000)

    async def _send_waiting(self) -> bool:
        """Send every pending proposal in one AlterPartition request; True if the controller decided any of them."""
        sent = dict(self._waiting)
        controller = self._controller()
        if controller is None:
            self._failure, self._is_unreached = "no controller is known", False
            return False
        request = AlterPartitionRequest(self._own_id, self._broker_epoch(), tuple(item for item, _ in sent.values()))
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
        return any(self._waiting.get(tp, (None,))[0] is not item for tp, (item, _) in sent.items())

    def _complete(
        self, sent: dict[TopicPartition, tuple[AlterPartitionItem, Completion]], response: AlterPartitionResponse
    ) -> None:
        answers = {(answer.topic_id, answer.partition_index): answer for answer in response.partitions}
        named = {(answer.topic_name, answer.partition_index): answer for answer in response.partitions}
        for tp, (item, complete) in sent.items():
            answer = named.get(tp)
            if answer is None and item.topic_id is not None:
                answer = answers.get((item.topic_id, item.partition_index))
            if answer is not None:
                del self._waiting[tp]
                self._refusals[tp] = f"the controller answers {answer.error_code.name}"
                try:
                    complete(answer, response.cause)
                except Exception:  # One partition must not keep the others from their ISR (R8.8).
                    _log.exception("Applying an AlterPartition response failed", partition=str(tp))
                if tp not in self._waiting:
                    # It was not submitted again: decided, or superseded.
                    self._since.pop(tp, None)
                    self._refusals.pop(tp, None)
