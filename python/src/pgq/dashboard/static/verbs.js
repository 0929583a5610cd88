// The actions of operators: count, ask, then act. Each action calls a function of pgq.

import { Failure } from "./api.js";
import { act, ask, confirm, problem, toast } from "./dialog.js";
import { foreign, h, seen } from "./dom.js";
import { moment, plural } from "./format.js";
import { state } from "./live.js";

const messages = (n) => plural(n, "message");
const letters = (n) => plural(n, "dead letter");

// title(n, body), text or text(body, queues), the button, the final message. Actions with `counted`
// have a dry run.
const VERBS = {
    pause: {
        title: () => "Pause the queue?",
        text: "Consumers get no messages until the queue is resumed. Publishing continues.",
        action: "Pause",
        done: () => "paused",
    },
    resume: {
        title: () => "Resume the queue?",
        text: "Consumers get messages again.",
        action: "Resume",
        done: () => "resumed",
    },
    release: {
        title: (_, body) => `Release lease ${body.lease}?`,
        text: "Other consumers can claim its messages immediately. The holder can no longer acknowledge them.",
        action: "Release",
        done: (n) => `${messages(n)} released`,
    },
    cancel: {
        counted: messages,
        title: (n) => `Cancel ${messages(n)}?`,
        text: "They are deleted and never delivered.",
        action: "Cancel them",
        danger: true,
        done: (n) => `${messages(n)} cancelled`,
    },
    purge: {
        counted: messages,
        title: (n) => `Purge ${messages(n)}?`,
        text: "All waiting messages are deleted: ready, scheduled, in groups. Dead letters and subscriptions stay.",
        action: "Purge",
        danger: true,
        done: (n) => `${messages(n)} purged`,
    },
    move: {
        counted: messages,
        title: (n, body) => `Move ${messages(n)} to ${seen(body.to)}?`,
        text: "They keep their ids and times. Their attempts count from zero.",
        action: "Move",
        done: (n) => `${messages(n)} moved`,
    },
    reschedule: {
        counted: messages,
        title: (n, body) => {
            if (body.at) return `Deliver ${messages(n)} at ${moment(Date.parse(body.at) / 1000)}?`;
            return body.delay === "0"
                ? `Deliver ${messages(n)} now?`
                : `Deliver ${messages(n)} after ${seen(body.delay)}?`;
        },
        text: "A message of an ordering group still waits for its turn.",
        action: "Reschedule",
        done: (n) => `${messages(n)} rescheduled`,
    },
    replay: {
        counted: letters,
        title: (n, body) => `Replay ${letters(n)}${body.to ? ` to ${seen(body.to)}` : ""}?`,
        text: (body, queues) => [
            body.to ? "They go to " : "They return to their queue",
            body.to && foreign(body.to),
            body.per_second &&
                `, ${body.per_second} per second${queues > 1 ? " of each queue" : ""}`,
            ", and their attempts count from zero. At most 10,000 at a time.",
            body.patch && [
                " Each becomes a new message, whose payload is changed by ",
                foreign(body.patch, { class: "mono" }),
                ".",
            ],
        ],
        action: "Replay",
        done: (n) => `${letters(n)} replayed`,
    },
    discard: {
        counted: letters,
        title: (n) => `Discard ${letters(n)}?`,
        text: "They are deleted for good, at most 10,000 at a time.",
        action: "Discard",
        danger: true,
        done: (n) => `${letters(n)} discarded`,
    },
    schedule: {
        title: (_, body) => `Publish to ${seen(body.topic)} by the schedule ${seen(body.name)}?`,
        text: "It runs from now on. If there is a schedule of this name, it is changed.",
        action: "Schedule",
        done: () => "scheduled",
    },
    pause_schedule: {
        title: (_, body) => `Pause the schedule ${seen(body.name)}?`,
        text: "It publishes nothing until it is resumed.",
        action: "Pause",
        done: () => "schedule paused",
    },
    resume_schedule: {
        title: (_, body) => `Resume the schedule ${seen(body.name)}?`,
        text: "It publishes again from its next run on.",
        action: "Resume",
        done: () => "schedule resumed",
    },
    unschedule: {
        title: (_, body) => `End the schedule ${seen(body.name)}?`,
        text: "It is deleted. What it has published stays.",
        action: "End it",
        danger: true,
        done: () => "schedule ended",
    },
};

// These actions apply to all waiting messages, whatever their state.
const WAITING = new Set(["cancel", "move", "reschedule"]);

/** Whether the page can act. */
export const canAct = () => Boolean(state.about?.writes) && !state.about?.standby;

