"""Where the command `klamm` begins: the application's packages go first on `sys.path`, then its command line runs.

The wheel carries them in `klamm/app`, out of reach of another distribution's `cluster` or `admin`. A clone has them at
its root, where tests, tools and benchmarks import them without this module. Beside a distribution with a package of the
same name they would get that one, and so a clone, or an editable installation of it, refuses to start.
"""

import gc
import sys
from importlib.machinery import PathFinder
from pathlib import Path

_HERE = Path(__file__).resolve().parent
_IN_WHEEL = _HERE / "app"
_IN_CLONE = _HERE.parents[1]


def main() -> None:
    """Run the command line. Exits with 1 in a clone where another distribution has a package of our names."""
    if _IN_WHEEL.is_dir():
        sys.path.insert(0, str(_IN_WHEEL))
    else:
        _refuse_foreign_packages(_IN_CLONE)
        sys.path.insert(0, str(_IN_CLONE))
    if sys.argv[1:2] == ["health"]:
        # Container engines run it every few seconds: without typer, gRPC and configuration, in a twentieth of the time.
        from launcher.health import plain_options, report

        options = plain_options(sys.argv[2:])
        if options is not None:
            sys.exit(report(**options))
    # Nothing that imports make is garbage, and to look for it takes a fifth of a start. Commands switch it on again.
    gc.disable()
    from launcher.__main__ import main as run

    run()


def _refuse_foreign_packages(root: Path) -> None:
    """Exit, naming them. What is on PYTHONPATH but in no distribution does not matter: ours come first."""
    elsewhere = [entry for entry in sys.path if Path(entry).resolve() != root]
    ours = sorted(marker.parent.name for marker in root.glob("*/__init__.py"))
    found = [name for name in ours if PathFinder.find_spec(name, elsewhere) is not None]
    if not found:
        return
    # Reads what every distribution has installed: late, because it takes longer than most commands.
    from importlib.metadata import packages_distributions

    owners = packages_distributions()
    owned = {name: owners[name] for name in found if name in owners}
    if owned:
        packages = ", ".join(f"{name} (distribution {' and '.join(names)})" for name, names in owned.items())
        distributions = " ".join(sorted({owner for names in owned.values() for owner in names}))
        sys.exit(
            f"klamm: in a clone, {root}, packages of other distributions would be imported for ours: {packages}.\n"
            f"klamm: uninstall them ({sys.executable} -m pip uninstall {distributions}), use an environment "
            "for klamm alone, as ./klamm makes one in .venv, or install klamm as a wheel, whose packages lie apart."
        )
