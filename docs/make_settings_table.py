"""Write the table of settings into docs/configuration.md from the settings themselves.

Run it after a change of `cluster/config/settings.py`, `kafka_settings.py`, `authorizer_keys.py`, `tls_keys.py` or
`sasl_keys.py`:

    .venv/bin/python docs/make_settings_table.py
"""

import ast
from itertools import pairwise
from pathlib import Path

from cluster.config import authorizer_keys, kafka_settings, sasl_keys, settings, tls_keys
from cluster.config.setting_types import INT64_MAX

PAGE = Path(__file__).resolve().parent / "configuration.md"
MODULES = (settings, kafka_settings, authorizer_keys, tls_keys, sasl_keys)
BEGIN, END = "<!-- settings:begin -->", "<!-- settings:end -->"


def shown(name: str, value: object) -> str:
    match value:
        case None:
            return ""
        case bool():
            return str(value).lower()
        case _ if value == INT64_MAX:
            return "unlimited" if name.endswith("per_second") else "never"
    return str(value)


def meanings() -> dict[str, str]:
    """The sentence below each setting, by its attribute."""
    found: dict[str, str] = {}
    modules = (ast.parse(Path(module.__file__).read_text("utf-8")) for module in MODULES)
    for statement in (statement for module in modules for statement in module.body):
        for field, below in pairwise(statement.body if isinstance(statement, ast.ClassDef) else ()):
            match field, below:
                case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(text))):
                    found[name] = " ".join(text.split())
    return found


def with_table(text: str) -> str:
    """Replace the table between the two marks in `text`. KeyError for a setting without a meaning."""
    head, _, rest = text.partition(BEGIN)
    _, _, tail = rest.partition(END)
    defaults, meaning = settings.Settings(), meanings()
    rows = sorted(
        f"| `{field.alias}` | {shown(name, getattr(defaults, name))} | {meaning[name]} |"
        for name, field in settings.Settings.model_fields.items()
    )
    table = "\n".join(["| key | default | meaning |", "|---|---|---|", *rows])
    return f"{head}{BEGIN}\n\n{table}\n\n{END}{tail}"


if __name__ == "__main__":
    PAGE.write_text(with_table(PAGE.read_text()))
