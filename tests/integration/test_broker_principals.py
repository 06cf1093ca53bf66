"""Who may act as a broker while an authorizer is switched on, where brokers prove who they are by Kerberos."""

from pathlib import Path

import pytest

from cluster.config.settings import Settings
from cluster.model.errors import ApiError
from cluster.security.principals import Principal
from controller.adapters.kafka.broker_principals import BrokerPrincipals


def principals(principal: str, rules: str = "DEFAULT") -> BrokerPrincipals:
    module = "com.sun.security.auth.module.Krb5LoginModule"
    jaas = f'{module} required useKeyTab=true keyTab="/broker.keytab" principal="{principal}" serviceName="kafka";'
    settings = Settings(
        sasl_mechanism_inter_broker_protocol="GSSAPI",
        gssapi_sasl_jaas_config=jaas,
        sasl_kerberos_principal_to_local_rules=rules,
    )
    return BrokerPrincipals(settings, lambda: "")


@pytest.mark.parametrize(
    ("principal", "rules", "user"),
    [
        ("kafka/controller-1@EXAMPLE", "DEFAULT", "kafka"),
        ("kafka/controller-1", "DEFAULT", "kafka"),
        ("kafka/c@OTHER", r"RULE:[2:$1@$0](.*@OTHER)s/@.*//U,DEFAULT", "KAFKA"),
    ],
)
async def test_a_broker_is_known_by_the_user_that_the_rules_make_of_this_controllers_principal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, principal: str, rules: str, user: str
) -> None:
    """Brokers have principals of their own hosts, and one user in common."""
    pytest.importorskip("gssapi", exc_type=ImportError)
    (tmp_path / "krb5.conf").write_text("[libdefaults]\ndefault_realm = EXAMPLE\n")
    monkeypatch.setenv("KRB5_CONFIG", str(tmp_path / "krb5.conf"))
    found = principals(principal, rules)
    await found.require(Principal("User", user), "SASL_SSL", has_sasl=True)
    for other in ("alice", principal):
        with pytest.raises(ApiError, match=f"only from User:{user} and from super"):
            await found.require(Principal("User", other), "SASL_SSL", has_sasl=True)


async def test_a_principal_that_no_rule_is_for_is_no_broker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "krb5.conf").write_text("[libdefaults]\ndefault_realm = EXAMPLE\n")
    monkeypatch.setenv("KRB5_CONFIG", str(tmp_path / "krb5.conf"))
    with pytest.raises(ApiError, match="only from nobody and from super"):
        await principals("kafka/c@OTHER").require(Principal("User", "kafka"), "SASL_SSL", has_sasl=True)
