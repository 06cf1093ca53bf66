"""Principals become users as Kafka's KerberosShortNamer makes them: its 3.9.1 was asked for each, with EXAMPLE.COM as
the default realm.
"""

import pytest

from cluster.model.errors import ConfigError
from cluster.security.kerberos_names import parse_kerberos_rules

REALM = "EXAMPLE.COM"
APPS = r"RULE:[1:$1](App\..*)s/App\.(.*)/$1/g,RULE:[2:$1](App\..*)s/App\.(.*)/$1/g,DEFAULT"
BROKERS = "RULE:[2:$1@$0](kafka@EXAMPLE.COM)s/.*/broker/,RULE:[1:$1@$0](.*)s/@.*///L,DEFAULT"


@pytest.mark.parametrize(
    ("rules", "principal", "user"),
    [
        ("DEFAULT", "alice@EXAMPLE.COM", "alice"),
        ("DEFAULT", "kafka/b1.example@EXAMPLE.COM", "kafka"),
        ("DEFAULT", "alice/@EXAMPLE.COM", "alice"),
        (" DEFAULT ", "alice@EXAMPLE.COM", "alice"),
        ("RULE:[1:$1@$0](.*@OTHER.COM)s/@.*//,DEFAULT", "alice@OTHER.COM", "alice"),
        ("RULE:[1:$1@$0](.*@OTHER.COM)s/@.*//,DEFAULT", "bob@EXAMPLE.COM", "bob"),
        (APPS, "App.service-name/example.com@EXAMPLE.COM", "service-name"),
        (APPS, "App.service-name@REALM.COM", "service-name"),
        ("RULE:[1:$1]/L", "Alice@X", "alice"),
        ("RULE:[1:$1]/U", "Alice@X", "ALICE"),
        ("RULE:[1:$1]L", "Alice@X", "alice"),
        ("RULE:[2:$1](KAFKA)s/ABC/XYZ/L", "KAFKA/h@X", "kafka"),
        ("RULE:[1:$1](A.*)s/A/B/gL", "AAa@X", "bba"),
        ("RULE:[1:$1](A.*)s/A/B/g/L", "AAa@X", "bba"),
        ("RULE:[1:$1](A.*)s/A/B//U", "AAa@X", "BAA"),
        ("RULE:[1:$1](A.*)s/A/B/", "AAa@X", "BAa"),
        ("RULE:[1:$1](A.*)s/A/B/g", "AAa@X", "BBa"),
        ("RULE:[1:$1]s/A/B/g", "AAa@X", "BBa"),
        ("RULE:[2:$2]", "a/h@X", "h"),
        ("RULE:[2:$2-$1-$0]", "a/h@X", "h-a-X"),
        ("RULE:[1:x]", "alice@X", "x"),
        ("RULE:[1:$1](.*)s/(.)(.*)/$2$1/", "alice@X", "licea"),
        (r"RULE:[1:$1](.*)s/a/\$/", "alice@X", "$lice"),
        ("RULE:[1:$1](.*)s/(?<n>a)/${n}${n}/", "alice@X", "aalice"),
        ("RULE:[1:$1](.*)s/a*/-/g", "baac@X", "-b--c-"),
        (BROKERS, "kafka/h@EXAMPLE.COM", "broker"),
        (BROKERS, "ALICE@ANY", "alice"),
        ("RULE:[1:$1@$0](.*@EXAMPLE.COM)s/@EXAMPLE.COM//", "alice@EXAMPLE.COM", "alice"),
        ("RULE:[1:$1](.*)/L", "ÄB@X", "äb"),
        ("RULE:[1:$1](.*)/L", "İ@X", "i̇"),
        ("RULE:[1:$1](.*)/U", "straße@X", "STRASSE"),
        ("DEFAULT,DEFAULT", "a@EXAMPLE.COM", "a"),
        ("RULE:[1:$1](.*)s/i/$0$0/", "alice@X", "aliice"),
        ("RULE:[1:$1](.*)s/.*/x/g", "alice@X", "xx"),
    ],
)
def test_the_first_rule_for_a_principal_makes_the_user(rules: str, principal: str, user: str) -> None:
    assert parse_kerberos_rules(rules).user_of(principal, REALM) == user


@pytest.mark.parametrize(
    ("rules", "principal"),
    [
        ("DEFAULT", "alice@OTHER.COM"),
        ("DEFAULT", "alice"),
        ("DEFAULT", "a/b/c@EXAMPLE.COM"),
        ("DEFAULT", "a@b@EXAMPLE.COM"),
        ("DEFAULT", "@EXAMPLE.COM"),
        ("DEFAULT", "/h@EXAMPLE.COM"),
        ("DEFAULT", "a/b"),
        ("DEFAULT", "alice@example.com"),
        ("RULE:[1:$1@$0](.*@OTHER.COM)s/@.*//", "bob@EXAMPLE.COM"),
        ("RULE:[1:$1]()s/A/B/L", "A@X"),
        ("RULE:[1:$1]()s/A/B/L", "@X"),
        ("RULE:[1:$1@$0]", "alice@X"),
        ("RULE:[1:$1@$0],DEFAULT", "alice@EXAMPLE.COM"),
        ("RULE:[2:$1/$2]", "a/h@X"),
        ("RULE:[1:]", "alice@X"),
        ("RULE:[0:$0]", "alice@X"),
        ("RULE:[3:$1]", "alice@X"),
        ("RULE:[1:$1](ali)", "alice@X"),
        ("RULE:[1:$1@$0](alice@X)s/@X/@Y/", "alice@X"),
        (r"RULE:[1:$1](\w+)", "Ünal@X"),
        ("RULE:[1:$1](a/b)", "a@X"),
        # Kafka takes an empty name, and names without a realm, which Kerberos does not send.
        # A / that belongs to a component is not told from one between two; Kerberos shows it with a backslash.
        ("DEFAULT", r"a\/b@EXAMPLE.COM"),
        ("RULE:[1:$1]", f"{'a' * 257}@X"),
    ],
)
def test_a_principal_that_no_rule_is_for_is_no_user(rules: str, principal: str) -> None:
    with pytest.raises(ConfigError) as error:
        parse_kerberos_rules(rules).user_of(principal, REALM)
    assert error.value.errors[0].startswith(f"principal {principal!r}: ")


@pytest.mark.parametrize(
    "rules",
    [
        "default",
        "DEFAULT/L",
        "DEFAULTX",
        "",
        "RULE:[1:$1]/X",
        "RULE:[1:$1]/L/",
        "RULE:[1:$1]s/A/B",
        "RULE:[:$1]",
        "RULE:[99999999999:$1]",
        "RULE:[1:$1](",
        "RULE:[1:$1](a(b)c)",
        "RULE:[1:$1]([)",
        "RULE:[1:$1](a{2,3})",
        "RULE:[1:$1](.*),FOO",
        "rule:[1:$1]",
        "RULE:[1:$1] (a)",
        "RULE:[1:a]b]",
        # Kafka finds these out when the first user comes.
        "RULE:[1:$2]",
        "RULE:[1:$]",
        "RULE:[1:$11]",
        "RULE:[1:$1](.*)s/(.)(.*)/$3/",
        "RULE:[1:$1](.*)s/a/$/",
        "RULE:[1:$1](.*)s/^/$1/",
    ],
)
def test_rules_that_are_malformed_are_refused(rules: str) -> None:
    with pytest.raises(ConfigError) as error:
        parse_kerberos_rules(rules)
    assert any(error.value.errors[0].startswith(f"{rule!r}: ") for rule in rules.split(","))
