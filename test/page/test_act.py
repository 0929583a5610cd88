"""What an operator does on the page: each action counts first, asks, and then acts."""

from __future__ import annotations

import re
from typing import Any

import psycopg
from playwright.sync_api import Locator, Page, expect

from harness.page import TOKEN, Open, Serve

Conn = psycopg.Connection[Any]


def go(page: Page, path: str) -> None:
    page.goto(page.url.split("#")[0] + path)
    expect(page.locator("main [aria-busy]")).to_have_count(0)


def act(page: Page, button: Locator, title: str | re.Pattern[str], yes: str, done: str) -> None:
    """Press a button, answer its question, and check the message."""
    button.click()
    question = page.get_by_role("dialog")
    expect(question.locator("h2")).to_have_text(title)
    question.get_by_role("button", name=yes, exact=True).click()
    expect(page.locator(".toast").filter(has_text=done)).to_have_count(1)


def stats(db: Conn, queue: str) -> dict[str, int]:
    row = db.execute(
        "select ready, scheduled, leased, dead from pgq.queue_stats where queue = %s", [queue]
    ).fetchone()
    assert row is not None
    return dict(zip(("ready", "scheduled", "leased", "dead"), row, strict=True))


def test_a_queue_is_resumed_paused_moved_and_purged(
    night: Conn, serve: Serve, open_page: Open
) -> None:
    served = serve(writes=True)
    page = open_page(served, f"#token={TOKEN}")
    # Findings have a button for their cure.
    cure = page.locator(".findings li").filter(has_text="invoices").get_by_role("button")
    act(page, cure, "Resume the queue?", "Resume", "invoices: resumed")
    expect(page.locator(".findings li").filter(has_text="is paused")).to_have_count(0)

    go(page, "#/queue/warehouse.eu")
    button = page.get_by_role("button", name="Pause")
    act(page, button, "Pause the queue?", "Pause", "warehouse.eu: paused")
    expect(page.get_by_role("button", name="Resume")).to_be_visible()

    # 15 of 25 wait: the others are leased, and stay.
    page.get_by_role("button", name="Move messages").click()
    page.get_by_label("To the queue").select_option("invoices")
    page.get_by_label("At most").fill("3")
    page.get_by_role("button", name="Continue").click()
    question = page.get_by_role("dialog")
    expect(question).to_contain_text("Move 3 messages to invoices?")
    question.get_by_role("button", name="Cancel").click()
    page.get_by_role("button", name="Move messages").click()
    page.get_by_label("To the queue").select_option("invoices")
    page.get_by_role("button", name="Continue").click()
    expect(question).to_contain_text("Move 15 messages to invoices?")
    expect(question).to_contain_text("all that wait: ready, scheduled and in groups")
    expect(question).to_contain_text("move leaves 10 leased messages as they are")
    question.get_by_role("button", name="Move").click()
    expect(page.locator(".toast").last).to_have_text("warehouse.eu: 15 messages moved")
    assert stats(night, "warehouse.eu") == {"ready": 0, "scheduled": 0, "leased": 10, "dead": 0}
    page.get_by_role("button", name="Purge").click()
    expect(page.locator(".toast.bad")).to_contain_text("No message to change.")

    go(page, "#/queue/invoices")
    page.get_by_role("button", name="Purge").click()
    expect(question).to_contain_text("Purge 75 messages?")
    yes = question.get_by_role("button", name="Purge")
    expect(yes).to_be_disabled()
    question.get_by_role("textbox").fill("invoices")
    # The server is restarted between the question and the answer.
    served.close()
    serve(port=served.port, writes=True)
    yes.click()
    expect(page.locator(".toast").filter(has_text="invoices: 75 messages purged")).to_be_visible()
    assert stats(night, "invoices")["ready"] == 0


