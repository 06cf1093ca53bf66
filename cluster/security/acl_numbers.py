"""The numbers under which Kafka's requests name types of resources and patterns, operations and permissions.

Source: ResourceType, PatternType, AclOperation, AclPermissionType of Apache Kafka.
"""

from collections.abc import Mapping
from typing import Final

from cluster.security.acls import Operation, PatternType, Permission, ResourceType

ANY: Final = 1
"""In a filter: of every type, operation or permission."""
MATCH: Final = 2
"""In a filter: every pattern that concerns a resource of the name."""
LITERAL: Final = 3

RESOURCE_TYPES: Final[Mapping[int, ResourceType]] = {
    2: ResourceType.TOPIC,
    3: ResourceType.GROUP,
    4: ResourceType.CLUSTER,
    5: ResourceType.TRANSACTIONAL_ID,
    6: ResourceType.DELEGATION_TOKEN,
    7: ResourceType.USER,
}
PATTERN_TYPES: Final[Mapping[int, PatternType]] = {LITERAL: PatternType.LITERAL, 4: PatternType.PREFIXED}
OPERATIONS: Final[Mapping[int, Operation]] = {
    2: Operation.ALL,
    3: Operation.READ,
    4: Operation.WRITE,
    5: Operation.CREATE,
    6: Operation.DELETE,
    7: Operation.ALTER,
    8: Operation.DESCRIBE,
    9: Operation.CLUSTER_ACTION,
    10: Operation.DESCRIBE_CONFIGS,
    11: Operation.ALTER_CONFIGS,
    12: Operation.IDEMPOTENT_WRITE,
    13: Operation.CREATE_TOKENS,
    14: Operation.DESCRIBE_TOKENS,
}
PERMISSIONS: Final[Mapping[int, Permission]] = {2: Permission.DENY, 3: Permission.ALLOW}

NUMBER_OF_RESOURCE_TYPE: Final = {kind: number for number, kind in RESOURCE_TYPES.items()}
NUMBER_OF_PATTERN_TYPE: Final = {kind: number for number, kind in PATTERN_TYPES.items()}
NUMBER_OF_OPERATION: Final = {operation: number for number, operation in OPERATIONS.items()}
NUMBER_OF_PERMISSION: Final = {permission: number for number, permission in PERMISSIONS.items()}
