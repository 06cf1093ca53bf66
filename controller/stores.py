"""Smaller stores of the active controller: configs, a recovery, and what is not fenced by the controller's epoch."""

from collections.abc import Mapping, Sequence

from cluster.model.broker import ControllerEpoch, ZkVersion
from cluster.model.errors import MalformedZnodeError, OutcomeUnknownError, ZooKeeperError
from cluster.security.acl_znodes import CHANGE_PREFIX, changes_of, encode_notice, encode_rules, path_of
from cluster.security.acls import AccessRule, Pattern
from cluster.znodes.cluster_wide import (
    FinalizedFeatures,
    ProducerIdBlock,
    decode_features,
    decode_producer_id_block,
    encode_features,
    encode_producer_id_block,
)
from cluster.znodes.configs import CONFIG_CHANGE_PREFIX, ConfigEntity, encode_config, encode_config_change
from cluster.znodes.controller import encode_controller_epoch
from cluster.znodes.paths import CONTROLLER, CONTROLLER_EPOCH, FEATURE, PRODUCER_ID_BLOCK
from cluster.zookeeper.access_rules import StoredRules, access_list_paths, read_all_rules, read_rules
from cluster.zookeeper.configs import StoredConfig, read_configs
from cluster.zookeeper.port import Create, Delete, Op, SetData, ZkError, ZooKeeper, refusal
from cluster.zookeeper.recipes import create_where_missing
from controller.decisions.recovery.plan import TopicRecovery
from controller.decisions.recovery.writes import paths_of, units_of
from controller.fenced_writes import FencedWriter, Outcome, Written


class ConfigStore:
    """Reads config znodes and writes them fenced; their layout is that of Kafka's tools."""

    def __init__(self, zookeeper: ZooKeeper, writer: FencedWriter) -> None:
        self._zookeeper = zookeeper
        self._writer = writer

    async def read(self, entities: Sequence[ConfigEntity]) -> dict[ConfigEntity, StoredConfig | MalformedZnodeError]:
        return await read_configs(self._zookeeper, entities)

    async def write(self, configs: Mapping[ConfigEntity, StoredConfig]) -> dict[ConfigEntity, Outcome]:
        """Write each config and its change notification in one transaction; Conflict if the znode has changed."""
        parents = {path for entity, config in configs.items() if config.version is None for path in entity.parents}
        for path in sorted(parents):
            await create_where_missing(self._zookeeper, path)
        units: list[tuple[Op, Op]] = []
        for entity, config in configs.items():
            body = encode_config(config.overrides)
            announcement = Create(CONFIG_CHANGE_PREFIX, encode_config_change(entity), sequential=True)
            # The config last: if it is visible, the notification was written, too.
            settings: Op = (
                Create(entity.path, body) if config.version is None else SetData(entity.path, body, config.version)
            )
            units.append((announcement, settings))
        return dict(zip(configs, await self._writer.write(units), strict=True))


class AccessListStore:
    """Reads access control lists and writes them fenced; their layout is that of Kafka's tools."""

    def __init__(self, zookeeper: ZooKeeper, writer: FencedWriter) -> None:
        self._zookeeper, self._writer = zookeeper, writer

    async def read(self, patterns: Sequence[Pattern]) -> dict[Pattern, StoredRules]:
        return await read_rules(self._zookeeper, patterns)

    async def read_all(self) -> dict[Pattern, StoredRules]:
        return await read_all_rules(self._zookeeper)

    async def create_paths(self) -> None:
        """Create the znodes above all lists, which a cluster has that ever had an authorizer."""
        for path in access_list_paths():
            await create_where_missing(self._zookeeper, path)

    async def write(
        self, changed: Mapping[Pattern, tuple[frozenset[AccessRule], int | None]]
    ) -> dict[Pattern, Outcome]:
        """Write the rules of each pattern at this version of its znode, None: a new one, with the notice in one
        transaction; a znode without rules is deleted. Conflict if it has changed.
        """
        units: list[tuple[Op, Op]] = []
        for pattern, (rules, version) in changed.items():
            path = path_of(pattern)
            notice = Create(f"{changes_of(pattern.type)}/{CHANGE_PREFIX}", encode_notice(pattern), sequential=True)
            # The list last: if it is visible, the notice was written, too.
            units.append((notice, _list_write(path, rules, version)))
        return dict(zip(changed, await self._writer.write(units), strict=True))


