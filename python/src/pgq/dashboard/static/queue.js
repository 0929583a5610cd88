// One queue: charts of the last hours, options, limits, subscriptions, next messages.

import { get } from "./api.js";
import { chart } from "./chart.js";
import { foreign, h, keep, put } from "./dom.js";
import { problem } from "./dialog.js";
import { count, rate, span } from "./format.js";
import { now } from "./live.js";
import { chip, empty, facts, heading, messageLink, short, when } from "./parts.js";
import { askMove, canAct, verbButton } from "./verbs.js";

function policy(row) {
    if (!row) return h("p", { class: "faint" }, "Only the owner of pgq can see the policy.");
    return facts([
        ["Lease", span(row.lease)],
        ["Attempts", String(row.max_attempts)],
        ["Retries after", `${span(row.backoff)}, at most ${span(row.max_backoff)}`],
        ["Kept for", span(row.retention)],
        ["Lane keys", row.lane_keys?.join(", ") ?? "none"],
        ["Expired messages", row.on_expiry === "discard" ? "are dropped" : "become dead letters"],
        [
            "A dead letter",
            row.on_dead === "block" ? "blocks its ordering group" : "releases its ordering group",
        ],
        ["Journal", row.journal === "all" ? "everything" : "failures only"],
    ]);
}

function limits(row) {
    if (!row) return [];
    return [
        h(
            "section",
            { class: "card" },
            h("h2", {}, "Limits"),
            facts([
                ["In flight", row.max_leased && `${row.leased} of ${row.max_leased}`],
                ["Rate", row.rate && `${row.rate}, burst ${row.burst}; ${row.tokens} now`],
                ["In flight per lane", row.lane_max_leased && String(row.lane_max_leased)],
                ["Rate per lane", row.lane_rate && `${row.lane_rate}, burst ${row.lane_burst}`],
                ["Fair", row.fair ? "lanes take turns" : "no"],
            ]),
        ),
    ];
}

