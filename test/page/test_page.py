"""The page in a real browser: every view, every action, and what must not happen."""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import Any

import psycopg
import pytest
from playwright.sync_api import Page, expect
from psycopg.types.json import Jsonb

from harness import shop
from harness.page import TOKEN, Open, Serve
from harness.server import embedded_server
from pgq.dashboard import Dashboard, Guard

Conn = psycopg.Connection[Any]

VIEWS = [
    "#/", "#/queue/orders", "#/messages?queue=orders", "#/message/1", "#/consumers", "#/letters",
    "#/schedules", "#/filter?queue=orders",
]  # fmt: skip
HOSTILE = (
    "<script>window.hurt = 1</script><img src=x onerror='window.hurt = 1'>"
    "\u202egnp.exe \u200b\u0007 \"'&amp; {{7*7}}"
)


def row(page: Page, queue: str) -> Any:
    return page.locator("table.queues tbody tr").filter(
        has=page.get_by_role("link", name=queue, exact=True)
    )


def dead(db: Conn, queue: str) -> int:
    found = db.execute("select dead from pgq.queue_stats where queue = %s", [queue]).fetchone()
    assert found is not None
    return int(found[0])


def test_the_queues_are_shown_with_what_needs_attention_first(
    night: Conn, serve: Serve, open_page: Open
) -> None:
    page = open_page(serve())
    expect(page.locator("h1")).to_have_text("Queues")
    expect(row(page, "orders").locator("td").first).to_contain_text("335")
    expect(row(page, "refunds").locator("td").last).to_have_text("18")
    expect(row(page, "invoices")).to_contain_text("paused")
    expect(row(page, "audit")).to_contain_text("archive")
    expect(row(page, "mails").locator("svg.spark")).to_have_count(3)
    expect(row(page, "mails").locator("svg.spark path.line").first).to_have_attribute(
        "d", re.compile(r"^M.*L")
    )
    # The worst first: mails have no consumer, refunds fail.
    findings = page.locator(".findings li")
    expect(findings.filter(has_text="mails")).to_contain_text("nobody consumes it: 1,240 ready")
    expect(findings.filter(has_text="mails")).to_contain_text(re.compile("1[4-9] min"))
    failing = findings.filter(has_text="of the attempts fail")
    expect(failing).to_contain_text("100 % of the attempts fail")
    expect(findings.filter(has_text="invoices")).to_have_class("warn")
    expect(page).to_have_title(re.compile(r"^\([2-9]\) Queues"))
    expect(page.locator("table.queues tbody tr").first).to_have_class(re.compile("^bad"))
    # Finding and ordering
    page.get_by_label("Find a queue").fill("ware")
    expect(page.locator("table.queues tbody tr")).to_have_count(1)
    page.get_by_label("Find a queue").fill("")
    page.get_by_label("Order").select_option("ready")
    expect(page.locator("table.queues tbody th a").first).to_have_text("search-index")


def test_news_arrive_without_a_reload(db: Conn, serve: Serve, open_page: Open) -> None:
    page = open_page(serve())
    expect(page.locator(".empty")).to_contain_text("No queues yet")
    db.execute("select pgq.create_queue('fresh')")
    expect(row(page, "fresh").locator("td").first).to_contain_text("0")
    db.execute("select pgq.publish('fresh', '1')")
    expect(row(page, "fresh").locator("td").first).to_contain_text("1")
    db.execute("select pgq.drop_queue('fresh', force => true)")
    expect(page.locator(".empty")).to_be_visible()


def test_a_queue_shows_its_policy_and_the_next_messages(
    night: Conn, serve: Serve, open_page: Open
) -> None:
    page = open_page(serve())
    row(page, "billing").get_by_role("link", name="billing").click()
    expect(page.locator("h1")).to_have_text("billing")
    expect(page.locator(".chart")).to_have_count(4)
    expect(page.get_by_text("pattern orders if")).to_contain_text('{"type": "paid"}')
    expect(page.locator(".messages li").first).to_contain_text('"amount"')
    page.goto(page.url.replace("billing", "nowhere"))
    expect(page.get_by_role("alert").filter(has_text="nowhere")).to_contain_text("QU001")


