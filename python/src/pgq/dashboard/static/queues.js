// All queues: findings first, then counts, rates and the age of the oldest message.

import { foreign, h, keep, put, toggle } from "./dom.js";
import { count, rate, span } from "./format.js";
import { now } from "./live.js";
import { chip, empty, heading } from "./parts.js";
import { spark } from "./spark.js";
import { canAct, verbButton } from "./verbs.js";

const ORDERS = {
    worst: (a, b, level) => level(b) - level(a) || a.queue.localeCompare(b.queue),
    name: (a, b) => a.queue.localeCompare(b.queue),
    ready: (a, b) => b.ready - a.ready || a.queue.localeCompare(b.queue),
    oldest: (a, b) => (b.oldest ?? -1) - (a.oldest ?? -1) || a.queue.localeCompare(b.queue),
    dead: (a, b) => b.dead - a.dead || a.queue.localeCompare(b.queue),
};
const MOST_FINDINGS = 12;
let wanted = "";
let order = "worst";

// Findings that an action of the page can cure.
const CURES = { paused: ["Resume", "resume"] };

function finding(first) {
    const where = h("a", {});
    const text = h("span", {});
    const [words, verb] = CURES[first.kind] ?? [];
    const cure = verb ? verbButton(words, verb, { queue: first.queue }) : null;
    const element = h(
        "li",
        {},
        h("span", { class: "sign", "aria-hidden": "true" }),
        where,
        " ",
        text,
        " ",
        cure,
    );
    return {
        element,
        update(item) {
            if (cure) cure.hidden = !canAct();
            element.className = item.level;
            element.title = item.cure ?? "";
            const targets = {
                dead_letters: `#/letters?queue=${encodeURIComponent(item.queue)}`,
                dead_letters_rising: `#/letters?queue=${encodeURIComponent(item.queue)}`,
                lease_expired: "#/consumers",
                lease_endless: "#/consumers",
                lease_long: "#/consumers",
                schedule_fails: "#/schedules",
                schedule_missed: "#/schedules",
            };
            const name = item.queue ?? "database";
            const home = item.queue ? `#/queue/${encodeURIComponent(item.queue)}` : "#/";
            where.setAttribute("href", targets[item.kind] ?? home);
            if (where.textContent !== name) where.replaceChildren(foreign(name));
            put(text, foreign(item.text).textContent);
        },
    };
}

function figure(name) {
    const value = h("dd", {}, "–");
    return { element: h("div", {}, h("dt", {}, name), value), value };
}

const number = (label, ...content) =>
    h("td", { class: "number", "data-label": label, role: "cell" }, content);

function line(row, past) {
    const name = row.queue;
    const signs = h("span", { class: "signs" });
    const ready = h("b", {});
    const oldest = h("b", {});
    const flow = h("b", {});
    const failed = h("span", {});
    const list = (state) =>
        h("a", { href: `#/messages?queue=${encodeURIComponent(name)}&state=${state}` });
    const leased = list("leased");
    const later = list("scheduled");
    const dead = h("a", { href: `#/letters?queue=${encodeURIComponent(name)}` });
    const readyLine = spark({ label: "ready" });
    const ageLine = spark({ label: "age of the oldest", lines: ["c"] });
    const flowLine = spark({ label: "published each second", lines: ["a", "b"], area: false });
    const element = h(
        "tr",
        { role: "row" },
        h(
            "th",
            { scope: "row", role: "rowheader" },
            h("span", { class: "sign", "aria-hidden": "true" }),
            h("a", { href: `#/queue/${encodeURIComponent(name)}` }, foreign(name)),
            signs,
        ),
        number("Ready", ready, readyLine.element),
        number("Oldest", oldest, ageLine.element),
        number("In / done per s", flow, flowLine.element),
        number("Failed per s", failed),
        number("In flight", leased),
        number("Scheduled", later),
        number("Dead", dead),
    );
    let kind = null;
    return {
        element,
        update(item) {
            const points = past().get(item.queue) ?? [];
            const end = now();
            element.className = item.mark ?? "";
            const state = [item.paused && "paused", item.mode === "archive" && "archive"]
                .filter(Boolean)
                .join();
            if (state !== kind) {
                kind = state;
                signs.replaceChildren(
                    ...state
                        .split(",")
                        .filter(Boolean)
                        .map((word) => chip(word, word === "paused" ? "warn" : "")),
                );
            }
            put(ready, count(item.ready, item.exact));
            put(oldest, span(item.oldest));
            put(flow, `${rate(item.published)} / ${rate(item.acked)}`);
            put(failed, rate(item.failed));
            put(leased, count(item.leased, item.exact));
            put(
                later,
                count(item.scheduled, item.exact) +
                    (item.waiting ? ` + ${count(item.waiting, item.exact)}` : ""),
            );
            put(dead, count(item.dead, item.exact));
            for (const [cell, value] of [
                [ready, item.ready],
                [leased, item.leased],
                [later, item.scheduled + item.waiting],
                [dead, item.dead],
                [failed, item.failed],
                [oldest, item.oldest],
                [flow, item.published + item.acked],
            ]) {
                toggle(cell, "none", !value);
            }
            toggle(dead, "bad", item.dead);
            toggle(failed, "bad", item.failed);
            readyLine.update([points.map(([at, value]) => [at, value])], end, (value) =>
                count(value),
            );
            ageLine.update([points.map(([at, , value]) => [at, value])], end, span);
            flowLine.update(
                [points.map((p) => [p[0], p[3]]), points.map((p) => [p[0], p[4]])],
                end,
                rate,
            );
        },
    };
}

