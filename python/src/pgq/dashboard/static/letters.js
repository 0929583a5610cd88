// Dead letters: causes, content, and actions.

import { Failure, get } from "./api.js";
import { problem } from "./dialog.js";
import { foreign, h, put, seen } from "./dom.js";
import { count, moment, plural, span } from "./format.js";
import { state } from "./live.js";
import { address, search } from "./search.js";
import { askReplay, canAct, perform } from "./verbs.js";
import { chip, empty, exactly, facts, heading, queueLink, short, when, whole } from "./parts.js";

const REASONS = {
    processing_error: "failed",
    max_attempts: "too many attempts",
    timeout: "lease ran out",
    expired: "expired",
    rejected: "rejected",
};
const reason = (name) => REASONS[name] ?? name;
const OUTCOMES = {
    nack: "refused",
    timeout: "lease ran out",
    bury: "buried",
    expire: "expired",
    replay: "replayed",
    release: "given back",
};

/** The attempts of a dead letter, oldest first. */
function attempts(failures) {
    return h(
        "ol",
        { class: "timeline" },
        failures.map((failure) =>
            h(
                "li",
                { class: failure.outcome === "replay" ? "good" : "bad" },
                h(
                    "div",
                    { class: "line" },
                    h(
                        "b",
                        {},
                        failure.attempt ? `Attempt ${failure.attempt} ` : "",
                        foreign(OUTCOMES[failure.outcome] ?? failure.outcome),
                    ),
                    h(
                        "span",
                        { class: "faint" },
                        failure.at ? moment(Date.parse(failure.at) / 1000) : "",
                    ),
                ),
                (failure.holder || failure.client) &&
                    h(
                        "div",
                        { class: "faint" },
                        "by ",
                        foreign([failure.holder, failure.client].filter(Boolean).join(", ")),
                    ),
                failure.claimed_at &&
                    h(
                        "div",
                        { class: "faint" },
                        `after ${span((Date.parse(failure.at) - Date.parse(failure.claimed_at)) / 1000)}`,
                    ),
                failure.error && h("div", { class: "mono" }, foreign(failure.error)),
            ),
        ),
    );
}

/** The details; texts of several lines, such as tracebacks, keep their line breaks. */
function details(text) {
    let found;
    try {
        found = JSON.parse(text);
    } catch {
        found = null; // the server has truncated a long text
    }
    const long = Object.entries(found ?? {}).filter(
        ([, value]) => typeof value === "string" && value.trim().includes("\n"),
    );
    for (const [name] of long) delete found[name];
    const rest = long.length ? JSON.stringify(found, null, 4) : text;
    return [
        rest !== "{}" && h("pre", { tabindex: "0", "aria-label": "details" }, foreign(rest)),
        long.map(([name, value]) => [
            h("h3", {}, foreign(name)),
            h("pre", { tabindex: "0", "aria-label": seen(name) }, foreign(value)),
        ]),
    ];
}

function whatItIs(row) {
    return [
        h(
            "section",
            {},
            h("h3", {}, "Why"),
            row.error
                ? h(
                      "pre",
                      { class: "error", tabindex: "0", "aria-label": "error" },
                      foreign(row.error),
                  )
                : h("p", { class: "faint" }, "No error text."),
            row.details && details(row.details),
            h("h3", {}, "Attempts"),
            attempts(row.failures),
        ),
        h(
            "section",
            {},
            h("h3", {}, "Payload"),
            whole(row, "payload"),
            h("h3", {}, "Headers"),
            whole(row, "headers"),
            facts([
                ["Topic", row.topic],
                ["Published", exactly(row.published)],
                ["Died", exactly(row.failed)],
                ["Last replayed", row.replayed && exactly(row.replayed)],
                ["Priority", row.priority ? String(row.priority) : null],
                ["Sender", row.sender],
                ["Recipient", row.recipient],
                ["Reply to", row.reply_to],
                ["Correlation", row.correlation_id],
                ["Group", row.group_key],
                ["Dedup key", row.dedup_key],
            ]),
        ),
    ];
}

