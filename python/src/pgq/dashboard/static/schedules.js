// Schedules: what is published when, and whether it went well.

import { Failure, get } from "./api.js";
import { problem } from "./dialog.js";
import { foreign, h } from "./dom.js";
import { span } from "./format.js";
import { now } from "./live.js";
import { chip, empty, exactly, facts, heading, messageLink, queueLink } from "./parts.js";
import { verbButton } from "./verbs.js";

function rhythm(row) {
    return row.cron ? [foreign(row.cron, { class: "mono" }), " ", foreign(row.time_zone)] : `every ${row.every}`;
}

function schedule(row, load) {
    const late = row.next === null ? null : now() - row.next;
    return h(
        "li",
        { class: "card schedule" },
        h(
            "div",
            { class: "line" },
            h("h2", {}, foreign(row.name)),
            row.paused ? chip("paused", "warn") : null,
            late > 60 ? chip(`late by ${span(late)}`, "bad") : null,
            h("span", { class: "push" }),
            row.paused
                ? verbButton("Resume", "resume_schedule", { name: row.name }, { after: load })
                : verbButton("Pause", "pause_schedule", { name: row.name }, { after: load }),
            verbButton("End", "unschedule", { name: row.name }, { after: load, kind: "danger" }),
        ),
        row.error && h("p", { class: "bad" }, foreign(row.error)),
        facts([
            ["When", h("span", {}, rhythm(row))],
            ["Publishes to", queueLink(row.topic)],
            ["Next", row.next === null ? "paused" : h("span", {}, exactly(row.next), late < 0 ? `, in ${span(-late)}` : "")],
            ["Last", row.last === null ? "never" : h("span", {}, exactly(row.last), " ", row.last_id && messageLink(row.last_id))],
            ["If missed", { skip: "left out", one: "one for all", all: "each of them" }[row.missed] ?? row.missed],
            ["Payload", h("span", { class: "mono" }, foreign(row.payload))],
            ["Role", row.role],
        ]),
    );
}

export function view() {
    const list = h("ul", { class: "plain holders" });
    const none = empty("");
    const trouble = h("div", {});
    async function load() {
        list.setAttribute("aria-busy", "true");
        try {
            const { schedules } = await get("api/schedules");
            list.replaceChildren(...(schedules ?? []).map((row) => schedule(row, load)));
            none.hidden = Boolean(schedules?.length);
            none.textContent = schedules
                ? "No schedules. Make one: select pgq.schedule('report', 'reports', '{}', cron => '0 6 * * *')"
                : "The role of this page may not see schedules.";
            trouble.replaceChildren();
        } catch (error) {
            if (!(error instanceof Failure)) throw error;
            trouble.replaceChildren(problem(error));
        } finally {
            list.removeAttribute("aria-busy");
        }
    }
    load();
    const again = setInterval(load, 30_000);
    return {
        title: "Schedules",
        element: h("div", {}, heading("Schedules"), trouble, list, none),
        close: () => clearInterval(again),
    };
}
