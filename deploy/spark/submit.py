"""The program that spark-submit runs: `klamm audit` with its arguments. An example is in `docs/audit-on-spark.md`."""

import sys

from klamm.entry import main

if __name__ == "__main__":
    sys.argv.insert(1, "audit")
    main()
