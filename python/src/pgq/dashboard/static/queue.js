// One queue: the last minutes in large, its policy, who it listens to, what comes next.

import { get } from "./api.js";
import { foreign, h, keep, put } from "./dom.js";
import { problem } from "./dialog.js";
import { count, rate, span } from "./format.js";
import { now } from "./live.js";
import { chip, empty, facts, heading, messageLink, short, when } from "./parts.js";
import { spark } from "./spark.js";

function chart(label, lines, names) {
    const value = h("b", {});
    const line = spark({ label, lines, height: 60, area: lines.length === 1 });
    const element = h(
        "figure",
        { class: "chart" },
        h("figcaption", {}, h("span", {}, label), value),
        line.element,
        names &&
            h(
                "p",
                { class: "legend" },
                names.map((name, index) => h("span", { class: lines[index] }, name)),
            ),
    );
    return { element, value, line };
}

function policy(row) {
    if (!row) return h("p", { class: "faint" }, "Its policy is for the owner of pgq to see.");
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

export function view({ name }) {
    const charts = {
        ready: chart("Ready", ["a"]),
        oldest: chart("Oldest waits for", ["c"]),
        flow: chart("Each second", ["a", "b"], ["published", "acknowledged"]),
        failed: chart("Failed each second", ["d"]),
    };
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

    function update({ news, past }) {
        const row = news?.queues.find(({ queue }) => queue === name);
        if (!row) return;
        const points = past.get(name) ?? [];
        const end = now();
        const series = (index) => points.map((point) => [point[0], point[index]]);
        put(charts.ready.value, count(row.ready, row.exact));
        charts.ready.line.update([series(1)], end, (value) => count(value));
        put(charts.oldest.value, span(row.oldest));
        charts.oldest.line.update([series(2)], end, span);
        put(charts.flow.value, `${rate(row.published)} / ${rate(row.acked)}`);
        charts.flow.line.update([series(3), series(4)], end, rate);
        put(charts.failed.value, rate(row.failed));
        charts.failed.line.update([series(5)], end, rate);
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
        element: h(
            "div",
            {},
            heading(foreign(name), state),
            findings,
            h(
                "div",
                { class: "charts" },
                Object.values(charts).map(({ element }) => element),
            ),
            h(
                "p",
                { class: "links" },
                h("a", { href: link("letters") }, "Dead letters"),
                h("a", { href: link("filter") }, "Try a filter"),
                h("a", { href: "#/flight" }, "In flight"),
            ),
            about,
            h("section", {}, h("h2", {}, "Next to be delivered"), coming),
        ),
        update,
    };
}