def test_messages_are_listed_by_state_found_and_changed(
    db: Conn, serve: Serve, open_page: Open
) -> None:
    db.execute("select pgq.create_queue('orders')")
    db.execute("select pgq.create_queue('later')")
    for number in range(1, 8):
        db.execute(
            "select pgq.publish('orders', jsonb_build_object('n', %s::int, 'city', 'Oslo'),"
            " jsonb_build_object('type', %s::text), correlation_id => %s, group_key => %s,"
            " delay => %s, sender => %s, recipient => %s)",
            [
                number,
                "paid" if number % 2 else "refund",
                f"c-{number}",
                "g" if number in (3, 4) else None,
                "1 h" if number > 5 else "0",
                f"shop-{number}",
                f"desk-{number}" if number > 5 else None,
            ],
        )
    (lease,) = db.execute("select lease_id from pgq.claim('orders')").fetchone() or (0,)
    (dead,) = db.execute("select lease_id from pgq.claim('orders')").fetchone() or (0,)
    db.execute("select pgq.bury(%s, error => 'no')", [dead])
    page = open_page(serve(writes=True), f"#token={TOKEN}")
    items = page.locator(".messages li")
    for state, ids in [
        ("ready", ["3", "5"]),
        ("scheduled", ["6", "7"]),
        ("leased", ["1"]),
        ("waiting", ["4"]),
        ("dead", ["2"]),
    ]:
        go(page, f"#/messages?queue=orders&state={state}")
        expect(items.locator("a.mono")).to_have_text(ids)
    expect(page.get_by_role("link", name="Scheduled 2")).to_be_visible()

    # Found by search.
    go(page, "#/messages?queue=orders&state=scheduled")
    for by, find, ids in [
        ("Id", "6, 99", ["6"]),
        ("Correlation id", "c-7", ["7"]),
        ("Recipient", "desk-6", ["6"]),
        ("Sender", "shop-7", ["7"]),
        ("Header", "type=paid", ["7"]),
        ("Payload", "n=6", ["6"]),
        ("Filter", '{"payload.n": {"$gt": 6}}', ["7"]),
        ("Text", "oslo", ["6", "7"]),
        ("Text", '"N": 7', ["7"]),
        ("Group", "g", []),
    ]:
        page.get_by_label("Find by").select_option(by)
        page.get_by_label("Find", exact=True).fill(find)
        page.keyboard.press("Enter")
        expect(items.locator("a.mono")).to_have_text(ids)
    page.get_by_label("Find by").select_option("Filter")
    page.get_by_label("Find", exact=True).fill('{"a": {"$no": 1}}')
    page.keyboard.press("Enter")
    expect(page.get_by_role("alert")).to_contain_text("unknown operator $no")

    # First one is selected, then all that match: rescheduled, cancelled, released.
    go(page, "#/messages?queue=orders&state=scheduled")
    page.get_by_label("Select message 7").check()
    page.get_by_role("button", name="Reschedule").click()
    page.get_by_label("Deliver after").fill("soon")
    page.get_by_role("button", name="Continue").click()
    wrong = page.get_by_role("dialog")
    expect(wrong).to_contain_text('invalid input syntax for type interval: "soon"')
    wrong.get_by_role("button", name="Close").click()
    page.get_by_role("button", name="Reschedule").click()
    page.get_by_label("Deliver after").fill("0")
    page.keyboard.press("Enter")
    title = page.get_by_role("dialog").locator("h2")
    expect(title).to_have_text("Deliver 1 message now?")
    page.get_by_role("dialog").get_by_role("button", name="Reschedule").click()
    expect(items.locator("a.mono")).to_have_text(["6"])
    # A time is one of the browser's time zone.
    page.get_by_label("Select message 6").check()
    page.get_by_role("button", name="Reschedule").click()
    page.get_by_label("Or at").fill("2100-01-31T06:00")
    page.keyboard.press("Enter")
    expect(title).to_have_text(re.compile("Deliver 1 message at .*6:00"))
    page.get_by_role("dialog").get_by_role("button", name="Reschedule").click()
    expect(items.get_by_text(re.compile(r"due in \d{5}"))).to_be_visible()  # days
    local = page.evaluate("new Date('2100-01-31T06:00').toISOString()")
    due = "select lease_until = %s from pgq.messages('orders', 'scheduled')"
    assert db.execute(due, [local]).fetchall() == [(True,)]
    go(page, "#/messages?queue=orders&state=ready&by=header&find=type%3Dpaid")
    expect(items.locator("a.mono")).to_have_text(["7", "3", "5"])
    expect(page.locator(".chosen")).to_have_text("all that wait and match")
    button = page.get_by_role("button", name="Cancel messages")
    act(page, button, "Cancel 3 messages?", "Cancel them", "orders: 3 messages cancelled")
    go(page, "#/messages?queue=orders&state=leased")
    button = items.get_by_role("button", name="Release")
    act(page, button, f"Release lease {lease}?", "Release", "1 message released")
    go(page, "#/messages?queue=orders&state=dead")
    act(
        page,
        page.get_by_role("button", name="Discard"),
        "Discard 1 dead letter?",
        "Discard",
        "orders: 1 dead letter discarded",
    )
    # 4 came after 3 in its group: now it is the head.
    assert stats(db, "orders") == {"ready": 2, "scheduled": 1, "leased": 0, "dead": 0}


