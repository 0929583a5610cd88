// Who holds what, and whose lease runs out next.

import { get } from "./api.js";
import { foreign, h, keep, put, toggle } from "./dom.js";
import { problem } from "./dialog.js";
import { count, plural, span } from "./format.js";
import { now } from "./live.js";
import { chip, empty, heading, queueLink } from "./parts.js";

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

function leaseList(leases) {
    if (!leases.length) return empty("They have been given back.");
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
                    ["Lease", "Messages", "Attempt", "Held for", "Until", "Name"].map((name) =>
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
    open.addEventListener("click", async () => {
        const on = open.getAttribute("aria-expanded") !== "true";
        open.setAttribute("aria-expanded", String(on));
        detail.hidden = !on;
        if (!on) return;
        try {
            const found = await get("api/leases", {
                queue: first.queue,
                holder: first.holder,
                client: first.client,
            });
            detail.replaceChildren(leaseList(found.leases));
        } catch (error) {
            detail.replaceChildren(problem(error));
        }
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

export function view() {
    const list = h("ul", { class: "holders plain" });
    const none = empty("Nothing is in flight: nobody holds a lease.");
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
        title: "In flight",
        element: h(
            "div",
            {},
            heading("In flight", total),
            h(
                "p",
                { class: "lead" },
                "Who holds which messages, and how long still. Those whose lease runs out first are at the top.",
            ),
            refused,
            list,
            none,
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
                              said: {
                                  message: news.holders_refused,
                                  hint: "Who holds what is for the owner of pgq to see.",
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
