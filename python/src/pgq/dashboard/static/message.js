// The history of a message.

import { Failure, get } from "./api.js";
import { problem } from "./dialog.js";
import { foreign, h } from "./dom.js";
import { span } from "./format.js";
import { exactly, facts, heading, queueLink, whole } from "./parts.js";

const EVENTS = {
    cancel: ["Cancelled", "bad"],
    purge: ["Purged", "bad"],
    move: ["Moved", "flow"],
    arrive: ["Arrived", "flow"],
    reschedule: ["Rescheduled", "flow"],
    publish: ["Published", "start"],
    claim: ["Claimed", "flow"],
    ack: ["Acknowledged: done", "good"],
    nack: ["Refused", "bad"],
    release: ["Given back", "flow"],
    bury: ["Buried", "bad"],
    timeout: ["Lease expired", "bad"],
    expire: ["Expired", "bad"],
    replay: ["Replayed", "flow"],
    discard: ["Discarded", "bad"],
    dead: ["A dead letter", "bad now"],
    ready: ["Now ready to be claimed", "now"],
    scheduled: ["Now waiting for a retry or its time", "now"],
    waiting: ["Now waiting for its turn", "now"],
};

function timeline(history) {
    let before = null;
    return h(
        "ol",
        { class: "timeline" },
        history.map((row) => {
            const [words, kind] = EVENTS[row.event] ?? [row.event, "flow"];
            const gap = before !== null && row.at !== null ? row.at - before : null;
            before = row.at ?? before;
            return h(
                "li",
                { class: kind },
                h(
                    "div",
                    { class: "line" },
                    h("b", {}, words),
                    row.attempt ? h("span", { class: "faint" }, `attempt ${row.attempt}`) : null,
                    row.queue && queueLink(row.queue),
                    h(
                        "span",
                        { class: "faint push" },
                        row.at === null ? "now" : exactly(row.at),
                        gap !== null && gap >= 0.001 ? ` (+${span(gap)})` : "",
                    ),
                ),
                (row.holder || row.client) &&
                    h(
                        "div",
                        { class: "faint" },
                        "by ",
                        foreign([row.holder, row.client].filter(Boolean).join(", ")),
                    ),
                row.note &&
                    h(
                        "div",
                        { class: row.event === "publish" ? "faint" : "mono note" },
                        row.event === "publish" ? "topic " : "",
                        foreign(row.note),
                    ),
            );
        }),
    );
}

export function view({ id }) {
    const field = h("input", {
        type: "text",
        inputmode: "numeric",
        pattern: "[0-9]{1,19}",
        id: "search",
        "aria-label": "Message id",
        placeholder: "Message id",
        value: id,
        required: true,
    });
    const result = h("div", {});
    const form = h(
        "form",
        {
            class: "toolbar",
            onsubmit: (event) => {
                event.preventDefault();
                const wanted = `#/message/${field.value.trim()}`;
                if (location.hash === wanted) load(field.value.trim());
                else location.hash = wanted;
            },
        },
        field,
        h("button", { class: "primary" }, "Show"),
    );

    async function load(wanted) {
        result.setAttribute("aria-busy", "true");
        try {
            const { message, history, refused } = await get("api/message", { id: wanted });
            if (!history.length && !message) {
                result.replaceChildren(
                    h(
                        "div",
                        { class: "empty" },
                        h("p", {}, `No record of message ${wanted}.`),
                        h(
                            "p",
                            { class: "faint" },
                            "The log deletes finished messages after the retention of the queues.",
                        ),
                    ),
                );
                return;
            }
            result.replaceChildren(
                h(
                    "div",
                    { class: "columns wide" },
                    h("section", {}, h("h2", {}, "What happened"), timeline(history)),
                    h(
                        "section",
                        {},
                        h("h2", {}, "What it says"),
                        message
                            ? [
                                  h("h3", {}, "Payload"),
                                  whole(message, "payload"),
                                  h("h3", {}, "Headers"),
                                  whole(message, "headers"),
                                  facts([
                                      ["Topic", message.topic],
                                      ["Published", exactly(message.published)],
                                      ["Priority", String(message.priority)],
                                      ["Expires", message.expires && exactly(message.expires)],
                                      ["Sender", message.sender],
                                      ["Recipient", message.recipient],
                                      ["Reply to", message.reply_to],
                                      ["Correlation", message.correlation_id],
                                      ["Group", message.group_key],
                                  ]),
                              ]
                            : h(
                                  "p",
                                  { class: "faint" },
                                  refused ? foreign(refused) : "It is no longer in the log.",
                              ),
                    ),
                ),
            );
        } catch (error) {
            if (!(error instanceof Failure)) throw error;
            result.replaceChildren(problem(error));
        } finally {
            result.removeAttribute("aria-busy");
        }
    }
    load(id);
    return {
        title: `Message ${id}`,
        element: h("div", {}, heading(`Message ${id}`), form, result),
    };
}