def test_dead_letters_are_replayed_and_discarded_by_cause(
    db: Conn, serve: Serve, open_page: Open
) -> None:
    db.execute("select pgq.create_queue('mails', max_attempts => 1)")
    db.execute("select pgq.create_queue('letters')")
    errors = [f"mailbox does not exist: user{n}_100%" for n in range(9)]
    errors += ["Traceback:\n  line 1\nKeyError: 'x'", "connection reset"]
    for error in errors:
        db.execute("select pgq.publish('mails', '1')")
        (lease,) = db.execute("select lease_id from pgq.claim('mails')").fetchone() or (0,)
        db.execute(
            "select pgq.nack(%s, error => %s, details => %s)",
            [lease, error, '{"traceback": "File \\"x.py\\"\\n  line 3"}'],
        )
    page = open_page(serve(writes=True), f"#token={TOKEN}")
    go(page, "#/letters?queue=mails")
    causes = page.locator(".causes li")
    expect(causes).to_have_count(3)
    expect(causes.first).to_contain_text("mailbox does not exist: user<n>_<n>%")
    causes.first.get_by_role("link").click()
    expect(page.locator(".letter")).to_have_count(9)
    # A traceback is shown as it was printed.
    page.locator(".letter .open").first.click()
    expect(page.get_by_label("traceback")).to_have_text('File "x.py"\n  line 3')

    # With options: to another queue, some per second, with another payload.
    replay_with = page.get_by_role("button", name="Replay with options")
    dialog = page.get_by_role("dialog")
    page.get_by_label(re.compile("^Select message")).first.check()
    replay_with.click()
    dialog.get_by_label("Change payloads").fill("{a: 1}")
    dialog.get_by_role("button", name="Continue").click()
    expect(dialog).to_contain_text('patch must be JSON: {"currency": "EUR"}')
    dialog.get_by_role("button", name="Close").click()
    replay_with.click()
    dialog.get_by_label("To the queue").select_option("letters")
    dialog.get_by_label("Per second").fill("5")
    dialog.get_by_label("Change payloads").fill('{"a": 1}')
    page.keyboard.press("Enter")
    expect(dialog.locator("h2")).to_have_text("Replay 1 dead letter to letters?")
    expect(dialog).to_contain_text("They go to letters, 5 per second, and their attempts")
    expect(dialog).to_contain_text('whose payload is changed by {"a": 1}.')
    dialog.get_by_role("button", name="Replay", exact=True).click()
    expect(page.locator(".toast").last).to_have_text("mails: 1 dead letter replayed")
    changed = db.execute("select payload from pgq.messages('letters')").fetchall()
    assert changed == [({"a": 1},)]

    button = page.get_by_role("button", name="Replay all")
    act(page, button, "Replay 8 dead letters?", "Replay", "mails: 8 dead letters replayed")
    assert stats(db, "mails") == {"ready": 8, "scheduled": 0, "leased": 0, "dead": 2}
    go(page, "#/letters?queue=mails")
    causes.filter(has_text="KeyError").get_by_role("link").click()
    expect(page.locator(".letter")).to_have_count(1)
    button = page.get_by_role("button", name="Discard all")
    act(page, button, "Discard 1 dead letter?", "Discard", "mails: 1 dead letter discarded")
    go(page, "#/letters?queue=mails")
    expect(page.locator(".letter .why")).to_have_text(["connection reset"])


def test_schedules_are_paused_resumed_and_ended(night: Conn, serve: Serve, open_page: Open) -> None:
    page = open_page(serve(writes=True), f"#token={TOKEN}")
    go(page, "#/schedules")
    nightly = page.locator(".schedule").filter(has_text="nightly")
    expect(nightly).to_contain_text("0 3 * * *")
    title = re.compile("the schedule nightly")
    act(page, nightly.get_by_role("button", name="Pause"), title, "Pause", "schedule paused")
    expect(nightly.locator(".chip")).to_have_text("paused")
    act(page, nightly.get_by_role("button", name="Resume"), title, "Resume", "schedule resumed")
    act(page, nightly.get_by_role("button", name="End"), title, "End it", "schedule ended")
    expect(page.get_by_text("No schedules.")).to_be_visible()
    assert night.execute("select count(*) from pgq.schedules").fetchone() == (0,)


