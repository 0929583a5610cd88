// Consumers: leases by holder, the next to expire first; listeners; limits.

import { get } from "./api.js";
import { foreign, h, keep, put, toggle } from "./dom.js";
import { problem } from "./dialog.js";
import { count, plural, span } from "./format.js";
import { now } from "./live.js";
import { chip, empty, heading, queueLink, when } from "./parts.js";
import { verbButton } from "./verbs.js";

const SOON = 10;

function rest(element, bar, item) {
    const time = now();
    const left = item.until === null ? null : item.until - time;
    const text =
        left === null
            ? "without end"
            : left > 0
              ? `${span(left)} left`
              : `ran out ${span(-left)} ago`;
    put(element, text);
    toggle(element, "bad", left !== null && left <= 0);
    toggle(element, "warn", left !== null && left > 0 && left < SOON);
    bar.parentElement.hidden = left === null;
    const part =
        left === null ? 1 : Math.min(Math.max(left / Math.max(item.until - item.claimed, 1), 0), 1);
    bar.style.inlineSize = `${(100 * part).toFixed(1)}%`;
    bar.className = left !== null && left < SOON ? (left <= 0 ? "bad" : "warn") : "";
}

function leaseList(leases, again) {
    if (!leases.length) return empty("Its messages were released.");
    return h(
        "div",
        { class: "scroll" },
        h(
            "table",
            { class: "small" },
            h(
                "thead",
                {},
                h(
                    "tr",
                    {},
                    ["Lease", "Messages", "Attempt", "Held for", "Until", "Name", ""].map((name) =>
                        h("th", { scope: "col" }, name),
                    ),
                ),
            ),
            h(
                "tbody",
                {},
                leases.map((row) =>
                    h(
                        "tr",
                        {},
                        h("td", { class: "mono" }, row.lease_id),
                        h("td", { class: "number" }, count(row.size)),
                        h("td", { class: "number" }, row.attempt),
                        h("td", { class: "number" }, span(now() - row.claimed)),
                        h(
                            "td",
                            { class: "number" },
                            row.until === null ? "without end" : span(row.until - now()),
                        ),
                        h("td", {}, row.key ? foreign(row.key) : "–"),
                        h(
                            "td",
                            { class: "number" },
                            verbButton("Release", "release", { lease: row.lease_id }, { after: again }),
                        ),
                    ),
                ),
            ),
        ),
    );
}

function holder(first) {
    const size = h("b", {});
    const leases = h("span", {});
    const held = h("span", {});
    const until = h("span", {});
    const bar = h("i", {});
    const attempt = h("span", {});
    const detail = h("div", { class: "detail", hidden: true });
    const open = h(
        "button",
        { type: "button", class: "quiet", "aria-expanded": "false" },
        "Leases",
    );
    async function load() {
        try {
            const found = await get("api/leases", {
                queue: first.queue,
                holder: first.holder,
                client: first.client,
            });
            detail.replaceChildren(leaseList(found.leases, load));
        } catch (error) {
            detail.replaceChildren(problem(error));
        }
    }
    open.addEventListener("click", () => {
        const on = open.getAttribute("aria-expanded") !== "true";
        open.setAttribute("aria-expanded", String(on));
        detail.hidden = !on;
        if (on) load();
    });
    const element = h(
        "li",
        { class: "holder card" },
        h(
            "div",
            { class: "who" },
            h("h2", {}, first.holder ? foreign(first.holder) : "unnamed consumer"),
            h("span", { class: "faint" }, first.client ?? "local"),
            h("span", {}, queueLink(first.queue)),
        ),
        h(
            "div",
            { class: "what" },
            h("div", {}, size, " ", leases),
            h("div", { class: "faint" }, attempt),
        ),
        h(
            "div",
            { class: "rest" },
            h("div", { class: "line" }, until, h("span", { class: "faint" }, held)),
            h("div", { class: "bar-line", "aria-hidden": "true" }, bar),
        ),
        open,
        detail,
    );
    return {
        element,
        update(item) {
            put(size, plural(item.size, "message"));
            put(leases, `in ${plural(item.leases, "lease")}`);
            put(held, `held for ${span(now() - item.claimed)}`);
            put(attempt, item.attempt > 1 ? `attempt ${item.attempt}` : "first attempt");
            toggle(attempt, "warn", item.attempt > 1);
            rest(until, bar, item);
            toggle(element, "bad", item.expired > 0);
        },
    };
}