def test_in_flight_is_shown_by_holder_with_the_time_that_is_left(
    night: Conn, serve: Serve, open_page: Open
) -> None:
    night.execute("select pgq.relay_report('orders', 'to-cache', 'redis://cache')")
    page = open_page(serve(writes=True), "#/consumers")
    holders = page.locator(".holder")
    expect(holders).to_have_count(4)
    ledger = holders.filter(has_text="ledger")
    expect(ledger).to_contain_text("12 messages in 1 lease")
    # The lease lasts six seconds: the page counts down, and then shows that it has expired.
    expect(ledger).to_contain_text(re.compile(r"ran out .* ago"))
    expect(holders.filter(has_text="nightly-export")).to_contain_text("without end")
    export = holders.filter(has_text="nightly-export")
    export.get_by_role("button", name="Leases").click()
    expect(export.locator("tbody tr")).to_contain_text("export")
    expect(page.locator("table.listeners tbody tr")).to_have_text("mails1")
    expect(page.locator("table.limits tbody tr")).to_contain_text("12 of 50")
    expect(page.locator("table.subscribers tbody tr").first).to_contain_text('{"type": "paid"}')
    expect(page.locator("table.relays tbody tr")).to_contain_text("redis://cache")
    page.evaluate(f"sessionStorage.setItem('pgq-token', '{TOKEN}')")
    export.get_by_role("button", name="Release").click()
    page.get_by_role("dialog").get_by_role("button", name="Release").click()
    expect(page.locator(".toast")).to_have_text("10 messages released")
    expect(holders).to_have_count(3)


def test_a_dead_letter_shows_its_cause_and_content(
    night: Conn, serve: Serve, open_page: Open
) -> None:
    page = open_page(serve(), "#/letters?queue=refunds")
    causes = page.locator(".causes li")
    expect(causes).to_have_count(3)
    expect(causes.first).to_contain_text("10")
    expect(causes.first).to_contain_text("bank not reachable")
    expect(page.locator(".letter")).to_have_count(18)
    letter = page.locator(".letter").filter(has_text="KeyError").first
    letter.get_by_role("button").first.click()
    expect(letter.locator("pre.error")).to_have_text("KeyError: 'iban'")
    expect(letter.locator(".timeline li")).to_have_count(2)
    expect(letter.locator(".timeline li").last).to_contain_text("by refund-worker-3")
    expect(letter.get_by_label("payload")).to_contain_text('"iban": "DE')
    letter.get_by_role("link", name="Its history").click()
    expect(page.locator("h1")).to_have_text(re.compile(r"Message \d+"))
    expect(page.locator(".timeline li.bad.now")).to_contain_text("A dead letter")


def test_a_read_only_page_offers_no_action(night: Conn, serve: Serve, open_page: Open) -> None:
    page = open_page(serve(), "#/letters?queue=refunds")
    expect(page.locator(".letter")).to_have_count(18)
    expect(page.get_by_text("Read-only.")).to_be_visible()
    expect(page.locator("#mode")).to_have_text("read-only")
    assert verbs(page) == 0
    page.locator(".letter .open").first.click()
    expect(page.locator(".letter pre.error")).to_be_visible()
    for name in ("Replay", "Discard"):
        expect(page.get_by_role("button", name=name)).to_have_count(0)
    expect(page.get_by_role("checkbox")).to_have_count(0)

    for path in VIEWS:
        page.goto(page.url.split("#")[0] + path)
        expect(page.locator("main [aria-busy]")).to_have_count(0)
        assert verbs(page) == 0, path


def verbs(page: Page) -> int:
    """Return the number of buttons that change something."""
    return int(
        page.evaluate(
            "[...document.querySelectorAll('.verb, .acts')].filter(e => e.checkVisibility()).length"
        )
    )


def test_chosen_dead_letters_are_replayed_after_a_question(
    night: Conn, serve: Serve, open_page: Open
) -> None:
    page = open_page(serve(writes=True), f"#token={TOKEN}")
    assert TOKEN not in page.url
    page.get_by_role("link", name="Dead letters").click()
    letters = page.locator(".letter")
    expect(letters).to_have_count(18)
    replay = page.get_by_role("button", name="Replay selected")
    expect(replay).to_be_disabled()
    ids = [letters.nth(n).locator(".mono").first.inner_text() for n in range(2)]
    letters.nth(0).get_by_role("checkbox").check()
    letters.nth(1).get_by_role("checkbox").check()

    replay.click()
    question = page.get_by_role("dialog")
    expect(question).to_contain_text("Replay 2 dead letters?")
    expect(question.get_by_role("button", name="Cancel")).to_be_focused()
    page.keyboard.press("Escape")
    expect(question).to_have_count(0)
    assert dead(night, "refunds") == 18

    replay.click()
    question.get_by_role("button", name="Replay").click()
    expect(page.locator(".toast")).to_have_text("refunds: 2 dead letters replayed")
    expect(letters).to_have_count(16)
    assert dead(night, "refunds") == 16
    rows = night.execute(
        "select id from pgq.message_state where queue = 'refunds' and state = 'ready'"
    ).fetchall()
    assert sorted(str(found[0]) for found in rows) == sorted(ids)


