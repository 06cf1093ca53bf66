"""Write the table of settings into docs/configuration.md from the settings themselves.

Run it after a change of `cluster/process/settings.py`: .venv/bin/python docs/make_settings_table.py
"""

from pathlib import Path

from cluster.process.settings import INT64_MAX, Settings

PAGE = Path(__file__).resolve().parent / "configuration.md"
BEGIN, END = "<!-- settings:begin -->", "<!-- settings:end -->"


def shown(value: object) -> str:
    match value:
        case None:
            return ""
        case bool():
            return str(value).lower()
        case _ if value == INT64_MAX:
            return "never"
    return str(value)


def with_table(text: str) -> str:
    """`text` with the table between the two marks made anew."""
    head, _, rest = text.partition(BEGIN)
    _, _, tail = rest.partition(END)
    defaults = Settings()
    rows = sorted(
        f"| `{field.alias}` | {shown(getattr(defaults, name))} |" for name, field in Settings.model_fields.items()
    )
    table = "\n".join(["| key | default |", "|---|---|", *rows])
    return f"{head}{BEGIN}\n\n{table}\n\n{END}{tail}"


if __name__ == "__main__":
    PAGE.write_text(with_table(PAGE.read_text()))
