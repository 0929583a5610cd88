// Parts that several views show.

import { foreign, h } from "./dom.js";
import { ago, bytes, count, moment, precise } from "./format.js";
import { now } from "./live.js";

export const heading = (title, ...more) =>
    h("div", { class: "heading" }, h("h1", { tabindex: "-1" }, title), more);

export const chip = (text, kind = "") => h("span", { class: `chip ${kind}` }, text);

export const queueLink = (name) =>
    h("a", { href: `#/queue/${encodeURIComponent(name)}` }, foreign(name));

export const messageLink = (id) => h("a", { href: `#/message/${id}`, class: "mono" }, id);

export const empty = (text) => h("p", { class: "empty" }, text);

export const when = (epoch) =>
    h("time", { datetime: precise(epoch), title: precise(epoch) }, ago(now() - epoch));

export const exactly = (epoch) =>
    h("time", { datetime: precise(epoch), title: precise(epoch) }, moment(epoch));

/** Headers or a payload on one line of a list. */
export function short(row, name) {
    const text = row[name];
    if (text === null)
        return h("span", { class: "faint" }, `${bytes(row[`${name}_bytes`] ?? 0)} of data`);
    const more = row[`${name}_length`] > text.length;
    return h("span", { class: "mono json" }, foreign(more ? `${text}…` : text));
}

/** Headers or a payload, as far as the server has sent them. */
export function whole(row, name) {
    const text = row[name];
    if (text === null)
        return h("p", { class: "faint" }, `too large to show: ${bytes(row[`${name}_bytes`] ?? 0)}`);
    const cut = (row[`${name}_length`] ?? 0) > text.length;
    return h(
        "div",
        {},
        h("pre", { tabindex: "0", "aria-label": name }, foreign(cut ? text : pretty(text))),
        cut &&
            h(
                "p",
                { class: "faint" },
                `the first ${count(text.length)} of ${count(row[`${name}_length`])} characters`,
            ),
    );
}

/** Indent JSON without parsing numbers, which may exceed those of JavaScript. */
function pretty(text) {
    let depth = 0;
    const line = () => "\n" + "  ".repeat(depth);
    return text.replace(/"(?:[^"\\]|\\.)*"|[{}[\],]|:\s*|\s+/g, (part, at) => {
        if (part === "{" || part === "[") {
            if (/^\s*[}\]]/.test(text.slice(at + 1, at + 40))) return part;
            depth += 1;
            return part + line();
        }
        if (part === "}" || part === "]") {
            if (/[{[]\s*$/.test(text.slice(Math.max(0, at - 40), at))) return part;
            depth -= 1;
            return line() + part;
        }
        if (part === ",") return part + line();
        if (part[0] === ":") return ": ";
        return part[0] === '"' ? part : "";
    });
}

/** A list of facts without those that are missing. */
export function facts(rows) {
    return h(
        "dl",
        { class: "facts" },
        rows
            .filter(([, value]) => value !== null && value !== undefined && value !== "")
            .map(([name, value]) =>
                h(
                    "div",
                    {},
                    h("dt", {}, name),
                    h("dd", {}, typeof value === "string" ? foreign(value) : value),
                ),
            ),
    );
}