const dash = (value) => (value === null || value === undefined ? "–" : String(value));
const withBurst = (rate, burst) => (rate === null ? "–" : `${rate}, burst ${burst}`);

// The columns of each table: a title, and a function of the row.
const LIMITS = [
    ["In flight", (row) => (row.max_leased === null ? "–" : `${row.leased} of ${row.max_leased}`)],
    ["Rate", (row) => withBurst(row.rate, row.burst)],
    ["Tokens now", (row) => dash(row.tokens)],
    ["Lane: in flight", (row) => dash(row.lane_max_leased)],
    ["Lane: rate", (row) => withBurst(row.lane_rate, row.lane_burst)],
    ["Fair", (row) => (row.fair ? "yes" : "no")],
];
const SUBSCRIBERS = [
    ["Pattern", (row) => foreign(row.pattern, { class: "mono" })],
    ["Filter", (row) => (row.filter ? foreign(row.filter, { class: "mono" }) : "–")],
    ["Matches", (row) => count(row.matches)],
    ["Last match", (row) => (row.last === null ? "never" : when(row.last))],
];
const RELAYS = [
    ["Relay", (row) => foreign(row.relay)],
    ["To", (row) => foreign(row.destination)],
    ["State", (row) => chip(row.alive ? "alive" : "not heard of", row.alive ? "good" : "bad")],
    ["Circuit", (row) => foreign(row.circuit ?? "–")],
    ["Error", (row) => (row.error ? foreign(row.error) : "–")],
];
const LISTENERS = [["Sleeping consumers", (row) => count(row.size)]];

/** A table under a title; nothing if there are no rows. */
function table(title, name, rows, columns) {
    if (!rows?.length) return [];
    const head = ["Queue", ...columns.map(([text]) => text)];
    return [
        h("h2", {}, title),
        h(
            "div",
            { class: "scroll" },
            h(
                "table",
                { class: `small ${name}` },
                h("thead", {}, h("tr", {}, head.map((text) => h("th", { scope: "col" }, text)))),
                h(
                    "tbody",
                    {},
                    rows.map((row) =>
                        h(
                            "tr",
                            {},
                            h("td", {}, queueLink(row.queue)),
                            columns.map(([, show]) => h("td", {}, show(row))),
                        ),
                    ),
                ),
            ),
        ),
    ];
}

/** Query rarely changing data at a longer interval. */
function others() {
    const element = h("div", {});
    async function load() {
        try {
            const found = await get("api/consumers");
            element.replaceChildren(
                ...table("Waiting for messages", "listeners", found.listeners, LISTENERS),
                ...table("Limits", "limits", found.limits, LIMITS),
                ...table("Subscriptions", "subscribers", found.subscribers, SUBSCRIBERS),
                ...table("Relays", "relays", found.relays, RELAYS),
            );
        } catch (error) {
            element.replaceChildren(problem(error));
        }
    }
    load();
    const again = setInterval(load, 10_000);
    return { element, close: () => clearInterval(again) };
}

export function view() {
    const more = others();
    const list = h("ul", { class: "holders plain" });
    const none = empty("No messages are leased.");
    const refused = h("div", {});
    const total = chip("");
    let holders = [];
    function show() {
        keep(
            list,
            holders,
            (item) => JSON.stringify([item.holder, item.client, item.queue]),
            holder,
        );
    }
    return {
        title: "Consumers",
        close: more.close,
        element: h(
            "div",
            {},
            heading("Consumers", total),
            h(
                "p",
                { class: "lead" },
                "Leases, sleeping consumers, limits, subscriptions and relays.",
            ),
            refused,
            list,
            none,
            more.element,
        ),
        update({ news }) {
            if (!news) return;
            holders = news.holders;
            const expired = holders.reduce((sum, item) => sum + item.expired, 0);
            put(
                total,
                `${plural(
                    holders.reduce((sum, item) => sum + item.size, 0),
                    "message",
                )}${expired ? `, ${plural(expired, "lease")} run out` : ""}`,
            );
            none.hidden = holders.length > 0 || Boolean(news.holders_refused);
            refused.replaceChildren(
                ...(news.holders_refused
                    ? [
                          problem({
                              answer: {
                                  message: news.holders_refused,
                                  hint: "Only the owner of pgq can see leases.",
                              },
                          }),
                      ]
                    : []),
            );
            show();
        },
        tick: show,
    };
}
