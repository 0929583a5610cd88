// The filter page: shows errors of the filter and its matches while it is typed.

import { Failure, post } from "./api.js";
import { problem } from "./dialog.js";
import { foreign, h, put } from "./dom.js";
import { count } from "./format.js";
import { chip, empty, heading, messageLink, short, when } from "./parts.js";
import { lineAndColumn, locate, positions } from "./json_positions.js";

const PAUSE = 350;
const EXAMPLES = [
    ["a header", '{"type": "paid"}'],
    ["the payload", '{"payload.amount": {"$gt": 100}}'],
    ["one of several", '{"type": ["paid", "refund"]}'],
    ["either, or", '{"$or": [{"type": "paid"}, {"payload.vip": true}]}'],
    ["the age", '{"msg.published_at": {"$lt": {"$now": "-1 hour"}}}'],
];
const SHEET = [
    ['{"type": "paid"}', "a header has this value"],
    ['{"type": ["paid", "refund"]}', "one of these"],
    ['{"payload.amount": {"$gte": 50, "$lt": 90}}', "a range, in the payload"],
    ['{"region": {"$like": "eu-%"}}', "also $prefix, $suffix, $regex, $wildcard"],
    ['{"vip": {"$exists": true}}', "it is there at all"],
    ['{"$or": [{"a": 1}, {"b": 2}]}', "also $and, $nor, $not"],
    ['{"msg.priority": {"$gt": 0}}', "the message's own fields"],
];
// The most important rows of the explanation, in this order; the others follow.
const WORDS = {
    "matches now": "Ready now",
    "estimated cost": "A claim costs",
    hint: "Hint",
    advice: "Advice",
    "looks at": "Looks at",
    final: "Lanes decide",
    lanes: "Lanes",
    "lanes kept": "Lanes kept",
};
let kept = '{\n  "type": "paid"\n}';
let keptQueue = null;

