"""Proves, before and after a takeover, that brokers and controllers reach each other as they will have to.

Changes nothing: what is created is only validated.
"""

import asyncio
import uuid
from collections.abc import Iterable, Sequence
from typing import Final

from adoption.broker_access import BrokerAccess
from adoption.broker_survey import api_versions, connect, metadata
from adoption.survey import Survey, SurveyedBroker, SurveyedCandidate
from adoption.wanted import Wanted, wanted
from cluster.kafka_wire.messages.topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from cluster.model.broker import Broker, BrokerId, Endpoint
from cluster.model.errors import ClusterError, ErrorCode, known_code
from cluster.model.protocol_version import NEWEST
from controller.adapters.kafka.control_messages import ControlVersions

_CREATE_TOPICS: Final = 4
"""Brokers from 2.4 on have it."""
_VALIDATION_MS: Final = 10_000


_NOT_AUTHORIZED: Final = (ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)


class Proofs:
    """`access`: as with `--command-config`. Each answer is what failed, in sentences; empty if nothing did."""

    def __init__(self, access: BrokerAccess, timeout_s: float) -> None:
        self._access, self._timeout_s = access, timeout_s
        self._denials: tuple[ErrorCode, ...] = ()

    async def before(self, survey: Survey) -> list[str]:
        """Prove that brokers and candidates will understand one another; the result says what does not hold.

        Each broker must understand what controllers will send, where they will send it; each candidate must pass a
        request on to a broker at the listeners where brokers look for it.
        """
        needed = wanted(survey)
        names = {needed.inter_broker_listener, needed.control_plane_listener}
        of_brokers = (self._why_not_understood(broker, needed) for broker in survey.brokers)
        of_candidates = (
            self._why_not_passed_on(candidate, endpoint)
            for candidate in survey.candidates.values()
            for endpoint in _endpoints(candidate)
            if endpoint.listener in names and not _refuses_clients(candidate)
        )
        return _found(await asyncio.gather(*of_brokers, *of_candidates))

    async def after(
        self, brokers: Sequence[Broker], inter_broker_listener: str, *, authorises: bool = False
    ) -> list[str]:
        """A topic can be created through a broker and through klamm, at each listener that can be used from here: who
        asks a broker for the controller and then this controller is what an administrator's client does.

        `authorises`: whether the controller has an authorizer. Whom it tells that a right is missing has been answered.
        """
        names = dict.fromkeys(e.listener for b in brokers for e in b.endpoints if self._access.reaches(e))
        self._denials = _NOT_AUTHORIZED if authorises else ()
        checks = (self._why_not_created(name, brokers, is_needed=name == inter_broker_listener) for name in names)
        return _found(await asyncio.gather(*checks))

    async def _why_not_understood(self, broker: SurveyedBroker, needed: Wanted) -> str:
        endpoint = broker.control_endpoint
        if endpoint is None:
            return f"broker {broker.id} has no listener for controllers"
        try:
            connection = await connect(endpoint, self._access, self._timeout_s)
            try:
                answer = await api_versions(connection, self._timeout_s)
            finally:
                connection.close()
        except ClusterError as error:
            return f"broker {broker.id} cannot be asked where controllers send it requests: {error}"
        why = ControlVersions.of(needed.protocol or NEWEST).not_understood(answer.api_keys)
        return f"broker {broker.id} does not understand {why}" if why else ""

    async def _why_not_passed_on(self, candidate: SurveyedCandidate, endpoint: Endpoint) -> str:
        try:
            connection = await connect(endpoint, self._access, self._timeout_s)
            try:
                await metadata(connection, self._timeout_s)
            finally:
                connection.close()
        except ClusterError as error:
            return (
                f"candidate {candidate.id} passes no request on to a broker at its listener {endpoint.listener} "
                f"({endpoint.address}): {error}"
            )
        return ""

    async def _why_not_created(self, listener: str, brokers: Sequence[Broker], *, is_needed: bool) -> str:
        why, endpoints = "no broker has it", [e for broker in brokers if (e := broker.endpoint(listener)) is not None]
        for endpoint in endpoints:
            try:
                connection = await connect(endpoint, self._access, self._timeout_s)
                try:
                    answer = await metadata(connection, self._timeout_s)
                finally:
                    connection.close()
            except ClusterError as error:
                why = str(error)
                continue
            found = next((b for b in answer.brokers if b.node_id == answer.controller_id), None)
            if found is None:
                return f"{endpoint.address} ({listener}) names no controller to its clients"
            controller = Endpoint(found.host, found.port, listener, endpoint.security_protocol)
            return await self._why_not_validated(controller, brokers[0].id)
        # An address may be for clients elsewhere; but brokers have to reach one another.
        return f"no broker answers at its listener {listener}: {why}" if is_needed else ""

    async def _why_not_validated(self, controller: Endpoint, replica: BrokerId) -> str:
        # Placed by hand: with racks on some brokers only, Kafka's controller and klamm place nothing.
        assignment = CreatableReplicaAssignment(partition_index=0, broker_ids=(replica,))
        name = f"klamm-adopt-{uuid.uuid4()}"
        topic = CreatableTopic(name=name, num_partitions=-1, replication_factor=-1, assignments=(assignment,))
        request = CreateTopicsRequest(topics=(topic,), timeout_ms=_VALIDATION_MS, validate_only=True)
        try:
            connection = await connect(controller, self._access, self._timeout_s)
            try:
                answer = await connection.call(request, _CREATE_TOPICS, CreateTopicsResponse, timeout_s=self._timeout_s)
            finally:
                connection.close()
        except ClusterError as error:
            return f"no topic can be created at the controller's listener {controller.listener}: {error}"
        refused = [
            (known_code(t.error_code), t.error_message)
            for t in answer.topics
            if t.error_code and t.error_code not in self._denials
        ]
        return "".join(_refusal(controller, code, message) for code, message in refused)


def _refusal(controller: Endpoint, code: ErrorCode, message: str | None) -> str:
    return (
        f"no topic can be created at the controller's listener {controller.listener} ({controller.address}): "
        f"{code.name}{': ' if message else ''}{message or ''}"
    )


def _endpoints(candidate: SurveyedCandidate) -> list[Endpoint]:
    profile = candidate.profile
    listeners = () if profile is None else profile.listeners
    return [Endpoint(one.host, one.port, one.name, one.security_protocol) for one in listeners]


def _refuses_clients(candidate: SurveyedCandidate) -> bool:
    return candidate.profile is not None and candidate.profile.refuses_clients


def _found(failures: Iterable[str]) -> list[str]:
    return [failure for failure in failures if failure]