def test_discarding_asks_and_discarding_all_wants_the_name(
    night: Conn, serve: Serve, open_page: Open
) -> None:
    page = open_page(serve(writes=True), f"#token={TOKEN}")
    page.goto(page.url.split("#")[0] + "#/letters?queue=refunds")
    letter = page.locator(".letter").first
    letter.locator(".open").click()
    letter.get_by_role("button", name="Discard").click()
    question = page.get_by_role("dialog")
    expect(question).to_contain_text("deleted for good")
    question.get_by_role("button", name="Discard").click()
    expect(page.locator(".letter")).to_have_count(17)
    assert dead(night, "refunds") == 17

    page.get_by_role("button", name="Discard all").click()
    expect(question).to_contain_text("Discard 17 dead letters?")
    sure = question.get_by_role("button", name="Discard")
    expect(sure).to_be_disabled()
    question.get_by_role("textbox").fill("refund")
    expect(sure).to_be_disabled()
    question.get_by_role("textbox").fill("refunds")
    sure.click()
    expect(page.get_by_text("No dead letters.")).to_be_visible()
    assert dead(night, "refunds") == 0


def test_without_the_token_it_is_asked_for_and_a_wrong_one_is_refused(
    night: Conn, serve: Serve, open_page: Open
) -> None:
    page = open_page(serve(writes=True), "#/letters?queue=refunds")
    page.get_by_role("button", name="Replay all").click()
    question = page.get_by_role("dialog").filter(has_text="Token required")
    question.get_by_label("Token").fill("wrong")
    question.get_by_role("button", name="Continue").click()
    expect(question.get_by_role("alert")).to_have_text("the token is missing or wrong")
    assert dead(night, "refunds") == 18
    question.get_by_label("Token").fill(TOKEN)
    page.keyboard.press("Enter")
    page.get_by_role("dialog").get_by_role("button", name="Replay").click()
    expect(page.locator(".toast")).to_have_text("refunds: 18 dead letters replayed")
    assert dead(night, "refunds") == 0


def test_a_private_page_asks_for_the_token_before_it_shows_anything(
    night: Conn, serve: Serve, open_page: Open
) -> None:
    served = serve(private=True)
    page = open_page(served, f"#token={TOKEN}")
    expect(row(page, "orders")).to_be_visible()
    page.evaluate("sessionStorage.clear()")
    page.context.clear_cookies()
    page.reload()
    question = page.get_by_role("dialog")
    expect(question).to_contain_text("This page needs a token.")
    expect(page.locator("#database")).to_be_empty()
    question.get_by_label("Token").fill(TOKEN)
    page.keyboard.press("Enter")
    expect(row(page, "orders")).to_be_visible()
    # The restarted server does not know the browser's session, but accepts the token.
    served.close()
    expect(page.locator("#outage")).to_be_visible()
    serve(port=served.port, private=True)
    expect(page.locator("#outage")).to_be_hidden()
    expect(row(page, "orders")).to_be_visible()