export function view({ name }) {
    const one = (label, name, kind) => chart({ label, lines: [{ name, kind }], format: rate });
    const charts = {
        ready: one("Ready", "ready", "a"),
        flow: chart({
            label: "In and done per minute",
            lines: [
                { name: "in", kind: "a" },
                { name: "done", kind: "b" },
            ],
            format: rate,
        }),
        failed: one("Failed per minute", "failed", "d"),
        dead: one("Dead letters", "dead", "c"),
    };
    let hours = 1;
    let minutes = [];
    let shown = null;
    const ranges = h(
        "div",
        { class: "tabs", role: "group", "aria-label": "Time" },
        [1, 3, 12].map((each) =>
            h(
                "button",
                {
                    type: "button",
                    "aria-pressed": String(each === hours),
                    onclick: (event) => {
                        hours = each;
                        for (const other of event.target.parentElement.children)
                            other.setAttribute("aria-pressed", String(other === event.target));
                        load();
                    },
                },
                `${each} h`,
            ),
        ),
    );
    async function load() {
        try {
            ({ minutes } = await get("api/traffic", { queue: name, hours }));
        } catch (error) {
            minutes = []; // another part of the view shows the error
        }
        if (shown) update(shown);
    }
    load();
    const again = setInterval(load, 60_000);
    const oldest = h("span", { class: "faint" });
    const purge = verbButton("Purge", "purge", { queue: name, all: true }, { kind: "danger", word: name });
    const pause = verbButton("Pause", "pause", { queue: name });
    const resume = verbButton("Resume", "resume", { queue: name }, { kind: "primary" });
    const move = verbButton("Move messages", "move", async () => {
        const answers = await askMove(name);
        return answers && { queue: name, all: true, ...answers };
    });
    const state = h("span", { class: "signs" });
    const findings = h("ul", { class: "findings", "aria-label": "What needs attention" });
    const coming = h("div", { "aria-busy": "true" });
    const about = h("div", { class: "columns" });
    const link = (view) => `#/${view}?queue=${encodeURIComponent(name)}`;
    get("api/queue", { name }).then(
        (found) => {
            coming.removeAttribute("aria-busy");
            about.append(
                h("section", { class: "card" }, h("h2", {}, "Policy"), policy(found.policy)),
                ...limits(found.limits),
                h(
                    "section",
                    { class: "card" },
                    h("h2", {}, "Receives"),
                    h(
                        "ul",
                        { class: "plain" },
                        h(
                            "li",
                            {},
                            "topic ",
                            foreign(name, { class: "mono" }),
                            h("span", { class: "faint" }, " (its own)"),
                        ),
                        found.subscriptions.map((row) =>
                            h(
                                "li",
                                {},
                                "pattern ",
                                foreign(row.pattern, { class: "mono" }),
                                row.filter && [" if ", foreign(row.filter, { class: "mono" })],
                                h("span", { class: "faint" }, ` ${count(row.matches)} matches`),
                            ),
                        ),
                    ),
                ),
            );
            coming.append(
                found.next.length
                    ? h(
                          "ul",
                          { class: "messages" },
                          found.next.map((row) =>
                              h(
                                  "li",
                                  {},
                                  h(
                                      "div",
                                      { class: "line" },
                                      messageLink(row.id),
                                      row.priority ? chip(`priority ${row.priority}`) : null,
                                      h("span", { class: "faint" }, when(row.published)),
                                  ),
                                  h("div", {}, short(row, "headers")),
                                  h("div", {}, short(row, "payload")),
                              ),
                          ),
                      )
                    : empty("Nothing is ready."),
            );
        },
        (error) => coming.replaceChildren(problem(error)),
    );

    /** The recorded minutes, followed by the samples since then. */
    function series(field, index, factor) {
        const last = minutes.at(-1)?.at ?? 0;
        const live = (shown.past.get(name) ?? []).filter(([at]) => at > last + 60);
        const value = (number) => (number === null ? null : number * factor);
        return [
            ...minutes.map((row) => [row.at + 60, row[field]]),
            ...live.map((point) => [point[0], value(point[index])]),
        ];
    }

    function update(latest) {
        shown = latest;
        const { news } = latest;
        const row = news?.queues.find(({ queue }) => queue === name);
        if (!row) return;
        const end = now();
        const perMinute = (number) => (number === null ? "–" : rate(number * 60));
        charts.ready.update([series("ready", 1, 1)], end, hours, count(row.ready, row.exact));
        charts.flow.update(
            [series("received", 3, 60), series("acked", 4, 60)],
            end,
            hours,
            `${perMinute(row.published)} / ${perMinute(row.acked)}`,
        );
        charts.failed.update([series("failed", 5, 60)], end, hours, perMinute(row.failed));
        charts.dead.update([series("dead", 6, 1)], end, hours, count(row.dead));
        put(oldest, row.oldest === null ? "" : `the oldest waits for ${span(row.oldest)}`);
        for (const button of [purge, pause, resume, move]) button.hidden = !canAct();
        pause.hidden ||= row.paused;
        resume.hidden ||= !row.paused;
        const words = [row.paused && "paused", row.mode === "archive" && "archive"].filter(Boolean);
        if (state.textContent !== words.join(""))
            state.replaceChildren(...words.map((word) => chip(word, "warn")));
        const mine = news.findings.filter(({ queue }) => queue === name);
        keep(
            findings,
            mine,
            (item) => item.kind + item.text,
            (item) => ({
                element: h(
                    "li",
                    { class: item.level },
                    h("span", { class: "sign", "aria-hidden": "true" }),
                    foreign(item.text),
                ),
                update() {},
            }),
        );
        findings.hidden = !mine.length;
    }
    return {
        title: name,
        close: () => clearInterval(again),
        element: h(
            "div",
            {},
            heading(foreign(name), state, oldest),
            findings,
            h(
                "div",
                { class: "toolbar" },
                ranges,
                h("span", { class: "push" }),
                resume,
                pause,
                move,
                purge,
            ),
            h(
                "div",
                { class: "charts" },
                Object.values(charts).map(({ element }) => element),
            ),
            h(
                "p",
                { class: "links" },
                h("a", { href: link("messages") }, "Messages"),
                h("a", { href: link("letters") }, "Dead letters"),
                h("a", { href: link("filter") }, "Try a filter"),
                h("a", { href: "#/consumers" }, "Consumers"),
            ),
            about,
            h("section", {}, h("h2", {}, "Next to be delivered"), coming),
        ),
        update,
    };
}
