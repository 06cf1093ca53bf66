"""A producer that writes without end while a cluster of the matrix is adopted, and what is stored afterwards."""

import asyncio
import threading
from collections import Counter
from pathlib import Path
from typing import Any, Final

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.abc import AbstractTokenProvider
from aiokafka.errors import ClusterAuthorizationFailedError, KafkaError, TopicAuthorizationFailedError

from cluster.tls.contexts import client_context
from tests.kafka_matrix import axes, settings
from tests.kafka_matrix.stand import Stand
from tests.timeouts import TIMEOUT_S

TOPIC, PARTITIONS = "orders", 4
_PAUSE_S: Final = 0.02
_ATTEMPTS, _ASK_AGAIN_S = 50, 0.2


class _OwnToken(AbstractTokenProvider):
    def __init__(self, path: Path) -> None:
        self._path = path

    async def token(self) -> str:
        return self._path.read_text()


class Records:
    """`acknowledged`: the numbers of records that brokers said they have."""

    def __init__(self, stand: Stand) -> None:
        self._stand = stand
        self.acknowledged: set[int] = set()
        self.failures: list[str] = []
        self._ends, self._thread = threading.Event(), threading.Thread(target=lambda: asyncio.run(self._produce()))

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._ends.set()
        if self._thread.ident is not None:
            self._thread.join(TIMEOUT_S)

    def lost(self) -> str:
        """What is wrong with what is stored; empty if every acknowledged record is there once."""
        stored = asyncio.run(asyncio.wait_for(self._stored(), TIMEOUT_S))
        missing = self.acknowledged - stored.keys()
        twice = [number for number, count in stored.items() if count > 1]
        found = [f"lost: {sorted(missing)[:5]} of {len(missing)}"] if missing else []
        return "; ".join([*found, *([f"twice: {twice[:5]} of {len(twice)}"] if twice else [])])

    def _options(self) -> dict[str, Any]:
        stand, clients = self._stand, self._stand.clients
        found: dict[str, Any] = {
            "bootstrap_servers": ",".join(stand.brokers.values()),
            "security_protocol": clients.protocol,
            "metadata_max_age_ms": 1000,
        }
        if clients.has_tls:
            found["ssl_context"] = client_context(stand.tls(settings.APP))
        if clients.has_sasl:
            found |= {"sasl_mechanism": stand.cluster.mechanism, **self._proof()}
        return found

    def _proof(self) -> dict[str, Any]:
        match self._stand.cluster.mechanism:
            case axes.GSSAPI:
                return {"sasl_kerberos_service_name": settings.SERVICE}
            case axes.OAUTHBEARER:
                return {"sasl_oauth_token_provider": _OwnToken(self._stand.stores.token(settings.APP))}
            case _:
                return {
                    "sasl_plain_username": settings.APP,
                    "sasl_plain_password": settings.PASSWORDS[settings.APP],
                }

    async def _produce(self) -> None:
        for attempt in range(_ATTEMPTS):
            try:
                await self._produce_on()
            except (ClusterAuthorizationFailedError, TopicAuthorizationFailedError) as error:
                if self.acknowledged or attempt + 1 == _ATTEMPTS:
                    self.failures.append(repr(error))
                    return
                # The broker that is asked may not have heard of the app's rights yet.
                await asyncio.sleep(_ASK_AGAIN_S)
            except KafkaError as error:
                self.failures.append(f"the producer ended: {error!r}")
                return
            else:
                return

    async def _produce_on(self) -> None:
        """Until it is told to stop. Raises KafkaError."""
        number = 0
        async with AIOKafkaProducer(acks="all", enable_idempotence=True, **self._options()) as producer:
            while not self._ends.is_set():
                await producer.send_and_wait(TOPIC, str(number).encode(), partition=number % PARTITIONS)
                self.acknowledged.add(number)
                number += 1
                await asyncio.sleep(_PAUSE_S)

    async def _stored(self) -> Counter[int]:
        found: Counter[int] = Counter()
        async with AIOKafkaConsumer(**self._options()) as consumer:
            partitions = [TopicPartition(TOPIC, number) for number in range(PARTITIONS)]
            ends = await consumer.end_offsets(partitions)
            consumer.assign(partitions)
            await consumer.seek_to_beginning()
            while any([await consumer.position(one) < ends[one] for one in partitions]):
                batches = await consumer.getmany(timeout_ms=1000)
                found.update(int(record.value) for batch in batches.values() for record in batch)
        return found
