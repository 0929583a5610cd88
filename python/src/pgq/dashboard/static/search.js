// The search field: by text, by a field of the message, or by a filter.

import { h } from "./dom.js";

const WAYS = [
    ["text", "Text", "text in headers or payload"],
    ["id", "Id", "4711, 4712"],
    ["correlation", "Correlation id", "the whole id"],
    ["group", "Group", "the key of an ordering group"],
    ["recipient", "Recipient", "the recipient of the message"],
    ["sender", "Sender", "the sender of the message"],
    ["header", "Header", "type=paid"],
    ["payload", "Payload", "customer.city=Oslo"],
    ["filter", "Filter", '{"type": "paid"}'],
];

/** The query has `by` and `find`; `go` is called with new ones. */
export function search(query, go) {
    const by = h(
        "select",
        { "aria-label": "Find by" },
        WAYS.map(([value, text]) =>
            h("option", { value, selected: value === query.get("by") }, text),
        ),
    );
    const find = h("input", {
        type: "search",
        id: "search",
        "aria-label": "Find",
        value: query.get("find") ?? "",
        autocomplete: "off",
        spellcheck: "false",
    });
    const hint = () => {
        find.placeholder = WAYS.find(([value]) => value === by.value)[2];
    };
    by.addEventListener("change", hint);
    hint();
    return h(
        "form",
        {
            class: "search",
            role: "search",
            onsubmit: (event) => {
                event.preventDefault();
                const wanted = find.value.trim();
                go(wanted ? { by: by.value, find: wanted } : { by: null, find: null });
            },
        },
        by,
        find,
        h("button", {}, "Find"),
    );
}

/** The address of a view with some parameters changed; null removes a parameter. */
export function address(path, query, changes) {
    const next = new URLSearchParams(query);
    for (const [name, value] of Object.entries(changes)) {
        if (value === null || value === undefined) next.delete(name);
        else next.set(name, value);
    }
    const text = next.toString();
    return text ? `${path}?${text}` : path;
}
