"""Distinguished names become principals as Kafka's SslPrincipalMapper makes them; its 3.9.1 was asked for each name."""

import pytest

from cluster.model.errors import ConfigError
from cluster.security.mapping import parse_mapping_rules
from cluster.security.principals import Principal

DUKE = "CN=Duke,OU=ServiceUsers,O=Org,C=US"
SERVICE = r"RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/"
ADMIN = r"RULE:^CN=(.*?),OU=(.*?),O=(.*?),L=(.*?),ST=(.*?),C=(.*?)$/$1@$2/L"


@pytest.mark.parametrize(
    ("rules", "subject", "name"),
    [
        ("DEFAULT", DUKE, DUKE),
        (SERVICE, DUKE, "Duke"),
        (f"{SERVICE}L", DUKE, "duke"),
        (f"{SERVICE}U", DUKE, "DUKE"),
        (f"{SERVICE}L, {ADMIN}, DEFAULT", "CN=Ann,OU=Admin,O=X,L=Y,ST=Z,C=US", "ann@admin"),
        (f"{SERVICE},DEFAULT", "CN=other", "CN=other"),
        (f" , {SERVICE} ,, DEFAULT,", "CN=other", "CN=other"),
        (f"DEFAULT,{SERVICE}", DUKE, DUKE),
        (r"RULE:^.*[Cc][Nn]=([a-zA-Z0-9.]*).*$/$1/L", "OU=x,cn=A.b,O=c", "a.b"),
        # A comma, a class with the letters of DEFAULT, and an escaped slash belong to the pattern.
        (r"RULE:^CN=([^,DEFAULT,]+)(,.*|$)/$1/", "CN=bob,O=x", "bob"),
        (r"RULE:^CN=a\/b$/x\/y/", "CN=a/b", "x/y"),
        (r"RULE:^CN=(?<user>\w+)$/${user}-$0/", "CN=ann", "ann-CN=ann"),
        # A group that the pattern lacks is text; digits that name no group follow the one that they begin with.
        (r"RULE:^CN=(\w+)$/$1@$4/", "CN=ann", "ann@$4"),
        (r"RULE:^CN=(\w+)$/$12/", "CN=ann", "ann2"),
        (r"RULE:^CN=(\w+)$/\$1/", "CN=ann", "$1"),
        (r"RULE:^CN=(\w+)$/$01/", "CN=ann", "ann"),
        (r"RULE:^CN=\w+$/$01/", "CN=ann", "CN=ann1"),
        (r"RULE:^CN=(a)?(\w+)$/$1.$2/", "CN=bob", ".bob"),
        # The pattern is looked for once more, and finds the end as well.
        (r"RULE:.*/x/", "CN=ann", "xx"),
        # A dot is no end of a line, of which Java knows more than Python.
        (r"RULE:^CN=(\w+).*$/$1/,DEFAULT", "CN=ann x", "ann"),
        (r"RULE:^CN=(\w+).*$/$1/,DEFAULT", "CN=ann\u2028x", "CN=ann\u2028x"),
        (r"RULE:^CN=(\w+).*$/$1/,DEFAULT", "CN=ann\rx", "CN=ann\rx"),
        (r"RULE:^CN=(\w+).*$/$1/,DEFAULT", "CN=ann\x85x", "CN=ann\x85x"),
        (r"RULE:^CN=(\w+)(?s:.*)$/$1/,DEFAULT", "CN=ann\u2028x", "ann"),
        (r"RULE:^CN=(\w+)[^,]*$/$1/,DEFAULT", "CN=ann\u2028x", "ann"),
        (r"RULE:^CN=(\w+)\.[].a]?$/$1/,DEFAULT", "CN=ann.", "ann"),
        (r"RULE:^CN=(\w+)\.$/$1/,DEFAULT", "CN=annx", "CN=annx"),
        (r"RULE:CN=(.*?)/$1/", "CN=ann", "ann"),
    ],
)
def test_the_first_rule_for_a_name_makes_the_principal(rules: str, subject: str, name: str) -> None:
    assert parse_mapping_rules(rules).principal_of(subject) == Principal("User", name)


@pytest.mark.parametrize(
    "rules",
    [
        "",
        " , ",
        "default",
        "DEFAUL",
        "DEFAULT/L",
        "DEFAULT;DEFAULT",
        r"RULE:CN=(.*?),OU=ServiceUsers.*/$1",
        r"rule:^CN=(.*?)$/$1/",
        f"{SERVICE}L/U",
        f"{SERVICE}LU",
        r"RULE:^CN=(.*?)$/L",
        r"RULE:^CN=(.*?$/$1/",
        # What Kafka would notice only at the first connection.
        r"RULE:^CN=.*$/$1/",
        r"RULE:^CN=(.*)$/$/",
        r"RULE:^CN=(.*)$/${name}/",
        # Java's syntax that would mean something else here.
        r"RULE:^CN=\p{Alpha}+$/x/",
        r"RULE:^CN=[a-z&&[^b]]$/x/",
    ],
)
def test_rules_that_are_malformed_are_refused(rules: str) -> None:
    with pytest.raises(ConfigError):
        parse_mapping_rules(rules)


@pytest.mark.parametrize(
    ("rules", "subject", "why"),
    [
        (SERVICE, "CN=other", "none of ssl.principal.mapping.rules is for its distinguished name 'CN=other'"),
        ("DEFAULT", f"CN={'x' * 254}", "its distinguished name has more than 256 characters"),
        ("RULE:^.*$//", "CN=ann", "make a name of 0 characters from 'CN=ann'"),
        ("RULE:(.*)/$1$1$1/", f"CN={'x' * 200}", "make a name of 609 characters"),
    ],
)
def test_a_name_that_no_rule_is_for_is_no_principal(rules: str, subject: str, why: str) -> None:
    with pytest.raises(ConfigError, match=f"certificate: .*{why}"):
        parse_mapping_rules(rules).principal_of(subject)


def test_a_name_is_matched_once_however_often_its_certificate_is_shown() -> None:
    """A certificate is asked for its user at every call, and matching may take long: many parts can be many others."""
    rules = f"{ADMIN},DEFAULT"
    name = "CN=a" + ",OU=" * 15 + ",O=" * 20 + ",L=" * 20 + ",ST=" * 15
    first = parse_mapping_rules(rules).principal_of(name)
    assert parse_mapping_rules(rules).principal_of(name) is first
    assert first.name == name