def _list_write(path: str, rules: frozenset[AccessRule], version: int | None) -> Op:
    if version is None:
        return Create(path, encode_rules(rules))
    return SetData(path, encode_rules(rules), version) if rules else Delete(path, version)


class RecoveryStore:
    """Writes topics and their partition states, the producer id block, and at last `/controller_epoch`.

    All writes are fenced. The last one raises the fence itself.
    """

    def __init__(self, zookeeper: ZooKeeper, writer: FencedWriter, epoch_zk_version: ZkVersion) -> None:
        self._zookeeper = zookeeper
        self._writer = writer
        self._epoch_zk_version = epoch_zk_version

    async def write_topics(self, topics: Sequence[TopicRecovery]) -> list[str]:
        """Write everything in order; returns the topics of which something was not written."""
        failed: list[str] = []
        for topic in topics:
            paths = paths_of(topic)
            znodes = await self._zookeeper.get_many(paths)
            versions = {p: z.stat.version for p, z in zip(paths, znodes, strict=True) if z is not None}
            outcomes = await self._writer.write(units_of(topic, versions))
            if not all(isinstance(outcome, Written) for outcome in outcomes):
                failed.append(topic.topic)
        return failed

    async def write_producer_ids(self, block: ProducerIdBlock, version: int) -> bool:
        """Write the last allocated block at this version of its znode; whether it was written."""
        (outcome,) = await self._writer.write([(SetData(PRODUCER_ID_BLOCK, encode_producer_id_block(block), version),)])
        return isinstance(outcome, Written)

    async def resign_above(self, epoch: ControllerEpoch) -> bool:
        """Raise `/controller_epoch` and delete `/controller`, in one transaction; the next epoch is above it.

        Afterwards this controller cannot write any more. Returns whether it was written.
        """
        raised = SetData(CONTROLLER_EPOCH, encode_controller_epoch(epoch), self._epoch_zk_version)
        (outcome,) = await self._writer.write([(raised, Delete(CONTROLLER))])
        return isinstance(outcome, Written)


class AuxiliaryStore:
    """Reads and writes `/feature` and the producer id block. The writes are not fenced by the controller's epoch.

    As in Kafka. Two controllers that become active at once write the same features, and a producer id block is
    protected by the version of its znode. Source: Kafka KafkaController.setupFeatureVersioning, ZkProducerIdManager.
    """

    def __init__(self, zookeeper: ZooKeeper) -> None:
        self._zookeeper = zookeeper

    async def read_features(self) -> FinalizedFeatures | None:
        """The finalized features; None if the znode is missing. Raises MalformedZnodeError."""
        znode = await self._zookeeper.get(FEATURE)
        return None if znode is None else decode_features(znode.data)

    async def write_features(self, features: FinalizedFeatures, *, exists: bool) -> None:
        """Write `/feature`, again after each lost response. Raises ZooKeeperError if somebody else writes it, too."""
        data = encode_features(features)
        op: Op = SetData(FEATURE, data) if exists else Create(FEATURE, data)
        while True:
            try:
                (result,) = await self._zookeeper.multi([op])
            except OutcomeUnknownError:
                continue
            if result.error is ZkError.NODE_EXISTS:
                znode = await self._zookeeper.get(FEATURE)
                if znode is None or znode.data != data:
                    raise ZooKeeperError(f"{FEATURE} was not written or is contested")
            elif not result.ok:
                raise refusal(f"{FEATURE} cannot be written", result.error)
            return

    async def read_producer_id_block(self) -> tuple[ProducerIdBlock | None, int] | None:
        """The last allocated block, None if there was none, and the version of its znode; None if the znode is missing.

        Raises MalformedZnodeError.
        """
        znode = await self._zookeeper.get(PRODUCER_ID_BLOCK)
        return None if znode is None else (decode_producer_id_block(znode.data), znode.stat.version)

    async def write_producer_id_block(self, block: ProducerIdBlock, version: int) -> bool:
        """Write the block unless another one was allocated since; whether it was written (FN-1).

        False after a lost response: a block that was written but not handed out is merely skipped.
        """
        op = SetData(PRODUCER_ID_BLOCK, encode_producer_id_block(block), version)
        try:
            (result,) = await self._zookeeper.multi([op])
        except OutcomeUnknownError:
            return False
        if not result.ok and result.error is not ZkError.BAD_VERSION:
            raise refusal(f"{PRODUCER_ID_BLOCK} cannot be written", result.error)
        return result.ok