export function view({ query }) {
    keptQueue = query.get("queue") ?? keptQueue;
    const select = h("select", { id: "filter-queue" });
    const area = h("textarea", {
        id: "search",
        spellcheck: "false",
        autocomplete: "off",
        autocapitalize: "off",
        rows: 9,
        "aria-describedby": "verdict",
    });
    const marks = h("pre", { class: "marks", "aria-hidden": "true" });
    const verdict = h("div", { id: "verdict", role: "status", class: "verdict" });
    const words = h("dl", { class: "facts explain" });
    const inner = h("dl", { class: "facts explain" });
    const how = h("details", { hidden: true }, h("summary", {}, "How it is evaluated"), inner);
    const tried = h("ul", { class: "messages" });
    const triedTitle = h("h2", { hidden: true });
    const wordsTitle = h("h2", { hidden: true }, "What it means for this queue");
    const sheet = h(
        "section",
        { hidden: true },
        h("h2", {}, "Operators"),
        h(
            "dl",
            { class: "sheet" },
            SHEET.map(([text, meaning]) =>
                h("div", {}, h("dt", {}, h("code", {}, text)), h("dd", {}, meaning)),
            ),
        ),
    );
    let timer = null;
    let pending = null;
    let ticket = 0;
    area.value = kept;

    function mark(range) {
        const text = area.value;
        marks.replaceChildren();
        if (!range) return;
        const [from, to] = range;
        marks.append(
            text.slice(0, from),
            h("mark", {}, text.slice(from, Math.max(to, from + 1)) || " "),
            text.slice(Math.max(to, from + 1)),
            "\n",
        );
        marks.scrollTop = area.scrollTop;
    }

    function wrong(answer, range) {
        mark(range);
        area.setAttribute("aria-invalid", "true");
        const at = range && lineAndColumn(area.value, range[0]);
        const go =
            range &&
            h(
                "button",
                {
                    type: "button",
                    class: "quiet",
                    onclick: () => {
                        area.focus();
                        area.setSelectionRange(...range);
                    },
                },
                `line ${at.line}, column ${at.column}`,
            );
        verdict.replaceChildren(
            h(
                "div",
                { class: "problem box" },
                h("strong", {}, foreign(answer.message)),
                go && h("span", {}, " at ", go),
                answer.detail && h("p", { class: "mono" }, foreign(answer.detail)),
                answer.hint && h("p", { class: "hint" }, foreign(answer.hint)),
            ),
        );
        for (const part of [words, tried]) part.replaceChildren();
        triedTitle.hidden = wordsTitle.hidden = how.hidden = true;
        sheet.hidden = false;
    }

    function right(found) {
        mark(null);
        area.removeAttribute("aria-invalid");
        const of = found.of === "newest" ? "newest" : "next";
        const vain = found.tested > 0 && found.matched === 0;
        verdict.replaceChildren(
            h(
                "p",
                { class: vain ? "warn box" : "good box" },
                h("strong", {}, vain ? "It matches nothing. " : "A good filter. "),
                found.tested
                    ? `${count(found.matched)} of the ${of} ${count(found.tested)} messages match.`
                    : "There are no messages to test.",
            ),
        );
        sheet.hidden = true;
        wordsTitle.hidden = false;
        const fact = ({ item, value }) =>
            h(
                "div",
                {},
                h("dt", {}, WORDS[item] ?? foreign(item)),
                h("dd", {}, foreign(value ?? "–")),
            );
        words.replaceChildren(
            ...Object.keys(WORDS)
                .flatMap((name) => found.explained.filter(({ item }) => item === name))
                .map(fact),
        );
        inner.replaceChildren(...found.explained.filter(({ item }) => !WORDS[item]).map(fact));
        how.hidden = !inner.childElementCount;
        triedTitle.hidden = false;
        put(
            triedTitle,
            found.of === "newest" ? "Among the newest messages" : "Among the next messages",
        );
        tried.replaceChildren(
            ...found.messages.map((row) =>
                h(
                    "li",
                    { class: row.matches ? "match" : "miss" },
                    h(
                        "div",
                        { class: "line" },
                        chip(row.matches ? "matches" : "does not", row.matches ? "good" : ""),
                        messageLink(row.id),
                        foreign(row.topic, { class: "faint" }),
                        h("span", { class: "faint push" }, when(row.published)),
                    ),
                    h("div", {}, short(row, "headers")),
                    h("div", {}, short(row, "payload")),
                ),
            ),
        );
        if (!found.messages.length)
            tried.append(h("li", {}, empty("Nothing has been published for this queue lately.")));
    }

    async function look() {
        kept = area.value;
        const text = area.value.trim() ? area.value : "{}";
        pending?.abort();
        const shape = positions(text);
        if (shape.message)
            return wrong({ message: `Not valid JSON: ${shape.message}` }, [
                shape.at,
                shape.at + 1,
            ]);
        if (!keptQueue) return verdict.replaceChildren(empty("There is no queue to test it with."));
        pending = new AbortController();
        const mine = ++ticket;
        verdict.setAttribute("aria-busy", "true");
        try {
            const found = await post(
                "api/filter",
                { queue: keptQueue, filter: text },
                { signal: pending.signal },
            );
            if (mine === ticket) right(found);
        } catch (error) {
            if (error.name === "AbortError" || mine !== ticket) return;
            if (!(error instanceof Failure)) throw error;
            if (error.status === 422) return wrong(error.answer, locate(text, error.answer.detail));
            mark(null);
            verdict.replaceChildren(problem(error));
        } finally {
            if (mine === ticket) verdict.removeAttribute("aria-busy");
        }
    }

    area.addEventListener("input", () => {
        mark(null);
        clearTimeout(timer);
        timer = setTimeout(look, PAUSE);
    });
    area.addEventListener("scroll", () => {
        marks.scrollTop = area.scrollTop;
    });
    select.addEventListener("change", () => {
        keptQueue = select.value;
        look();
    });
    const example = ([name, text]) =>
        h(
            "button",
            {
                type: "button",
                class: "quiet",
                onclick: () => {
                    area.value = JSON.stringify(JSON.parse(text), null, 2);
                    area.focus();
                    look();
                },
            },
            name,
        );

    return {
        title: "Filter",
        element: h(
            "div",
            {},
            heading("Filter"),
            h(
                "p",
                { class: "lead" },
                "Type a filter. It is tested on the newest messages; nothing is claimed.",
            ),
            h(
                "div",
                { class: "playground" },
                h(
                    "section",
                    {},
                    h("label", { class: "field" }, "Queue", select),
                    h("label", { class: "field", for: "search" }, "Filter document"),
                    h("div", { class: "editor" }, marks, area),
                    h(
                        "div",
                        { class: "examples" },
                        h("span", { class: "faint" }, "Examples:"),
                        EXAMPLES.map(example),
                    ),
                    verdict,
                ),
                h("section", {}, wordsTitle, words, how, triedTitle, tried, sheet),
            ),
        ),
        update({ news }) {
            if (!news) return;
            const names = news.queues.map((row) => row.queue);
            const shown = JSON.stringify(names);
            if (select.options_shown === shown || document.activeElement === select) return;
            select.options_shown = shown;
            const first = !keptQueue || !names.includes(keptQueue);
            if (first) keptQueue = names[0] ?? null;
            select.replaceChildren(
                ...names.map((name) =>
                    h(
                        "option",
                        { value: name, selected: name === keptQueue },
                        foreign(name).textContent,
                    ),
                ),
            );
            if (verdict.childElementCount === 0 || first) look();
        },
        close: () => {
            clearTimeout(timer);
            pending?.abort();
        },
    };
}