/**
 * Count, ask, act; true if something was done. A list of bodies is one question, for dead letters
 * of several queues. If a word is given, the user has to type it.
 */
export async function perform(verb, given, { word = null } = {}) {
    const { counted, title, text, action, danger = false, done } = VERBS[verb];
    const bodies = [given].flat();
    const path = `api/act/${verb}`;
    let count = null;
    const notes = new Set();
    try {
        if (counted) {
            count = 0;
            for (const body of bodies) {
                const found = await act(path, { ...body, dry_run: true });
                if (!found) return false;
                count += found.count;
                found.notices.forEach((note) => notes.add(note));
            }
            if (!count) {
                toast(["No message to change.", ...notes].join(" "), "bad");
                return false;
            }
        }
        const queues = bodies.map((body) => body.queue).filter(Boolean);
        const question = h(
            "span",
            {},
            queues.length ? [foreign(queues.join(", ")), ": "] : null,
            typeof text === "function" ? text(bodies[0], bodies.length) : text,
            WAITING.has(verb) && bodies.some((body) => !body.ids)
                ? " This concerns all that wait: ready, scheduled and in groups."
                : null,
            [...notes].map((note) => h("p", { class: "faint" }, foreign(note))),
        );
        const name = title(count, bodies[0]);
        if (!(await confirm({ title: name, text: question, action, danger, word }))) return false;
        count = 0;
        for (const body of bodies) {
            const found = await act(path, body);
            if (!found) return false;
            count += Number(found.count);
        }
        const where = queues.length ? `${seen(queues.join(", "))}: ` : "";
        toast(where + done(count));
        return true;
    } catch (error) {
        if (!(error instanceof Failure)) throw error;
        await ask("That did not work", problem(error), { action: null });
        return false;
    }
}

/** A button for an action; hidden if the page cannot act. */
export function verbButton(text, verb, body, { kind = "", after = () => {}, ...options } = {}) {
    return h(
        "button",
        {
            type: "button",
            class: `verb ${kind}`,
            hidden: !canAct(),
            onclick: async () => {
                const given = await (typeof body === "function" ? body() : body);
                if (given && (await perform(verb, given, options))) after();
            },
        },
        text,
    );
}

const text = (properties) =>
    h("input", { type: "text", autocomplete: "off", spellcheck: "false", ...properties });

/** A choice of another queue; with `none`, it may be left out. */
const chooseQueue = (queue, { none = null, ...properties } = {}) =>
    h(
        "select",
        properties,
        none && h("option", { value: "" }, none),
        state.news.queues
            .filter((row) => row.queue !== queue && row.mode !== "archive")
            .map((row) => h("option", { value: row.queue }, seen(row.queue))),
    );

/** Ask where to move messages, and how many; null if the user cancels. */
export async function askMove(queue) {
    const select = chooseQueue(queue, { autofocus: true });
    const most = text({ inputmode: "numeric" });
    const content = h(
        "div",
        {},
        h("label", {}, "To the queue", select),
        h("label", {}, "At most (empty: all)", most),
    );
    const yes = await ask("Move messages", content, { action: "Continue" });
    return yes && select.value ? { to: select.value, n: most.value.trim() } : null;
}

/** Ask for a delay or a time; null if the user cancels. */
export async function askTime() {
    const delay = text({ list: "delays", value: "0", autofocus: true });
    const at = h("input", { type: "datetime-local" });
    const list = h(
        "datalist",
        { id: "delays" },
        ["0", "10 minutes", "1 hour", "1 day"].map((value) => h("option", { value })),
    );
    const content = h(
        "div",
        {},
        h("label", {}, "Deliver after (0: now)", delay, list),
        h("label", {}, "Or at (your local time)", at),
    );
    if (!(await ask("Reschedule messages", content, { action: "Continue" }))) return null;
    // The server does not know the time zone of the browser.
    if (at.value) return { at: new Date(at.value).toISOString() };
    return { delay: delay.value.trim() || "0" };
}

/** Ask how to replay dead letters; null if the user cancels. */
export async function askReplay(queue) {
    const to = chooseQueue(queue, { none: "their own", autofocus: true });
    const rate = text({ inputmode: "numeric" });
    const patch = text({ class: "mono", placeholder: '{"currency": "EUR"}' });
    const content = h(
        "div",
        {},
        h("label", {}, "To the queue", to),
        h("label", {}, "Per second (empty: at once)", rate),
        h("label", {}, "Change payloads: a JSON merge patch (empty: unchanged)", patch),
    );
    if (!(await ask("Replay dead letters", content, { action: "Continue" }))) return null;
    return { to: to.value, per_second: rate.value.trim(), patch: patch.value.trim() };
}
