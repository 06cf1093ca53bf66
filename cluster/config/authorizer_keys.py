"""Settings of the authorizer, under Kafka's names: whether requests are decided, and who may do everything."""

from pydantic import field_validator

from cluster.config.setting_keys import Keys
from cluster.model.errors import ConfigError
from cluster.security.acls import ACL_AUTHORIZER, ACL_AUTHORIZERS
from cluster.security.principals import parse_super_users


class AuthorizerKeys(Keys):
    """Rules are in ZooKeeper, where Kafka's brokers have them."""

    authorizer_class_name: str = ""
    """`kafka.security.authorizer.AclAuthorizer` authorises each request by the access control lists in ZooKeeper;
    empty: everyone may do everything.
    """
    super_users: str = ""
    """Principals that may do everything, with semicolons between them: `User:CN=admin;User:alice`."""
    allow_everyone_if_no_acl_found: bool = False
    """Whether everyone may do everything to a resource for which there is no access control list at all."""

    @field_validator("authorizer_class_name")
    @classmethod
    def _is_known(cls, value: str) -> str:
        if value not in {"", *ACL_AUTHORIZERS}:
            raise ValueError(f"must be {ACL_AUTHORIZER}, or empty for none: klamm has no other authorizer")
        return value

    @field_validator("super_users")
    @classmethod
    def _are_principals(cls, value: str) -> str:
        try:
            parse_super_users(value)
        except ConfigError as error:
            raise ValueError(f"{error}; principals have semicolons between them") from error
        return value
