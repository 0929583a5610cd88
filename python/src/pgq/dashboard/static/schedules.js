// Schedules, with their next and last runs.

import { Failure, get } from "./api.js";
import { ask, problem } from "./dialog.js";
import { foreign, h } from "./dom.js";
import { span } from "./format.js";
import { now, state } from "./live.js";
import { chip, empty, exactly, facts, heading, messageLink, queueLink } from "./parts.js";
import { verbButton } from "./verbs.js";

const MISSED = { one: "one for all", skip: "left out", all: "each of them" };

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
            ["If missed", MISSED[row.missed] ?? row.missed],
            ["Payload", h("span", { class: "mono" }, foreign(row.payload))],
            ["Role", row.role],
        ]),
    );
}

/** Ask for a new schedule; null if the user cancels. */
async function askSchedule() {
    const field = (name, properties) =>
        h("input", { name, type: "text", autocomplete: "off", spellcheck: "false", ...properties });
    const fields = [
        ["Name", field("name", { required: true, autofocus: true })],
        ["Publish to", field("topic", { required: true, list: "topics" })],
        ["Payload (JSON)", field("payload", { value: "{}", required: true, class: "mono" })],
        ["Cron: minute hour day month weekday", field("cron", { placeholder: "0 6 * * *" })],
        ["Or every", field("every", { placeholder: "10 minutes" })],
        ["Time zone of cron", field("time_zone", { value: "UTC", required: true })],
        [
            "Runs that were missed",
            h(
                "select",
                { name: "missed" },
                Object.entries(MISSED).map(([value, text]) => h("option", { value }, text)),
            ),
        ],
    ];
    const topics = state.news.queues.map((row) => h("option", { value: row.queue }));
    const content = h(
        "div",
        {},
        fields.map(([text, input]) => h("label", {}, text, input)),
        h("datalist", { id: "topics" }, topics),
    );
    if (!(await ask("New schedule", content, { action: "Continue" }))) return null;
    return Object.fromEntries(fields.map(([, input]) => [input.name, input.value]));
}

export function view() {
    const list = h("ul", { class: "plain holders" });
    const none = empty("");
    const errorBox = h("div", {});
    async function load() {
        list.setAttribute("aria-busy", "true");
        try {
            const { schedules } = await get("api/schedules");
            list.replaceChildren(...(schedules ?? []).map((row) => schedule(row, load)));
            none.hidden = Boolean(schedules?.length);
            none.textContent = schedules
                ? "No schedules. In SQL: select pgq.schedule('report', 'reports', '{}', cron => '0 6 * * *')"
                : "The role of this page may not see schedules.";
            errorBox.replaceChildren();
        } catch (error) {
            if (!(error instanceof Failure)) throw error;
            errorBox.replaceChildren(problem(error));
        } finally {
            list.removeAttribute("aria-busy");
        }
    }
    load();
    const again = setInterval(load, 30_000);
    return {
        title: "Schedules",
        element: h(
            "div",
            {},
            heading("Schedules"),
            h(
                "div",
                { class: "toolbar" },
                verbButton("New schedule", "schedule", askSchedule, { after: load }),
            ),
            errorBox,
            list,
            none,
        ),
        close: () => clearInterval(again),
    };
}