@pytest.mark.parametrize("writes", [False, True])
def test_hostile_contents_are_shown_as_text(
    db: Conn, serve: Serve, open_page: Open, writes: bool
) -> None:
    name = "<b>q</b>"
    db.execute("select pgq.create_queue(%s, max_attempts => 1)", [name])
    payload = {"x": HOSTILE, "</pre><script>": 1, "long": "W" * 30_000, "big": 2**70}
    ids = []
    for _ in range(2):
        found = db.execute(
            "select pgq.publish(%s, %s, %s, sender => %s)",
            [name, Jsonb(payload), Jsonb({"type": HOSTILE}), HOSTILE],
        ).fetchone()
        assert found is not None
        ids.append(found[0])
    db.execute("select set_config('application_name', '<i>worker</i>', false)")
    lease = db.execute("select lease_id from pgq.claim(%s)", [name]).fetchone()
    assert lease is not None
    db.execute("select pgq.nack(%s, error => %s)", [lease[0], HOSTILE + "E" * 5000])
    db.execute("select from pgq.claim(%s, lease => '1 h')", [name])

    db.execute(
        "select pgq.schedule('<u>schedule</u>', %s, %s, every => '1 h')", [name, Jsonb(payload)]
    )

    page = open_page(serve(writes=writes))
    expect(page.locator("table.queues tbody th a")).to_have_text(name)
    expect(page.locator(".findings")).to_contain_text(name)
    for path, shown in [
        (f"#/queue/{name}", name),
        ("#/consumers", "<i>worker</i>"),
        (f"#/messages?queue={name}&state=leased", "<script>window.hurt = 1</script>"),
        ("#/schedules", "<u>schedule</u>"),
        ("#/letters", "<script>window.hurt = 1</script>"),
        ("#/filter", '"<script>window.hurt'),
        (f"#/message/{ids[0]}", "<script>window.hurt = 1</script>"),
    ]:
        page.goto(page.url.split("#")[0] + path)
        expect(page.locator("main")).to_contain_text(shown)
        if path == "#/letters":
            page.locator(".letter .open").click()
            expect(page.get_by_label("payload")).to_contain_text("1180591620717411303424")
            # Direction-changing and invisible characters are shown as escapes.
            expect(page.locator("pre.error")).to_contain_text("\\u202egnp.exe \\u200b\\u0007")
        assert "\u202e" not in page.locator("main").inner_text()
        assert page.locator("main script, main img, main b b, main i i, main u").count() == 0
        assert fits(page)
    assert page.evaluate("window.hurt") is None


def test_an_error_in_a_filter_is_marked_where_it_is(
    night: Conn, serve: Serve, open_page: Open
) -> None:
    page = open_page(serve(), "#/filter?queue=orders")
    area = page.get_by_label("Filter document")
    verdict = page.locator("#verdict")
    expect(verdict).to_contain_text("A good filter.")
    area.fill('{"type": "paidd"}')
    expect(verdict).to_contain_text("It matches nothing. 0 of the")
    expect(page.locator("main")).to_contain_text('did you mean "paid"?')
    for text, marked, place, error_text in [
        (
            '{\n "type": "paid",\n "payload.a.b": {"$gte": 3, "$no": 4}\n}',
            '"$no": 4',
            "line 3, column 29",
            "unknown operator $no",
        ),
        ('{"$or": [{"a": 1}, {"b": {"$in": 7}}]}', '"$in": 7', "line 1, column 27", "$in"),
        ('{"type": }', "}", "line 1, column 10", "Not valid JSON: a value is expected here"),
        ('{"type": "paid"', " ", "line 1, column 16", "the document ends"),
        ("[1, 2]", "[1, 2]", "line 1, column 1", "a filter must be an object"),
    ]:
        area.fill(text)
        expect(page.locator(".marks mark")).to_have_text(marked, use_inner_text=False)
        expect(verdict).to_contain_text(error_text)
        expect(area).to_have_attribute("aria-invalid", "true")
        verdict.get_by_role("button").click()
        assert f"at {place}" in re.sub(r"\s+", " ", verdict.inner_text())
        chosen = area.evaluate("a => a.value.slice(a.selectionStart, a.selectionEnd)")
        assert chosen == marked.strip()
    expect(verdict.locator(".hint")).to_contain_text("Write {")


def test_a_valid_filter_shows_its_matches_and_explanation(
    night: Conn, serve: Serve, open_page: Open
) -> None:
    page = open_page(serve(), "#/filter?queue=orders")
    area = page.get_by_label("Filter document")
    area.fill('{"type": "refund", "payload.amount": {"$gte": 23}}')
    expect(page.locator("#verdict")).to_contain_text(re.compile(r"\d+ of the newest 200 messages"))
    expect(page.locator(".messages li").first).to_contain_text("matches")
    expect(page.locator(".messages .match").first).to_contain_text('"type": "refund"')
    expect(page.locator(".explain").first).to_contain_text("1 of 3")
    expect(page.locator(".explain").first).to_contain_text("content")
    page.get_by_role("button", name="one of several").click()
    expect(page.locator(".explain").first).to_contain_text("2 of 3")
    # Numbers that exceed JavaScript's range are unchanged.
    area.fill('{"payload.n": 12345678901234567890123}')
    page.get_by_text("How it is evaluated").click()
    expect(page.locator("details")).to_contain_text("12345678901234567890123")
    page.get_by_label("Queue").select_option("warehouse.eu")
    expect(page.locator(".explain").first).to_contain_text("the queue has no lane keys")


