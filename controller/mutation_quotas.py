"""Quotas of changes by the controller: how many partitions a second a user or client may have created and deleted.

Partitions are tokens of a bucket for each user, client id, or both, as the quota is set. While there are any, a request
is carried out however large it is, and may leave fewer than none. Then topics of a client that knows the error are
refused with THROTTLING_QUOTA_EXCEEDED (strict); those of an older one are created and deleted all the same, and it is
not heard until there are tokens again (permissive). Source: Kafka ControllerMutationQuotaManager,
StrictControllerMutationQuota, PermissiveControllerMutationQuota; KIP-599.
"""

import asyncio
from collections.abc import Iterable
from functools import partial
from itertools import islice
from typing import Final

from cluster.config.client_quotas import CONTROLLER_MUTATION_RATE, ClientQuotaConfigs, Quota, QuotaOwner
from cluster.config.settings import Settings
from cluster.metrics.registry import Metrics, Samples
from cluster.model.errors import ApiError, ErrorCode
from cluster.model.sampled_rate import SampledRate
from cluster.model.token_bucket import TokenBucket
from cluster.requests.context import RequestContext

_KNOWN_MAX: Final = 10_000
"""Owners whose tokens are kept; of more the one that was quiet for longest is forgotten."""
_SHOWN_MAX: Final = 200
"""Owners that metrics show: those that changed something last. Every one of them is a time series."""


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
    def __init__(self, usage: _Usage, quota: Quota, *, is_strict: bool) -> None:
        self._usage, self._quota, self._is_strict = usage, quota, is_strict

    def record(self, partitions: int) -> None:
        now_s = asyncio.get_running_loop().time()
        usage, rate = self._usage, self._quota.rate
        if self._is_strict and (wait_s := usage.note(rate, now_s)) > 0:
            self.throttled_until = now_s + wait_s
            raise ApiError(
                ErrorCode.THROTTLING_QUOTA_EXCEEDED,
                f"{self._quota.owner} may create and delete {rate:g} partitions per second "
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
        self._used: dict[QuotaOwner, _Usage] = {}
        """By those whose use counts together, the last used last."""
        for name, field in (("mutation-rate", "per_second"), ("throttle-time", "throttle_ms"), ("tokens", "tokens")):
            metrics.readings("kafka.server", "ControllerMutation", name, partial(self._read, field))

    def of(self, asked_by: RequestContext | None) -> MutationQuota:
        """The quota for a request of this call; without a call there is none."""
        if asked_by is None:
            return MutationQuota()
        user = asked_by.identity.principal.name
        quota = self.configs.quota(CONTROLLER_MUTATION_RATE, user, asked_by.client_id)
        if quota is None:
            return MutationQuota()
        return _LimitedMutationQuota(self._usage(quota.owner), quota, is_strict=asked_by.knows_quota_error)

    def _usage(self, owner: QuotaOwner) -> _Usage:
        usage = self._used.pop(owner, None) or _Usage(self._samples, self._sample_s)
        if len(self._used) >= _KNOWN_MAX:
            del self._used[next(iter(self._used))]
        self._used[owner] = usage
        return usage

    def _read(self, field: str) -> Samples:
        shown: Iterable[QuotaOwner] = islice(reversed(tuple(self._used)), _SHOWN_MAX)
        for owner in shown:
            usage = self._used.get(owner)
            if usage is not None:
                yield {"user": owner.user, "client-id": owner.client_id}, getattr(usage, field)
