// Messages of a queue by state, with search and actions.

import { Failure, get } from "./api.js";
import { problem } from "./dialog.js";
import { foreign, h, put, seen } from "./dom.js";
import { count, moment, plural, span } from "./format.js";
import { now, state } from "./live.js";
import { chip, empty, heading, messageLink, short, when } from "./parts.js";
import { address, search } from "./search.js";
import { askMove, askReplay, askTime, canAct, perform, verbButton } from "./verbs.js";

const STATES = [
    ["ready", "Ready"],
    ["scheduled", "Scheduled"],
    ["leased", "Leased"],
    ["waiting", "Waiting in groups"],
    ["dead", "Dead"],
];

function until(row, which) {
    if (row.until === null) return which === "leased" ? "leased without end" : null;
    const left = row.until - now();
    if (which === "dead") return `died ${span(-left)} ago`;
    const words = { scheduled: "due", leased: "leased", waiting: "not before" }[which];
    return left > 0 ? `${words} ${which === "leased" ? "for" : "in"} ${span(left)}` : `${words} now`;
}

export function view({ query }) {
    const queue = query.get("queue");
    const which = query.get("state") ?? "ready";
    const chosen = new Set();
    let rows = [];
    let filter = null;
    const here = (changes) => address("#/messages", query, changes);
    const go = (changes) => {
        location.hash = here(changes);
    };
    const select = h("select", {
        "aria-label": "Queue",
        onchange: (event) => go({ queue: event.target.value || null }),
    });
    const tabs = new Map(
        STATES.map(([name, text]) => {
            const size = h("i", {});
            const link = h(
                "a",
                { href: here({ state: name }), "aria-current": name === which ? "true" : null },
                text,
                " ",
                size,
            );
            return [name, { link, size }];
        }),
    );
    const list = h("ul", { class: "messages" });
    const none = empty("");
    const summary = h("p", { class: "faint" });
    const errorBox = h("div", {});
    const ofChosen = () => ({ queue, ids: [...chosen] });
    const ofAll = () => (filter ? { queue, filter } : { queue, all: true });
    const after = () => load();
    /** What is selected, and the answers of a dialog; null if the user cancels. */
    const selectedWith = async (question) => {
        const body = selected();
        const answers = await question;
        return answers && { ...body, ...answers };
    };
    const all = h("input", { type: "checkbox", "aria-label": "Select all shown" });
    const number = h("span", { class: "chosen" });
    const tools = h("div", { class: "toolbar acts", role: "group", "aria-label": "What to do" });

    function showTools() {
        tools.hidden = !canAct() || !rows.length || which === "leased";
        // The actions ignore the state: without a selection they apply to all waiting messages.
        const kind = which === "dead" ? "all dead letters" : "all that wait";
        const whole = filter ? `${kind} and match` : kind;
        put(number, chosen.size ? `${count(chosen.size)} selected` : whole);
        all.checked = rows.length > 0 && chosen.size === rows.length;
        all.indeterminate = chosen.size > 0 && chosen.size < rows.length;
        // A text search is not a filter: actions apply to selected rows only.
        const possible = chosen.size > 0 || query.get("by") !== "text" || !query.get("find");
        for (const each of tools.querySelectorAll("button")) {
            each.hidden = !canAct();
            each.disabled = !possible;
        }
    }
    const selected = () => (chosen.size ? ofChosen() : ofAll());
    const purge = async () => {
        const verb = chosen.size || filter ? "cancel" : "purge";
        const options = verb === "purge" ? { word: queue } : {};
        if (await perform(verb, selected(), options)) load();
    };
    const waiting = [
        verbButton("Reschedule", "reschedule", () => selectedWith(askTime()), { after }),
        verbButton("Move", "move", () => selectedWith(askMove(queue)), { after }),
        h("button", { type: "button", class: "verb danger", onclick: purge }, "Cancel messages"),
    ];
    const dead = [
        verbButton("Replay", "replay", selected, { after, kind: "primary" }),
        verbButton("Replay with options", "replay", () => selectedWith(askReplay(queue)), { after }),
        verbButton("Discard", "discard", selected, { after, kind: "danger" }),
    ];
    tools.append(
        h("label", { class: "check" }, all, "All shown"),
        number,
        h("span", { class: "push" }),
        ...(which === "dead" ? dead : waiting),
    );

    function item(row) {
        const box = h("input", { type: "checkbox", "aria-label": `Select message ${row.id}` });
        box.hidden = !canAct() || which === "leased";
        box.addEventListener("change", () => {
            if (box.checked) chosen.add(row.id);
            else chosen.delete(row.id);
            showTools();
        });
        const time = until(row, which);
        return h(
            "li",
            { class: "item" },
            box,
            h(
                "div",
                { class: "grow" },
                h(
                    "div",
                    { class: "line" },
                    messageLink(row.id),
                    time && h("span", { title: row.until && moment(row.until) }, time),
                    row.priority ? chip(`priority ${row.priority}`) : null,
                    row.attempt ? chip(`attempt ${row.attempt}`, "warn") : null,
                    row.group_key && chip(["group ", foreign(row.group_key)]),
                    row.correlation_id && chip(foreign(row.correlation_id)),
                    row.topic !== queue && foreign(row.topic, { class: "where" }),
                    h("span", { class: "faint push" }, when(row.published)),
                    which === "leased" &&
                        verbButton("Release", "release", { lease: row.lease_id }, { after }),
                ),
                h("div", {}, short(row, "headers")),
                h("div", {}, short(row, "payload")),
            ),
        );
    }

    async function load() {
        if (!queue) return;
        list.setAttribute("aria-busy", "true");
        try {
            const found = await get("api/messages", {
                queue,
                state: which,
                by: query.get("by"),
                find: query.get("find"),
            });
            errorBox.replaceChildren();
            ({ messages: rows, filter } = found);
            chosen.clear();
            list.replaceChildren(...rows.map(item));
            none.hidden = rows.length > 0;
            put(none, query.get("find") ? "No message matches." : "No messages.");
            const first = found.more ? `The first ${count(rows.length)} are shown. ` : "";
            const text = query.get("find") && query.get("by") === "text";
            put(summary, first + (text ? `At most ${count(found.scanned)} messages were searched.` : ""));
            showTools();
        } catch (error) {
            if (!(error instanceof Failure)) throw error;
            list.replaceChildren();
            errorBox.replaceChildren(problem(error));
        } finally {
            list.removeAttribute("aria-busy");
        }
    }
    all.addEventListener("change", () => {
        for (const box of list.querySelectorAll("input[type=checkbox]")) box.checked = all.checked;
        chosen.clear();
        if (all.checked) for (const row of rows) chosen.add(row.id);
        showTools();
    });
    put(none, "Choose a queue. A message id finds the message in any queue.");
    tools.hidden = true;
    load();

    return {
        title: "Messages",
        element: h(
            "div",
            {},
            heading("Messages", select),
            search(query, (wanted) => {
                if (!queue && /^\d+$/.test(wanted.find ?? ""))
                    location.hash = `#/message/${wanted.find}`;
                else go(wanted);
            }),
            queue &&
                h(
                    "div",
                    { class: "tabs", role: "group", "aria-label": "State" },
                    [...tabs.values()].map(({ link }) => link),
                ),
            errorBox,
            tools,
            list,
            none,
            summary,
        ),
        update({ news }) {
            if (!news) return;
            const names = JSON.stringify(news.queues.map((row) => row.queue));
            if (select.shown !== names && document.activeElement !== select) {
                select.shown = names;
                select.replaceChildren(
                    h("option", { value: "" }, "Choose a queue"),
                    ...news.queues.map((row) =>
                        h(
                            "option",
                            { value: row.queue, selected: row.queue === queue },
                            seen(row.queue),
                        ),
                    ),
                );
            }
            const row = news.queues.find((each) => each.queue === queue);
            for (const [name, { size, link }] of tabs) {
                put(size, row ? count(row[name], row.exact) : "");
                link.title = row ? plural(row[name], "message") : "";
            }
        },
    };
}