def test_a_message_has_its_history_as_a_time_line(db: Conn, serve: Serve, open_page: Open) -> None:
    db.execute("select pgq.create_queue('work', max_attempts => 3, backoff => '0 s')")
    db.execute("select pgq.publish('work', '{\"n\": 1}')")
    shop.hold(db, "work", "worker-a", 1, lease="0.01 s")
    db.execute("select pg_sleep(0.05)")
    lease = shop.hold(db, "work", "worker-b", 1, lease="1 min")
    db.execute("select pgq.nack(%s, error => 'not today')", [lease])
    page = open_page(serve(), "#/messages")
    page.get_by_label("Find", exact=True).fill("1")
    page.keyboard.press("Enter")
    events = page.locator(".timeline li")
    expect(events).to_contain_text([
        "Published", "Claimed", "Lease expired", "Claimed", "Refused", "Now ready",
    ])  # fmt: skip
    expect(events.nth(1)).to_contain_text("by worker-a")
    expect(events.nth(4)).to_contain_text("not today")
    expect(page.get_by_label("payload")).to_contain_text('"n": 1')
    page.get_by_label("Message id").fill("99")
    page.get_by_role("button", name="Show").click()
    expect(page.locator("main")).to_contain_text("No record of message 99.")


def test_the_page_reconnects_after_a_restart_of_its_server(
    night: Conn, dsn: str, serve: Serve, open_page: Open
) -> None:
    served = serve()
    page = open_page(served)
    expect(row(page, "orders")).to_be_visible()
    page.evaluate("window.still = 'here'")
    served.close()
    expect(page.locator("#outage")).to_contain_text("The server of this page does not answer")
    expect(page.locator("#pulse")).to_have_text("not connected")
    night.execute("select pgq.create_queue('meanwhile')")
    serve(port=served.port, writes=True)
    expect(row(page, "meanwhile")).to_be_visible()
    expect(page.locator("#outage")).to_be_hidden()
    expect(page.locator("#mode")).to_have_text("read/write")
    assert page.evaluate("window.still") == "here"


def test_the_page_reports_an_outage_of_the_database_and_recovers(open_page: Open) -> None:
    with embedded_server() as own:
        with psycopg.connect(own.dsn(), autocommit=True) as conn:
            conn.execute("create extension pgq")
            conn.execute("select pgq.create_queue('orders')")
        served = Dashboard(own.dsn(), guard=Guard(), interval=0.2)
        served.start()
        try:
            page = open_page(served)
            expect(row(page, "orders")).to_be_visible()
            own.stop()
            expect(page.locator("#outage")).to_contain_text("The database does not answer")
            expect(page.locator("#pulse")).to_have_text("stale")
            page.goto(page.url + "letters")
            expect(page.get_by_role("alert").filter(has_text="connect")).not_to_have_count(0)
            own.start()
            expect(page.locator("#outage")).to_be_hidden()
            page.goto(page.url.replace("letters", "queue/orders"))
            expect(page.locator(".facts")).to_contain_text("30 s")
        finally:
            served.close()


def test_everything_can_be_done_with_the_keyboard(
    night: Conn, serve: Serve, open_page: Open
) -> None:
    page = open_page(serve(writes=True), f"#token={TOKEN}")
    expect(row(page, "orders")).to_be_visible()
    page.keyboard.press("Tab")
    expect(page.get_by_text("Skip to the content")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("main")).to_be_focused()
    for key, title in [
        ("2", "Messages"),
        ("3", "Consumers"),
        ("5", "Schedules"),
        ("6", "Filter"),
        ("4", "Dead letters"),
    ]:
        page.keyboard.press(key)
        expect(page.locator("h1")).to_have_text(title)
        expect(page.locator("h1")).to_be_focused()
    page.keyboard.press("/")
    expect(page.get_by_label("Find", exact=True)).to_be_focused()
    expect(page.locator(".letter")).to_have_count(18)
    # Tab moves on: the button, three causes, the selection of all, the first box, the first letter.
    for _ in range(5):
        page.keyboard.press("Tab")
    expect(page.get_by_label("Select all shown")).to_be_focused()
    page.keyboard.press("Tab")
    expect(page.get_by_label(re.compile("Select message")).first).to_be_focused()
    page.keyboard.press("Space")
    page.keyboard.press("Tab")
    expect(page.locator(".letter .open").first).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator(".letter pre.error")).to_be_visible()
    # Back over the box, "Replay with options", "Discard selected", to "Replay selected".
    for _ in range(4):
        page.keyboard.press("Shift+Tab")
    expect(page.get_by_role("button", name="Replay selected")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.get_by_role("dialog").get_by_role("button", name="Cancel")).to_be_focused()
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    expect(page.locator(".letter")).to_have_count(17)
    page.locator("h1").focus()
    page.keyboard.press("?")
    expect(page.get_by_role("dialog")).to_contain_text("go to a view")
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)