def test_a_schedule_is_made_on_the_page(db: Conn, serve: Serve, open_page: Open) -> None:
    db.execute("select pgq.create_queue('reports')")
    page = open_page(serve(writes=True), f"#token={TOKEN}")
    go(page, "#/schedules")

    def fill(**fields: str) -> None:
        page.get_by_role("button", name="New schedule").click()
        form = page.get_by_role("dialog")
        for name, value in fields.items():
            form.locator(f"[name={name}]").fill(value)
        form.get_by_role("button", name="Continue").click()

    fill(name="weekly", topic="reports", payload='{"of": "week"}', cron="0 6 * * 1")
    question = page.get_by_role("dialog")
    expect(question.locator("h2")).to_have_text("Publish to reports by the schedule weekly?")
    question.get_by_role("button", name="Schedule", exact=True).click()
    weekly = page.locator(".schedule").filter(has_text="weekly")
    expect(weekly).to_contain_text("0 6 * * 1")
    made = db.execute("select topic, payload, cron, every, time_zone, missed from pgq.schedules")
    assert made.fetchall() == [("reports", {"of": "week"}, "0 6 * * 1", None, "UTC", "one")]

    # An error of the server is shown in its words, and nothing is stored.
    fill(name="both", topic="reports", cron="0 6 * * 1", every="1 hour")
    page.get_by_role("dialog").get_by_role("button", name="Schedule", exact=True).click()
    expect(page.locator("dialog .problem")).to_contain_text("SQLSTATE 22023")
    assert db.execute("select count(*) from pgq.schedules").fetchone() == (1,)


def test_charts_show_the_past_that_the_database_has_kept(
    db: Conn, serve: Serve, open_page: Open
) -> None:
    db.execute("select pgq.create_queue('orders')")
    db.execute(
        "insert into pgq.traffic (queue_id, minute, event, size)"
        " select q.queue_id, date_trunc('minute', pgq.now()) - m * interval '1 min', e.event,"
        " case e.event when 'in' then 6 * m else 3 * m end"
        " from pgq.queue q, generate_series(0, 600) m, (values ('in'), ('ack'), ('ready')) e(event)"
    )
    served = serve()
    page = open_page(served, "#/queue/orders")
    plot = page.get_by_role("img", name=re.compile("^In and done per minute"))
    expect(plot.locator("path.line").first).to_have_attribute("d", re.compile(r"(L[^L]*){50}"))
    # The minute that has not ended is left out.
    last = plot.locator("path.line").first.get_attribute("d")
    assert last is not None
    assert max(float(x) for x in re.findall(r"[ML]([\d.]+) ", last)) <= 600
    # The pointer and keys show the values of a minute.
    plot.hover()
    tip = plot.locator(".tip")
    expect(tip).to_have_text(re.compile(r"^\d\d:\d\d\nin 1[78]\d\ndone (8|9)\d$"))
    page.mouse.move(0, 0)
    expect(tip).to_be_hidden()
    plot.focus()
    for _ in range(10):
        page.keyboard.press("ArrowLeft")
    expect(tip).to_contain_text(re.compile(r"in (54|60|66)\b"))
    page.get_by_role("button", name="12 h").click()
    expect(plot.locator(".top")).to_have_text("3,600")
    expect(plot.locator("xpath=..").locator(".axis span").first).to_have_text(
        re.compile(r"^\d\d:\d\d$")
    )
    # After a restart the page shows the same past, also in the sparklines of all queues.
    served.close()
    serve(port=served.port)
    expect(page.locator("#outage")).to_be_hidden()
    go(page, "#/")
    line = page.locator("table.queues td").first.locator("svg.spark")
    expect(line).to_have_attribute("aria-label", re.compile("last hour: from 1[5-9][0-9] to 0"))


def test_a_missing_right_is_reported_in_a_sentence(
    db: Conn, dsn: str, serve: Serve, open_page: Open
) -> None:
    db.execute("select pgq.create_queue('orders')")
    db.execute("select pgq.publish('orders', '1')")
    role = f"pgq_page_{db.info.backend_pid}"
    db.execute(f"create role {role}".encode())
    db.execute("select pgq.grant_queue('orders', %s, 'consume')", [role])
    served = serve(psycopg.conninfo.make_conninfo(dsn, options=f"-c role={role}"), writes=True)
    try:
        page = open_page(served, f"#token={TOKEN}")
        for path in ("#/messages?queue=orders", "#/consumers", "#/schedules"):
            go(page, path)
        expect(page.locator(".empty")).to_contain_text("may not see schedules")
        go(page, "#/queue/orders")
        page.get_by_role("button", name="Purge").click()
        dialog = page.get_by_role("dialog")
        expect(dialog).to_contain_text("permission denied for function purge")
        dialog.get_by_role("button", name="Close").click()
        assert stats(db, "orders")["ready"] == 1
    finally:
        served.close()
        db.execute(f"drop owned by {role}".encode())
        db.execute("call pgq.maintain()")
        db.execute(f"drop role {role}".encode())


def test_a_truncated_answer_is_reported(night: Conn, serve: Serve, open_page: Open) -> None:
    page = open_page(serve())
    answer = {"status": 200, "content_type": "application/json", "body": '{"sched'}
    page.route("**/api/letters**", lambda route: route.fulfill(**answer))
    go(page, "#/letters")
    expect(page.locator("main")).to_contain_text("The server of this page does not answer.")
