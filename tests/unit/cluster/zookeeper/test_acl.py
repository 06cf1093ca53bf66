"""The ACL of each znode of Kafka's layout."""

import pytest

from cluster.zookeeper.acl import Access, access_of

OPEN, READABLE, SECRET = Access.OPEN, Access.CREATOR_AND_READERS, Access.CREATOR


@pytest.mark.rule("ZK-6")
@pytest.mark.parametrize(
    ("path", "access"),
    [
        # Kafka leaves it open, for consumers before 2.0.
        ("/consumers", READABLE),
        ("/controller", READABLE),
        ("/controller_epoch", READABLE),
        ("/brokers/ids/1", READABLE),
        ("/brokers/topics/t/partitions/0/state", READABLE),
        ("/admin/delete_topics/t", READABLE),
        ("/isr_change_notification/isr_change_", READABLE),
        ("/config", READABLE),
        ("/config/topics/t", READABLE),
        ("/config/changes/config_change_", READABLE),
        ("/config/users", SECRET),
        ("/config/users/alice", SECRET),
        ("/config/users/alice/clients/c", SECRET),
        ("/config/brokers", SECRET),
        ("/config/brokers/<default>", SECRET),
        ("/delegation_token", READABLE),
        ("/delegation_token/tokens", SECRET),
        ("/delegation_token/tokens/abc", SECRET),
        ("/config/brokers_of_another_kind", READABLE),
    ],
)
def test_with_access_lists_nodes_belong_to_their_creator_and_secrets_are_not_read(path: str, access: Access) -> None:
    assert access_of(path, sets_acl=True) is access
    assert access_of(path, sets_acl=False) is OPEN
