"""Run test suites and end with the line "N passed, N failed".

python test/run.py                       all of them
python test/run.py sql --only 50_claim   the pgTAP files of one chapter
python test/run.py isolation --accept    take what the specs print now as expected
"""

from __future__ import annotations

import argparse
import sys
from functools import partial
from pathlib import Path

from chaos import chaos, dumps, failover, killers
from harness import (
    isolation_suite,
    lint_suite,
    pytest_suite,
    report,
    sql_suite,
    verify_suite,
)

# All but those that take many minutes, the longest first; what is measured comes last.
ALL = (
    "spark",
    "python",
    "chaos",
    "sql",
    "page",
    "isolation",
    "lint",
    "upgrade",
    "pooled",
    "failover",
    "verify",
    "bench",
)

# What is run through a pooler every time; all of it is the suite pgbouncer.
POOLED = "(test_client and not test_client_async) or test_rights or test_errors"


def bench(into: report.Report) -> None:
    """Try the benchmarks, which need packages that no other suite needs."""
    from harness import bench_suite

    bench_suite.run(into)


def all_chaos(
    into: report.Report, *, crashes: int, messages: int, restores: int, killed: int
) -> None:
    """Run crashes under load, then dumps under rotation, then messages that kill."""
    chaos.run(into, crashes=crashes, messages=messages)
    dumps.run(into, dumps=restores)
    killers.run(into, messages=150 * killed, killers=killed)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("suites", nargs="*", metavar="suite")
    parser.add_argument("--only", default="", metavar="TEXT", help="files with TEXT in their path")
    parser.add_argument("--accept", action="store_true", help="rewrite expected output")
    parser.add_argument(
        "--running", action="store_true", help="use the server that the PG* variables name"
    )
    parser.add_argument("--crashes", type=int, default=20, help="of the server, at least")
    parser.add_argument("--messages", type=int, default=80_000, help="under chaos, at least")
    parser.add_argument("--dumps", type=int, default=2, help="under chaos, restored and compared")
    parser.add_argument("--killers", type=int, default=2, help="messages that kill their worker")
    parser.add_argument("--rounds", type=int, default=1, help="of failover")
    parser.add_argument("--jobs", type=int, default=2, help="suites at a time, of all of them")
    parser.add_argument("--result", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    suites: dict[str, report.Suite] = {
        "verify": verify_suite.run,
        "sql": partial(sql_suite.run, pattern=options.only, running=options.running),
        "isolation": partial(isolation_suite.run, pattern=options.only, accept=options.accept),
        "upgrade": partial(
            pytest_suite.run, directory="upgrade", pattern=options.only, accept=options.accept
        ),
        "python": partial(
            pytest_suite.run, directory="python", pattern=options.only, accept=options.accept
        ),
        "page": partial(pytest_suite.run, directory="page", pattern=options.only),
        "pooled": partial(
            pytest_suite.run, directory="python", pattern=options.only or POOLED, pooler=True
        ),
        "pgbouncer": partial(
            pytest_suite.run, directory="python", pattern=options.only, pooler=True
        ),
        "chaos": partial(
            all_chaos,
            crashes=options.crashes,
            messages=options.messages,
            restores=options.dumps,
            killed=options.killers,
        ),
        "failover": partial(failover.run, rounds=options.rounds),
        "spark": partial(
            pytest_suite.run, directory="spark", pattern=options.only, accept=options.accept
        ),
        "spark-cluster": partial(pytest_suite.run, directory="spark_cluster", pattern=options.only),
        "bench": bench,
        "lint": lint_suite.run,
    }
    if not options.suites:
        return report.run_beside(ALL, options.jobs)
    names = options.suites
    if unknown := set(names) - set(suites):
        parser.error(f"no such suite: {', '.join(sorted(unknown))}; there are {', '.join(suites)}")
    return report.run({name: suites[name] for name in names}, options.result)


if __name__ == "__main__":
    sys.exit(main())
