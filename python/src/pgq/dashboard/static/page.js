// The frame of the page: the current view, the state of the connection, keys and colours.

import { get, Failure, post, takeToken, token } from "./api.js";
import { askToken, keys, toast } from "./dialog.js";
import { foreign, h, put } from "./dom.js";
import { count, span } from "./format.js";
import { connect, listen, now, state } from "./live.js";
import * as filter from "./filter.js";
import * as consumers from "./consumers.js";
import * as letters from "./letters.js";
import * as message from "./message.js";
import * as messages from "./messages.js";
import * as queue from "./queue.js";
import * as queues from "./queues.js";
import * as schedules from "./schedules.js";

const ROUTES = [
    [/^$/, "queues", queues, () => ({})],
    [/^queue\/(.+)$/, "queues", queue, (found) => ({ name: decodeURIComponent(found[1]) })],
    [/^messages$/, "messages", messages, () => ({})],
    [/^consumers$/, "consumers", consumers, () => ({})],
    [/^letters$/, "letters", letters, () => ({})],
    [/^filter$/, "filter", filter, () => ({})],
    [/^schedules$/, "schedules", schedules, () => ({})],
    [/^message\/(\d+)$/, "messages", message, (found) => ({ id: found[1] })],
];
const KEYS = {
    1: "#/",
    2: "#/messages",
    3: "#/consumers",
    4: "#/letters",
    5: "#/schedules",
    6: "#/filter",
};

const main = document.getElementById("main");
const byId = (id) => document.getElementById(id);
let shown = null;

function route() {
    const [path, query] = location.hash.replace(/^#\/?/, "").split("?");
    for (const [pattern, name, module, parameters] of ROUTES) {
        const found = pattern.exec(path);
        if (!found) continue;
        try {
            return {
                name,
                view: module.view({ ...parameters(found), query: new URLSearchParams(query) }),
            };
        } catch (error) {
            if (!(error instanceof URIError)) throw error;
        }
    }
    return { name: "queues", view: queues.view({}) };
}

function show({ focus = true } = {}) {
    shown?.view.close?.();
    shown = route();
    main.replaceChildren(shown.view.element);
    for (const link of document.querySelectorAll("#views a")) {
        if (link.dataset.view === shown.name) link.setAttribute("aria-current", "page");
        else link.removeAttribute("aria-current");
    }
    refresh();
    window.scrollTo(0, 0);
    if (focus) main.querySelector("h1")?.focus({ preventScroll: true });
}

/** Whether the data is current, and if not, why. */
function showPulse() {
    const { news, connected } = state;
    const pulse = byId("pulse");
    const outage = byId("outage");
    const old = news ? now() - news.at : null;
    const late = news && old > Math.max(15, 5 * news.interval);
    const kind = !connected ? "off" : news?.outage || late ? "bad" : "live";
    pulse.className = `pulse ${kind}`;
    put(
        pulse.lastElementChild,
        { off: news ? "not connected" : "connecting", bad: "stale", live: "live" }[kind],
    );
    document.body.classList.toggle("stale", kind !== "live" && Boolean(news));
    let text = null;
    if (!connected && news) text = "The server of this page does not answer. Trying again.";
    else if (news?.outage) text = `The database does not answer: ${news.outage.message}`;
    else if (late) text = "The database takes long to answer.";
    outage.hidden = text === null;
    if (text === null) return;
    const parts = [
        foreign(text, {}).textContent,
        news?.outage?.hint,
        news?.at && `The data shown is ${span(old)} old.`,
    ].filter(Boolean);
    if (outage.shown !== parts[0]) {
        outage.shown = parts[0];
        outage.replaceChildren(h("strong", {}, parts[0]), " ", h("span", {}));
    }
    put(outage.lastElementChild, parts.slice(1).join(" "));
}

function refresh() {
    showPulse();
    const { about, news } = state;
    if (about) {
        put(
            byId("database"),
            [about.database, about.role]
                .filter(Boolean)
                .map((text) => foreign(text).textContent)
                .join(" · "),
        );
        byId("database").title = about.server
            ? `PostgreSQL ${about.server}, pgq ${about.version}`
            : "";
        const mode = byId("mode");
        mode.hidden = false;
        put(mode, about.standby ? "standby" : about.writes ? "read/write" : "read-only");
        mode.className = `chip ${about.writes && !about.standby ? "warn" : ""}`;
    }
    const dead = news?.queues.reduce((sum, row) => sum + row.dead, 0) ?? 0;
    byId("dead").hidden = !dead;
    put(byId("dead"), count(dead));
    const bad = news?.findings.filter(({ level }) => level === "bad").length ?? 0;
    document.title = `${bad ? `(${bad}) ` : ""}${shown.view.title} – pgq`;
    shown.view.update?.(state);
}

// Light and dark follow the system until the user chooses.
const theme = {
    apply: () => {
        const chosen = localStorage.getItem("pgq-theme");
        if (chosen) document.documentElement.dataset.theme = chosen;
    },
    turn: () => {
        const system = matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
        const dark = (localStorage.getItem("pgq-theme") ?? system) === "dark";
        localStorage.setItem("pgq-theme", dark ? "light" : "dark");
        theme.apply();
    },
};

document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.altKey || event.metaKey || document.querySelector("dialog[open]"))
        return;
    if (event.target.closest?.("input, textarea, select")) {
        if (event.key === "Escape") event.target.blur();
        return;
    }
    if (KEYS[event.key]) location.hash = KEYS[event.key];
    else if (event.key === "/") byId("search")?.focus();
    else if (event.key === "?") keys();
    else return;
    event.preventDefault();
});
byId("help").addEventListener("click", keys);
byId("theme").addEventListener("click", theme.turn);
document.querySelector(".skip").addEventListener("click", (event) => {
    event.preventDefault();
    main.focus();
});
window.addEventListener("hashchange", () => {
    takeToken();
    show();
});
window.addEventListener("unhandledrejection", (event) =>
    toast(String(event.reason?.message ?? event.reason), "bad"),
);

async function enter() {
    for (;;) {
        try {
            state.about = await get("api/about");
            if (state.about.private && !state.about.reader) {
                try {
                    await post("api/session", {}, { secret: token.get() ?? "" });
                } catch (error) {
                    if (error.status !== 401) throw error;
                    token.forget();
                    if (!(await askToken("This page needs a token."))) continue;
                }
                state.about = await get("api/about");
            }
            return;
        } catch (error) {
            if (!(error instanceof Failure)) throw error;
            toast(error.message, "bad");
            await new Promise((resolve) => setTimeout(resolve, 3000));
        }
    }
}

theme.apply();
takeToken();
await enter();
show({ focus: false });
listen(refresh);
connect();
setInterval(() => {
    showPulse();
    shown.view.tick?.();
}, 1000);