export function view({ query }) {
    let queue = query.get("queue");
    let rows = [];
    let known = null; // the number of dead letters when the list was loaded
    const chosen = new Map();
    const select = h("select", { "aria-label": "Queue" });
    const causes = h("ol", { class: "causes card" });
    const causesTitle = h("h2", {}, "Why");
    const list = h("ul", { class: "letters plain" });
    const none = empty("No dead letters.");
    const more = h("button", { type: "button", hidden: true }, "Show older ones");
    const fresh = h("button", { type: "button", class: "fresh", hidden: true });
    const errorBox = h("div", {});
    const all = h("input", { type: "checkbox", "aria-label": "Select all shown" });
    const counted = h("span", { class: "chosen" });
    const button = (text, kind, run) =>
        h("button", { type: "button", class: kind, onclick: run }, text);
    const replayChosen = button("Replay selected", "primary", () =>
        move("replay", [...chosen.values()]),
    );
    const discardChosen = button("Discard selected", "danger", () =>
        move("discard", [...chosen.values()]),
    );
    const replayWith = button("Replay with options", "", async () => {
        const letters = [...chosen.values()];
        const options = await askReplay(queue);
        if (!options) return;
        await (letters.length ? move("replay", letters, options) : moveAll("replay", options));
    });
    const replayAll = button("Replay all", "", () => moveAll("replay"));
    const discardAll = button("Discard all", "", () => moveAll("discard"));
    const here = (changes) => address("#/letters", query, changes);
    // By cause, by the search, or all of a queue.
    const cause = query.get("reason") && {
        queue,
        reason: query.get("reason"),
        error: query.get("error"),
    };
    let found = { filter: null, cause: null };
    const narrowed = h(
        "p",
        { class: "line", hidden: !cause },
        "Only this cause: ",
        cause && (cause.error ? foreign(cause.error, { class: "mono" }) : reason(cause.reason)),
        h("a", { href: here({ reason: null, error: null }) }, "Show all"),
    );
    const tools = h(
        "div",
        { class: "toolbar acts", role: "group", "aria-label": "Actions" },
        h("label", { class: "check" }, all, "All shown"),
        counted,
        replayChosen,
        discardChosen,
        h("span", { class: "push" }),
        replayWith,
        replayAll,
        discardAll,
    );
    const readonly = h(
        "p",
        { class: "faint" },
        "Read-only. To replay and discard, start the page with: pgq dashboard --allow-writes",
    );

    function showTools() {
        const writes = canAct();
        const text = query.get("find") && (query.get("by") ?? "text") === "text";
        tools.hidden = !writes || !rows.length;
        readonly.hidden = writes || !rows.length || !state.about;
        replayChosen.disabled = discardChosen.disabled = !chosen.size;
        put(counted, chosen.size ? `${count(chosen.size)} selected` : "");
        all.checked = rows.length > 0 && chosen.size === rows.length;
        all.indeterminate = chosen.size > 0 && chosen.size < rows.length;
        // A text search is not a filter: actions apply to selected rows only.
        replayAll.hidden = discardAll.hidden = !queue || Boolean(text);
        replayWith.disabled = !chosen.size && replayAll.hidden;
        for (const box of list.querySelectorAll("input[type=checkbox]")) box.hidden = !writes;
    }

    async function move(what, letters, options = {}) {
        const names = [...new Set(letters.map((row) => row.queue))];
        const bodies = names.map((name) => ({
            ...options,
            queue: name,
            ids: letters.filter((row) => row.queue === name).map((row) => row.id),
        }));
        if (await perform(what, bodies)) await load();
    }

    async function moveAll(what, options = {}) {
        const body = { ...options, queue, filter: found.filter, cause: found.cause };
        const everything = !found.filter && !found.cause;
        if (everything) body.all = true;
        const word = everything && what === "discard" ? queue : null;
        if (await perform(what, body, { word })) await load();
    }

    function letter(row) {
        const detail = h("div", {
            class: "detail columns",
            hidden: true,
            id: `letter-${row.number}`,
        });
        const box = h("input", {
            type: "checkbox",
            "aria-label": `Select message ${row.id}`,
            hidden: !canAct(),
        });
        const open = h(
            "button",
            { type: "button", class: "open", "aria-expanded": "false", "aria-controls": detail.id },
            h(
                "span",
                { class: "line" },
                h("span", { class: "mono" }, row.id),
                chip(reason(row.reason), "bad"),
                queue ? null : foreign(row.queue, { class: "where" }),
                row.replay_count ? chip(`replayed ${row.replay_count}×`, "warn") : null,
                h("span", { class: "faint" }, plural(row.attempts, "attempt")),
                h("span", { class: "faint push" }, when(row.failed)),
            ),
            h(
                "span",
                { class: "why" },
                row.error
                    ? foreign(row.error)
                    : h("span", { class: "faint" }, "no error text"),
            ),
            h("span", { class: "sample" }, short(row, "payload")),
        );
        box.addEventListener("change", () => {
            if (box.checked) chosen.set(row.number, row);
            else chosen.delete(row.number);
            showTools();
        });
        open.addEventListener("click", async () => {
            const on = open.getAttribute("aria-expanded") !== "true";
            open.setAttribute("aria-expanded", String(on));
            detail.hidden = !on;
            if (!on) return;
            try {
                const found = await get("api/letter", { queue: row.queue, id: row.id });
                detail.replaceChildren(
                    ...whatItIs(found),
                    h(
                        "div",
                        { class: "toolbar whole" },
                        h("a", { href: `#/message/${row.id}` }, "Its history"),
                        queueLink(row.queue),
                        h("span", { class: "push" }),
                        canAct() && [
                            button("Discard", "danger", () => move("discard", [row])),
                            button("Replay", "primary", () => move("replay", [row])),
                        ],
                    ),
                );
            } catch (error) {
                detail.replaceChildren(problem(error));
            }
        });
        return h("li", { class: "letter card" }, box, h("div", { class: "grow" }, open, detail));
    }

    function showCauses(all, of) {
        const most = Math.max(...all.map((row) => row.size), 1);
        const total = all.reduce((sum, row) => sum + row.size, 0);
        put(causesTitle, total >= of ? `Why the newest ${count(of)} died` : "Why they died");
        causes.replaceChildren(
            ...all.map((row) => {
                const bar = h("i", {});
                bar.style.inlineSize = `${(100 * row.size) / most}%`;
                return h(
                    "li",
                    {},
                    h("b", { class: "number" }, count(row.size)),
                    h("span", { class: "bar-line", "aria-hidden": "true" }, bar),
                    h(
                        "a",
                        {
                            class: "clip",
                            href: here({ queue: row.queue, reason: row.reason, error: row.error }),
                        },
                        row.error
                            ? foreign(row.error)
                            : h("span", { class: "faint" }, "no error text"),
                    ),
                    h(
                        "span",
                        { class: "line" },
                        chip(reason(row.reason), "bad"),
                        queue ? null : foreign(row.queue, { class: "where" }),
                    ),
                    h("span", { class: "faint ago" }, when(row.last)),
                );
            }),
        );
        causesTitle.hidden = causes.hidden = !all.length || Boolean(cause);
    }

    async function load(older = false) {
        const last = rows.at(-1);
        list.setAttribute("aria-busy", "true");
        try {
            const wanted = { queue, ...cause, by: query.get("by"), find: query.get("find") };
            const page = older ? { before: last.before, number: last.number } : {};
            found = await get("api/letters", { ...wanted, ...page });
            errorBox.replaceChildren();
            if (!older) {
                rows = [];
                chosen.clear();
                list.replaceChildren();
                known = null;
                fresh.hidden = true;
            }
            if (found.causes) showCauses(found.causes, found.causes_of);
            rows.push(...found.letters);
            list.append(...found.letters.map(letter));
            more.hidden = !found.more;
            none.hidden = rows.length > 0;
            showTools();
        } catch (error) {
            if (!(error instanceof Failure)) throw error;
            errorBox.replaceChildren(problem(error));
        } finally {
            list.removeAttribute("aria-busy");
        }
    }

    all.addEventListener("change", () => {
        for (const box of list.querySelectorAll("input[type=checkbox]")) box.checked = all.checked;
        chosen.clear();
        if (all.checked) for (const row of rows) chosen.set(row.number, row);
        showTools();
    });
    more.addEventListener("click", () => load(true));
    fresh.addEventListener("click", () => load());
    select.addEventListener("change", () => {
        location.hash = here({ queue: select.value || null, reason: null, error: null });
    });
    none.hidden = true;
    load();

    return {
        title: "Dead letters",
        element: h(
            "div",
            {},
            heading("Dead letters", select),
            search(query, (wanted) => {
                location.hash = here(wanted);
            }),
            narrowed,
            errorBox,
            causesTitle,
            causes,
            tools,
            readonly,
            fresh,
            list,
            none,
            more,
        ),
        update({ news }) {
            if (!news) return;
            const text = (row) =>
                `${foreign(row.queue).textContent} (${count(row.dead, row.exact)})`;
            const options = [
                ["", "All queues"],
                ...news.queues
                    .filter((row) => row.dead || row.queue === queue)
                    .map((row) => [row.queue, text(row)]),
            ];
            const wanted = JSON.stringify(options);
            if (select.options_shown !== wanted && document.activeElement !== select) {
                select.options_shown = wanted;
                select.replaceChildren(
                    ...options.map(([value, name]) =>
                        h("option", { value, selected: value === (queue ?? "") }, name),
                    ),
                );
            }
            const dead = news.queues
                .filter((row) => !queue || row.queue === queue)
                .reduce((sum, row) => sum + row.dead, 0);
            known ??= dead;
            fresh.hidden = dead <= known || !news.queues.every((row) => row.exact);
            put(fresh, `${plural(dead - known, "new dead letter")}: show`);
            showTools();
        },
    };
}
