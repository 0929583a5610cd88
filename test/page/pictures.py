"""Photograph the page for python/DASHBOARD.md: a shop on a bad night, in light, dark and small."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import psycopg
from playwright.sync_api import Browser, Page

TEST = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(TEST))

from harness import chromium, shop  # noqa: E402
from harness.install import install  # noqa: E402
from harness.server import embedded_server  # noqa: E402
from pgq.dashboard import Dashboard, Guard  # noqa: E402

TARGET = TEST.parent / "python"
WIDE = (1280, 780)
PHONE = (390, 780)
# How long the page watches before the picture.
SECONDS = 20
# Lines need a past: what maintain() would have counted in the last hours.
PAST = """
insert into pgq.traffic (queue_id, minute, event, size)
select q.queue_id, date_trunc('minute', now()) - m * interval '1 min', e.event,
       (e.base * (2 + sin(m / 17.0) + sin(m / 5.0) / 3 + (m * 7919 % 13) / 20.0)
        / (1 + m / 90.0))::int
  from pgq.queue q, generate_series(1, 700) m,
       (values ('in', 3000), ('ack', 2900), ('nack', 4), ('ready', 160),
               ('dead', 0)) e (event, base)
 where q.name in ('orders', 'billing', 'search-index')
union all
select q.queue_id, date_trunc('minute', now()) - m * interval '1 min', 'ready',
       case q.name when 'mails' then greatest(0, 1240 - 88 * m) else 0 end
  from pgq.queue q, generate_series(1, 700) m
 where q.name not in ('orders', 'billing', 'search-index')
    on conflict do nothing
"""
LARGEST = 150_000


def main() -> int:
    with embedded_server() as server:
        dsn = server.create_database("shop")
        with psycopg.connect(dsn, autocommit=True) as conn:
            install(conn)
            shop.build(conn)
            conn.execute(PAST)
        page = Dashboard(dsn, guard=Guard(writes=True), interval=0.25)
        page.start()
        try:
            with shop.Traffic(dsn), chromium.launch() as browser:
                time.sleep(SECONDS)
                take(browser, page.url, "queues", "#/", WIDE, "light")
                take(browser, page.url, "queue", "#/queue/orders", WIDE, "dark")
                take(browser, page.url, "letters", "#/letters", WIDE, "dark")
                take(browser, page.url, "filter", "#/filter?queue=orders", WIDE, "light")
                take(browser, page.url, "phone", "#/", PHONE, "dark")
        finally:
            page.close()
    return 0


def take(
    browser: Browser, url: str, name: str, path: str, size: tuple[int, int], scheme: str
) -> None:
    """Take one picture."""
    context = browser.new_context(
        color_scheme="dark" if scheme == "dark" else "light",
        viewport={"width": size[0], "height": size[1]},
        locale="en-GB",
        reduced_motion="reduce",
    )
    page = context.new_page()
    page.goto(url + path)
    page.wait_for_selector(".pulse.live")
    prepare(page, name)
    file = TARGET / f"dashboard-{name}.png"
    page.screenshot(path=file)
    context.close()
    length = file.stat().st_size
    print(f"{file.relative_to(TARGET.parent)}: {length / 1000:.0f} kB")
    if length > LARGEST:
        raise SystemExit(f"{file.name} is too large")


def prepare(page: Page, name: str) -> None:
    """Do what the picture is to show."""
    if name == "queue":
        page.locator(".plot").nth(1).hover()
    elif name == "letters":
        page.locator(".letter .open").first.click()
        page.wait_for_selector(".letter pre.error")
    elif name == "filter":
        page.get_by_label("Filter document").fill(
            '{\n  "type": ["paid", "refund"],\n  "payload.amount": {"$gte": 50, "$below": 90}\n}'
        )
        page.wait_for_selector("mark")
    else:
        page.wait_for_selector("tbody tr")
    page.wait_for_timeout(1500)


if __name__ == "__main__":
    sys.exit(main())