def fits(page: Page) -> bool:
    """Whether the page is no wider than the window."""
    return bool(
        page.evaluate(
            "document.documentElement.scrollWidth <= document.documentElement.clientWidth"
        )
    )


def test_a_phone_shows_every_view_without_scrolling_sideways(
    night: Conn, serve: Serve, open_page: Open
) -> None:
    page = open_page(
        serve(), viewport={"width": 360, "height": 740}, has_touch=True, is_mobile=True
    )
    for path in VIEWS:
        page.goto(page.url.split("#")[0] + path)
        expect(page.locator("h1")).to_be_visible()
        expect(page.locator("main [aria-busy]")).to_have_count(0)
        if path == "#/letters":
            page.locator(".letter .open").first.click()
            expect(page.locator(".letter pre.error")).to_be_visible()
        assert fits(page), path
        small = page.evaluate(
            "[...document.querySelectorAll('nav a, .tools button, main .primary')]"
            ".filter(e => e.checkVisibility() && e.getBoundingClientRect().height < 36).length"
        )
        assert small == 0, path
    # The views are below, where a thumb is.
    below = page.locator("nav").bounding_box()
    assert below is not None
    assert below["y"] > 650


# Returns texts whose contrast to their background, by WCAG, is below 4.5.
CONTRAST = (Path(__file__).parent / "contrast.js").read_text(encoding="utf-8")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_view_is_legible_and_named_in_light_and_dark(
    night: Conn, serve: Serve, open_page: Open, scheme: Any
) -> None:
    page = open_page(serve(writes=True), color_scheme=scheme, reduced_motion="reduce")
    ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (sum(map(int, re.findall(r"\d+", ground))) < 200) == (scheme == "dark")
    for path in VIEWS:
        page.goto(page.url.split("#")[0] + path)
        expect(page.locator("main [aria-busy]")).to_have_count(0)
        if path == "#/letters":
            page.locator(".letter .open").first.click()
            expect(page.locator(".letter pre.error")).to_be_visible()
        assert page.evaluate(CONTRAST) == [], path
        assert page.evaluate(UNNAMED) == [], path
        assert page.locator("h1").count() == 1
    page.get_by_label("Light or dark").click()
    other = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert other != ground
    page.reload()
    expect(page.locator("h1")).to_be_visible()
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == other


UNNAMED = """
[...document.querySelectorAll("button, a, input, select, textarea")]
    .filter((e) => e.checkVisibility())
    .filter((e) => !(e.getAttribute("aria-label") || e.textContent.trim() || e.labels?.length))
    .map((e) => e.outerHTML.slice(0, 100))
"""


def wait_for_watchers(served: Dashboard, wanted: int) -> bool:
    for _ in range(200):
        if served.app.feed.watchers == wanted:
            return True
        time.sleep(0.1)
    return False


def test_a_hidden_page_sends_no_requests(night: Conn, serve: Serve, open_page: Open) -> None:
    served = serve()
    page = open_page(served)
    page.clock.install()
    hidden = "Object.defineProperty(document, 'hidden', {{value: {}, configurable: true}});"
    changed = "document.dispatchEvent(new Event('visibilitychange'))"
    page.evaluate(hidden.format("true") + changed)
    page.clock.fast_forward(11_000)
    assert wait_for_watchers(served, 0)
    page.evaluate(hidden.format("false") + changed)
    night.execute("select pgq.create_queue('meanwhile')")
    expect(row(page, "meanwhile")).to_be_visible()
    assert wait_for_watchers(served, 1)