export function view() {
    const found = h("ul", { class: "findings", "aria-label": "What needs attention" });
    const others = h("p", { class: "lead", hidden: true });
    const calm = h(
        "p",
        { class: "calm", hidden: true },
        h("span", { class: "sign", "aria-hidden": "true" }),
        "Nothing needs attention.",
    );
    const figures = {
        ready: figure("Ready"),
        leased: figure("In flight"),
        dead: figure("Dead letters"),
        published: figure("In per s"),
        acked: figure("Done per s"),
    };
    const body = h("tbody", { role: "rowgroup" });
    const none = empty("No queues yet. Create one: pgq create orders");
    const more = h("p", { class: "faint", hidden: true }, "There are more queues than are shown.");
    const search = h("input", {
        type: "search",
        placeholder: "Find a queue",
        "aria-label": "Find a queue",
        id: "search",
        value: wanted,
    });
    const sort = h(
        "select",
        { "aria-label": "Order" },
        [
            ["worst", "Worst first"],
            ["name", "By name"],
            ["ready", "Most ready"],
            ["oldest", "Oldest"],
            ["dead", "Most dead letters"],
        ].map(([value, text]) => h("option", { value, selected: value === order }, text)),
    );
    let latest = null;
    const columns = [
        "Queue",
        "Ready",
        "Oldest",
        "In / done per s",
        "Failed per s",
        "In flight",
        "Scheduled",
        "Dead",
    ];
    const titles = {
        Scheduled: "Delayed or waiting for a retry, + waiting for their turn in an ordering group",
        Oldest: "How long the oldest ready message waits",
    };
    const table = h(
        "table",
        { class: "queues", role: "table", "aria-label": "Queues" },
        h(
            "thead",
            { role: "rowgroup" },
            h(
                "tr",
                { role: "row" },
                columns.map((name) =>
                    h("th", { scope: "col", role: "columnheader", title: titles[name] }, name),
                ),
            ),
        ),
        body,
    );

    function update(state) {
        if (!state.news) return;
        latest = state;
        const { queues, findings } = state.news;
        const marks = new Map(); // the worst is first
        for (const { queue, level, kind } of findings)
            marks.set(queue, [...(marks.get(queue) ?? [level]), kind]);
        const level = (row) => ({ bad: 2, warn: 1 })[marks.get(row.queue)?.[0]] ?? 0;
        keep(
            found,
            findings.slice(0, MOST_FINDINGS),
            (item) => JSON.stringify([item.kind, item.queue, item.cure]),
            finding,
        );
        others.hidden = findings.length <= MOST_FINDINGS;
        put(others, `And ${findings.length - MOST_FINDINGS} more: see the signs below.`);
        found.hidden = !findings.length;
        calm.hidden = findings.length > 0 || !queues.length || Boolean(state.news.outage);
        for (const [name, { value }] of Object.entries(figures)) {
            const sum = queues.reduce((total, row) => total + row[name], 0);
            const exact =
                queues.every((row) => row.exact) || !["ready", "leased", "dead"].includes(name);
            const known = queues.every((row) => row[name] !== null);
            if (name === "published" || name === "acked")
                put(value, known ? rate(sum) : queues.some((row) => row[name] !== null) ? `≥ ${rate(sum)}` : "–");
            else put(value, count(sum, exact));
        }
        toggle(
            figures.dead.value,
            "bad",
            queues.some((row) => row.dead),
        );
        const shown = queues.filter((row) =>
            row.queue.toLowerCase().includes(wanted.toLowerCase()),
        );
        shown.sort((a, b) => ORDERS[order](a, b, level));
        keep(
            body,
            shown.map((row) => ({ ...row, mark: marks.get(row.queue)?.join(" ") })),
            (row) => row.queue,
            (row) => line(row, () => latest.past),
        );
        table.hidden = !shown.length;
        none.hidden = shown.length > 0;
        put(
            none,
            queues.length
                ? "No queue has that in its name."
                : "No queues yet. Create one: pgq create orders",
        );
        more.hidden = !state.news.more_queues;
    }
    search.addEventListener("input", () => {
        wanted = search.value;
        update(latest ?? {});
    });
    sort.addEventListener("change", () => {
        order = sort.value;
        update(latest ?? {});
    });
    return {
        title: "Queues",
        element: h(
            "div",
            {},
            heading("Queues"),
            found,
            others,
            calm,
            h(
                "dl",
                { class: "figures" },
                Object.values(figures).map(({ element }) => element),
            ),
            h("div", { class: "toolbar" }, search, sort),
            table,
            none,
            more,
        ),
        update,
    };
}
