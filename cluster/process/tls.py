"""The keys and certificates of a process: of its ports, and of its connections to other nodes and to ZooKeeper."""

import time
from collections.abc import Iterator, Mapping

from msgspec.structs import replace

from cluster.config.config import NodeConfig
from cluster.config.kafka_tls import KafkaTls, kafka_tls
from cluster.config.listener_security import PLAINTEXT, peer_tls_of, security_name, server_tls_of
from cluster.metrics.registry import Metrics, Samples
from cluster.model.broker import NO_LEADER, BrokerId
from cluster.process.tls_findings import all_uses, certificate_findings, refusal_findings
from cluster.requests.cluster import Finding
from cluster.tls.live import ListenerTls, LiveMaterial, keep_fresh
from cluster.tls.refusals import RefusedHandshakes
from cluster.tls.settings import TlsSettings

_DOMAIN, _TYPE = "klamm.tls", "Certificates"


class ProcessTls:
    """Holds what the settings of a process name, each store once. `peers` None: other nodes are called without TLS.

    Raises ConfigError if files cannot be used.
    """

    def __init__(self, config: NodeConfig, metrics: Metrics) -> None:
        self._config, self._materials = config, dict[TlsSettings, LiveMaterial]()
        self._uses: dict[str, LiveMaterial] = {}
        settings = config.settings
        is_klamm = settings.klamm_broker_protocol == "klamm"
        self.peers = self._load("peers", peer_tls_of(settings) if is_klamm else None)
        self.zookeeper = self._load("zookeeper", settings.zookeeper_tls)
        self._metrics = metrics
        self.refused = RefusedHandshakes()
        """Those at Kafka listeners: gRPC does not say how a handshake ends."""
        metrics.readings(_DOMAIN, _TYPE, "DaysLeft", self._days_left)
        metrics.readings(_DOMAIN, _TYPE, "RejectedFiles", self._rejected)

    def of_listener(self, name: str) -> ListenerTls | None:
        """TLS of a gRPC listener of this process, or of the port for metrics; None for plaintext."""
        settings = self._config.settings
        called = security_name(settings, name)
        found = server_tls_of(settings, called)
        material = self._load(called.lower(), found)
        if found is None or material is None:
            return None
        begun = self._metrics.meter(_DOMAIN, "Handshakes", "Begun", listener=called)
        max_age_ms = settings.klamm_tls_connection_max_age_ms
        return ListenerTls(material, found.client_auth == "required", max_age_ms, begun.mark)

    def of_kafka(self) -> KafkaTls:
        """TLS with which a controller governs brokers of Apache Kafka. Raises ConfigError."""
        found = kafka_tls(self._config.settings, self._config.kafka_listeners, self._loaded)
        return replace(found, refused=self.refused)

    def findings(self, who: str, broker: BrokerId = NO_LEADER) -> Iterator[Finding]:
        """Report what is wrong with certificates. `who`: names this process; `broker`: -1 for a controller."""
        now_s = time.time()
        for material, uses in all_uses(self._uses.items()):
            yield from certificate_findings(who, material, uses, now_s, broker)
        yield from refusal_findings(who, self.refused.recent(now_s), broker)

    @property
    def secured_listeners(self) -> frozenset[str]:
        """The names of listeners at which other nodes are always called under TLS; empty while an open cluster becomes
        a secured one.
        """
        settings = self._config.settings
        if settings.klamm_security_transition:
            return frozenset()
        names = settings.listener_names
        secured = (name for name in (names.client, names.control) if self._config.security_protocol(name) != PLAINTEXT)
        return frozenset(secured)

    async def run(self) -> None:
        """Follow the files, until cancelled."""
        await keep_fresh(self._materials.values)

    def _load(self, use: str, settings: TlsSettings | None) -> LiveMaterial | None:
        return None if settings is None else self._loaded(use, settings)

    def _loaded(self, use: str, settings: TlsSettings) -> LiveMaterial:
        # The same files serve every port, whatever it demands of its clients.
        files = replace(settings, client_auth="none")
        if files not in self._materials:
            self._materials[files] = LiveMaterial(files, use)
        if files.has_keystore or files.has_truststore:
            self._uses[use] = self._materials[files]
        return self._materials[files]

    def _days_left(self) -> Samples:
        return [(labels, material.days_left) for labels, material in self._labelled() if material.days_left is not None]

    def _rejected(self) -> Samples:
        return [(labels, int(bool(material.rejected))) for labels, material in self._labelled()]

    def _labelled(self) -> Iterator[tuple[Mapping[str, str], LiveMaterial]]:
        for use, material in list(self._uses.items()):
            yield {"use": use}, material
