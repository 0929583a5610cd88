"""``pgq dashboard``."""

from __future__ import annotations

import logging
import os
import sys
import webbrowser
from threading import Event
from typing import TYPE_CHECKING

from pgq._shared.threads import on_signals
from pgq.cli._command import USAGE, Commands, Failure, Options, duration
from pgq.cli._output import Output, say

if TYPE_CHECKING:
    from pgq.dashboard import Dashboard, Guard

__all__ = ["add"]

_TOKEN = "PGQ_DASHBOARD_TOKEN"
_SHORTEST = 16


def add(commands: Commands) -> None:
    """Add the command."""
    parser = commands.add(
        "dashboard",
        dashboard,
        "serve a web page: queues, messages, consumers, dead letters, schedules",
        """
        pgq dashboard
        pgq dashboard --allow-writes --open
        pgq dashboard --host 0.0.0.0 --allow-host queues.example.com
        ssh -L 8321:localhost:8321 db.example.com pgq dashboard
        """,
        more="Without --allow-writes the page is read-only. Actions, and access from another "
        f"machine, need\na token: {_TOKEN}, or a new one that is printed at the start.\n"
        "Needs the extra 'dashboard' (pip install 'pgq-client[dashboard]').\n\n",
    )
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (127.0.0.1)")
    parser.add_argument("--port", type=int, default=8321, help="0 for any free port (8321)")
    parser.add_argument(
        "--allow-writes", action="store_true", help="allow actions: pause, cancel, replay ..."
    )
    parser.add_argument(
        "--require-token", action="store_true",
        help="require the token for reading, too; the default unless --host is a loopback address",
    )  # fmt: skip
    parser.add_argument(
        "--allow-host", action="append", default=[], metavar="NAME",
        help="a name by which a proxy or another machine reaches the page; repeatable",
    )  # fmt: skip
    parser.add_argument(
        "--interval",
        type=duration,
        metavar="DURATION",
        default="2s",
        help="how often to query the database (2s)",
    )
    parser.add_argument("--open", action="store_true", help="open the page in a browser")


def dashboard(options: Options, out: Output) -> None:
    """Serve the page until interrupted."""
    try:
        from pgq.dashboard import Dashboard
    except ModuleNotFoundError as error:
        raise Failure(
            f"the page needs a package that is missing: {error.name}",
            "pip install 'pgq-client[dashboard]'",
        ) from None

    try:
        page = Dashboard(
            options.dsn,
            host=options.host,
            port=options.port,
            guard=_guard(options),
            interval=max(options.interval.total_seconds(), 0.1),
        )
    except (OSError, OverflowError) as error:
        raise Failure(
            f"cannot listen on {options.host}:{options.port}: {error}",
            "Take another one: --port 0 finds one that is free.",
        ) from None
    _log_to_stderr()
    stop = Event()
    with on_signals(stop.set, True):
        page.start()
        _tell(page, options, out)
        stop.wait()
    page.close()


def _guard(options: Options) -> Guard:
    from pgq.dashboard.guard import Guard, is_loopback

    token = os.environ.get(_TOKEN)
    if token is not None and len(token) < _SHORTEST:
        raise Failure(f"{_TOKEN} has less than {_SHORTEST} characters", code=USAGE)
    return Guard(
        hosts=[options.host, *options.allow_host],
        writes=options.allow_writes,
        private=options.require_token or not is_loopback(options.host),
        token=token,
    )


def _tell(page: Dashboard, options: Options, out: Output) -> None:
    """Print the address with the token after the #, which a browser does not send."""
    guard = page.guard
    needed = guard.acts or guard.private
    address = f"{page.url}#token={guard.token}" if needed else page.url
    if out.as_json:
        out.rows([{"url": page.url, "token": guard.token if needed else None}])
    else:
        print(address)
    sys.stdout.flush()
    say("it can change queues" if guard.acts else "it is read-only: see --allow-writes")
    if options.open:
        webbrowser.open(address)


def _log_to_stderr() -> None:
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("%(asctime)s %(message)s"))
    logger = logging.getLogger("pgq.dashboard")
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
