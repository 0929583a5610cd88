// Confirmations before an action, and messages after it.

import { Failure, post, token } from "./api.js";
import { foreign, h, put } from "./dom.js";
import { state } from "./live.js";

let number = 0;

function open(title, content, buttons, { danger = false } = {}) {
    const name = `dialog-${++number}`;
    const dialog = h(
        "dialog",
        { "aria-labelledby": name, class: danger ? "danger" : null },
        h(
            "form",
            { method: "dialog" },
            h("h2", { id: name }, title),
            content,
            h("div", { class: "buttons" }, buttons),
        ),
    );
    document.body.append(dialog);
    dialog.addEventListener("close", () => dialog.remove());
    dialog.showModal();
    return dialog;
}

// Not a submit button: Enter in a field must not cancel.
const cancel = (properties) =>
    h(
        "button",
        {
            type: "button",
            class: "quiet",
            onclick: (event) => event.target.closest("dialog").close("no"),
            ...properties,
        },
        "Cancel",
    );

const answered = (dialog) =>
    new Promise((resolve) =>
        dialog.addEventListener("close", () => resolve(dialog.returnValue === "yes")),
    );

/** Ask for confirmation; if a word is given, the user has to type it. */
export function confirm({ title, text, action, danger = false, word = null }) {
    const yes = h(
        "button",
        { value: "yes", class: danger ? "danger" : "primary", disabled: word !== null },
        action,
    );
    const no = cancel({ autofocus: word === null });
    const field =
        word === null
            ? null
            : h("input", {
                  type: "text",
                  autocomplete: "off",
                  autofocus: true,
                  spellcheck: "false",
                  oninput: (event) => {
                      yes.disabled = event.target.value !== word;
                  },
              });
    const content = h(
        "div",
        {},
        h("p", {}, text),
        field &&
            h(
                "label",
                {},
                h("span", {}, "To continue, type ", foreign(word, { class: "mono" })),
                field,
            ),
    );
    return answered(open(title, content, [no, yes], { danger }));
}

/** Show a dialog and return its values; without an action it only shows a message. */
export function ask(title, content, { action }) {
    const buttons = action
        ? [cancel({}), h("button", { value: "yes", class: "primary" }, action)]
        : [h("button", { value: "no", class: "primary", autofocus: true }, "Close")];
    return answered(open(title, content, buttons));
}

/** Ask for the token until it is valid; false if the user cancels. */
export async function askToken(why) {
    const field = h("input", {
        type: "password",
        autocomplete: "off",
        autofocus: true,
        required: true,
    });
    const problem = h("p", { class: "problem", role: "alert" });
    const no = cancel({});
    const yes = h("button", { value: "yes", class: "primary" }, "Continue");
    const content = h(
        "div",
        {},
        h("p", {}, why, " The command ", h("code", {}, "pgq dashboard"), " has printed it."),
        h("label", {}, "Token", field),
        problem,
    );
    const dialog = open("Token required", content, [no, yes]);
    dialog.querySelector("form").addEventListener("submit", async (event) => {
        event.preventDefault();
        try {
            await post("api/session", {}, { secret: field.value });
            token.set(field.value);
            dialog.close("yes");
        } catch (error) {
            if (!(error instanceof Failure)) throw error;
            put(problem, error.message);
            field.select();
        }
    });
    return answered(dialog);
}

/** Act with the token; ask for it if there is none, or if it is no longer valid. */
export async function act(path, value) {
    for (;;) {
        // Mounted in an application, the page has no token: the application's login decides.
        const needed = state.about?.token !== false;
        if (needed && !token.get() && !(await askToken("Actions need the token of this page.")))
            return null;
        try {
            return await post(path, value, { secret: needed ? token.get() : null });
        } catch (error) {
            if (error.status !== 401 || !needed) throw error;
            token.forget();
        }
    }
}

export function toast(text, kind = "good") {
    const element = h("div", { class: `toast ${kind}` }, text);
    document.getElementById("toasts").append(element);
    setTimeout(() => element.remove(), kind === "bad" ? 12000 : 6000);
}

/** An error of the database, with its hint. */
export function problem(error) {
    const answer = error.answer ?? { message: error.message };
    return h(
        "div",
        { class: "problem box", role: "alert" },
        h("strong", {}, foreign(answer.message)),
        answer.detail && h("p", {}, foreign(answer.detail)),
        answer.context && h("p", { class: "mono" }, foreign(answer.context)),
        answer.hint && h("p", { class: "hint" }, foreign(answer.hint)),
        answer.sqlstate && h("p", { class: "faint" }, `SQLSTATE ${answer.sqlstate}`),
    );
}

export function keys() {
    const rows = [
        ["1 … 6", "go to a view"],
        ["/", "to the field for searching"],
        ["← →", "in a chart: the values of a minute"],
        ["Tab, Enter, Space", "move, open, choose"],
        ["Esc", "close a question without acting"],
        ["?", "this help"],
    ];
    open(
        "Keys",
        h(
            "dl",
            { class: "keys" },
            rows.map(([key, what]) => [h("dt", {}, h("kbd", {}, key)), h("dd", {}, what)]),
        ),
        [h("button", { value: "no", class: "primary", autofocus: true }, "Close")],
    );
}
