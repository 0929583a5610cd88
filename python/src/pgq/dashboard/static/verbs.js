// The actions of operators: count, ask, then act. Each action calls a function of pgq.

import { Failure } from "./api.js";
import { act, ask, confirm, problem, toast } from "./dialog.js";
import { foreign, h, seen } from "./dom.js";
import { plural } from "./format.js";
import { state } from "./live.js";

const messages = (n) => plural(n, "message");
const letters = (n) => plural(n, "dead letter");

// title(n, body), text, the button, the final message. Actions with `counted` have a dry run.
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
        title: (n, body) =>
            body.delay === "0"
                ? `Deliver ${messages(n)} now?`
                : `Deliver ${messages(n)} after ${seen(body.delay)}?`,
        text: "A message of an ordering group still waits for its turn.",
        action: "Reschedule",
        done: (n) => `${messages(n)} rescheduled`,
    },
    replay: {
        counted: letters,
        title: (n) => `Replay ${letters(n)}?`,
        text: "They return to their queue, and their attempts count from zero. At most 10,000 at a time.",
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
            text,
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

/** Ask for another queue; null if the user cancels. */
export async function askQueue(queue) {
    const select = h(
        "select",
        { autofocus: true },
        state.news.queues
            .filter((row) => row.queue !== queue && row.mode !== "archive")
            .map((row) => h("option", { value: row.queue }, seen(row.queue))),
    );
    const content = h("label", {}, "To the queue", select);
    const yes = await ask("Move messages", content, { action: "Continue" });
    return yes && select.value ? select.value : null;
}

/** Ask for a delay; null if the user cancels. */
export async function askDelay() {
    const field = h("input", {
        type: "text",
        list: "delays",
        value: "0",
        autofocus: true,
        autocomplete: "off",
    });
    const list = h(
        "datalist",
        { id: "delays" },
        ["0", "10 minutes", "1 hour", "1 day"].map((value) => h("option", { value })),
    );
    const content = h("label", {}, "Deliver after (0: now)", field, list);
    const yes = await ask("Reschedule messages", content, { action: "Continue" });
    return yes ? field.value.trim() || "0" : null;
}
