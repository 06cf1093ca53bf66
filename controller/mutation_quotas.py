"""Quotas of changes by the controller: how many partitions a second a client may have created and deleted.

Partitions are tokens of a bucket for each client id. While there are any, a request is carried out however large it is,
and may leave fewer than none. Then topics of a client that knows the error are refused with
THROTTLING_QUOTA_EXCEEDED (strict); those of an older one are created and deleted all the same, and it is not heard
until there are tokens again (permissive). Source: Kafka ControllerMutationQuotaManager, StrictControllerMutationQuota,
PermissiveControllerMutationQuota; KIP-599.
"""

import asyncio
from collections.abc import Iterable
from functools import partial
from itertools import islice
from typing import Final

from cluster.config.client_quotas import CONTROLLER_MUTATION_RATE, ClientQuotaConfigs
from cluster.config.settings import Settings
from cluster.metrics.registry import Metrics, Samples
from cluster.model.errors import ApiError, ErrorCode
from cluster.model.sampled_rate import SampledRate
from cluster.model.token_bucket import TokenBucket
from cluster.requests.context import RequestContext

_KNOWN_MAX: Final = 10_000
"""Client ids whose tokens are kept; of more the one that was quiet for longest is forgotten."""
_SHOWN_MAX: Final = 200
"""Client ids that metrics show: those that changed something last. Every one of them is a time series."""


class MutationQuota:
    """What one request may change. This one has no quota.

    `throttled_until`: on the clock of the event loop, until when the client is not heard after this request.
    """

    throttled_until = 0.0

    def record(self, partitions: int) -> None:
        """Count partitions of one topic before they are created or deleted. Raises
        ApiError(THROTTLING_QUOTA_EXCEEDED): the topic is to be refused.
        """


class _Usage:
    """What a client has used."""

    def __init__(self, samples: int, sample_s: float) -> None:
        self.bucket = TokenBucket(samples * sample_s)
        self.rate = SampledRate(samples, sample_s * 1000)
        self.throttle_ms = self.per_second = self.tokens = 0.0
        """As of its last request."""

    def note(self, rate: float, now_s: float) -> float:
        """Note what metrics show, and return how long the client has to wait, in seconds."""
        self.tokens = self.bucket.tokens(rate, now_s)
        self.per_second = self.rate.per_second(now_s * 1000)
        wait_s = self.bucket.wait_s(rate, now_s)
        self.throttle_ms = wait_s * 1000
        return wait_s


class _LimitedMutationQuota(MutationQuota):
    def __init__(self, usage: _Usage, rate: float, client_id: str, *, is_strict: bool) -> None:
        self._usage, self._rate, self._client_id, self._is_strict = usage, rate, client_id, is_strict

    def record(self, partitions: int) -> None:
        now_s = asyncio.get_running_loop().time()
        usage, rate = self._usage, self._rate
        if self._is_strict and (wait_s := usage.note(rate, now_s)) > 0:
            self.throttled_until = now_s + wait_s
            raise ApiError(
                ErrorCode.THROTTLING_QUOTA_EXCEEDED,
                f"client {self._client_id!r} may create and delete {rate:g} partitions per second "
                f"({CONTROLLER_MUTATION_RATE}), and these are used up; try again in {wait_s:.1f} s",
                field=CONTROLLER_MUTATION_RATE,
                value=f"{rate:g}",
            )
        usage.bucket.use(partitions, rate, now_s)
        usage.rate.record(partitions, now_s * 1000)
        wait_s = usage.note(rate, now_s)
        if wait_s > 0 and not self._is_strict:
            self.throttled_until = now_s + wait_s


class MutationQuotas:
    """The quotas of all clients of one process, and what they use of them."""

    def __init__(self, settings: Settings, metrics: Metrics) -> None:
        self._samples = settings.controller_quota_window_num
        self._sample_s = settings.controller_quota_window_size_seconds
        self.configs = ClientQuotaConfigs((CONTROLLER_MUTATION_RATE,))
        self._used: dict[str, _Usage] = {}
        """By client id, the last used last."""
        for name, field in (("mutation-rate", "per_second"), ("throttle-time", "throttle_ms"), ("tokens", "tokens")):
            metrics.readings("kafka.server", "ControllerMutation", name, partial(self._read, field))

    def of(self, asked_by: RequestContext | None) -> MutationQuota:
        """The quota for a request of this call; without a call there is none."""
        rate = None if asked_by is None else self.configs.quota(CONTROLLER_MUTATION_RATE, asked_by.client_id)
        if asked_by is None or rate is None:
            return MutationQuota()
        usage = self._usage(asked_by.client_id)
        return _LimitedMutationQuota(usage, rate, asked_by.client_id, is_strict=asked_by.knows_quota_error)

    def _usage(self, client_id: str) -> _Usage:
        usage = self._used.pop(client_id, None) or _Usage(self._samples, self._sample_s)
        if len(self._used) >= _KNOWN_MAX:
            del self._used[next(iter(self._used))]
        self._used[client_id] = usage
        return usage

    def _read(self, field: str) -> Samples:
        shown: Iterable[str] = islice(reversed(tuple(self._used)), _SHOWN_MAX)
        for client_id in shown:
            usage = self._used.get(client_id)
            if usage is not None:
                yield {"client-id": client_id}, getattr(usage, field)
