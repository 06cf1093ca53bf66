"""Whether a candidate may govern the registered brokers: asked before it competes, and again before it acts (D-91)."""

import structlog

from cluster.model.broker import BrokerId
from cluster.model.errors import MalformedZnodeError
from cluster.znodes.adoption import decode_adoption
from cluster.znodes.cluster_wide import decode_features
from cluster.znodes.paths import ADOPTION, BROKERS_IDS, CONTROLLERS_IDS, FEATURE, broker_of_name, broker_path
from cluster.zookeeper.decoding import decode_each
from cluster.zookeeper.port import ZooKeeper
from cluster.zookeeper.recipes import watched_children
from cluster.zookeeper.registrations import controller_addresses, decode_registration, ids_of_brokers
from controller.config import ControllerConfig
from controller.controller_election import ControllerElection
from controller.decisions.brokers.admission import UNREADABLE, why_not_admitted, why_unfit
from controller.ports import ZooKeeperReads

_log = structlog.stdlib.get_logger()


class Fitness:
    """Of one candidate. `why`: it is not fit to govern the brokers, in words that follow "this controller"; or empty.

    The reason is in its registration, where `klamm adopt` and people find it.
    """

    def __init__(self, zookeeper: ZooKeeper, config: ControllerConfig, election: ControllerElection) -> None:
        self._zookeeper, self._config, self._election = zookeeper, config, election
        self.why = ""

    async def is_lacking(self) -> bool:
        """Whether not to compete.

        Where the brokers are klamm's this is asked only of a candidate that was found unfit while it became active:
        there nobody rules in the meantime, so that an attempt harms nothing, and the brokers need not be read twice.
        """
        if self._config.governs_kafka or self.why:
            await self.found(await self._examine())
        return self.why != ""

    async def found(self, why: str) -> None:
        """Record whether this candidate is fit. `why`: empty if it is."""
        if why and why != self.why:
            _log.error("This controller takes no part in elections until brokers or the adoption change", it=why)
        elif self.why and not why:
            _log.info("This controller takes part in elections again")
        if why != self.why:
            self.why = why
            await self._election.say_unfit(why)

    async def _examine(self) -> str:
        """Examine the cluster as at a failover, but outside of any epoch; arms watches on everything that it follows
        from.
        """
        config = self._config
        names = await watched_children(self._zookeeper, BROKERS_IDS) or ()
        controllers: set[BrokerId] = set()
        if config.governs_kafka:
            # Elsewhere no controller is taken for a broker, so that a broker may have the id of one.
            candidates = await watched_children(self._zookeeper, CONTROLLERS_IDS) or ()
            controllers.update(broker for name in candidates if (broker := broker_of_name(name)) is not None)
            controllers -= await ids_of_brokers(self._zookeeper, controllers)
        ids = sorted(b for name in names if (b := broker_of_name(name)) is not None and b not in controllers)
        znodes = await self._zookeeper.get_many([broker_path(broker) for broker in ids], watch=True)
        there = [broker for broker, znode in zip(ids, znodes, strict=True) if znode is not None]
        found = decode_each(ids, znodes, decode_registration)
        levels = await self._finalized_levels()
        addresses = await controller_addresses(self._zookeeper) if config.governs_kafka else frozenset[str]()
        refused = {broker: UNREADABLE for broker in there if broker not in found}
        for broker, registered in found.items():
            why = why_not_admitted(
                registered.broker,
                config.listeners,
                config.broker_protocol,
                levels,
                addresses,
                authenticates=config.authenticates_to_brokers,
            )
            if why is not None:
                refused[broker] = why
        await self._zookeeper.exists(ADOPTION, watch=True)
        return why_unfit(there, refused, await read_adopted_brokers(self._zookeeper)) or ""

    async def _finalized_levels(self) -> dict[str, int]:
        if not self._config.protocol_version.has_features:
            return {}
        znode = await self._zookeeper.get(FEATURE)
        try:
            features = None if znode is None else decode_features(znode.data)
        except MalformedZnodeError:
            return {}
        return features.levels if features is not None and features.enabled else {}


async def read_adopted_brokers(zookeeper: ZooKeeperReads) -> tuple[BrokerId, ...]:
    """The brokers that the adoption names; none if it names none, or if there is none."""
    (znode,) = await zookeeper.get_many([ADOPTION])
    if znode is None:
        return ()
    try:
        return decode_adoption(znode.data).brokers
    except MalformedZnodeError:
        return ()
