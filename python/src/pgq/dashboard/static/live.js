// The events of the server. All views show this state, and none queries it again.

import { Failure, get } from "./api.js";

export const state = {
    about: null,
    news: null, // the newest sample
    past: new Map(), // queue -> points [at, ready, oldest, published, acked, failed, dead]
    seenAt: 0, // when the sample arrived, by the browser's clock
    connected: false,
};

const listeners = new Set();
const MOST_POINTS = 210;
const LEAVE = 10_000;
let source = null;
let retry = null;

export function listen(listener) {
    listeners.add(listener);
    return () => listeners.delete(listener);
}

const tell = () => listeners.forEach((listener) => listener(state));

/** The time of the database, whose clock may differ from the browser's. */
export function now() {
    if (!state.news?.at) return Date.now() / 1000;
    return state.news.at + (performance.now() - state.seenAt) / 1000;
}

function learn(news) {
    // While the database does not answer, the last sample gets older.
    if (news.at !== state.news?.at) {
        state.seenAt = performance.now();
        for (const row of news.queues) {
            const line = state.past.get(row.queue) ?? [];
            if (!line.length || line.at(-1)[0] < news.at) {
                line.push([
                    news.at,
                    row.ready,
                    row.oldest,
                    row.published,
                    row.acked,
                    row.failed,
                    row.dead,
                ]);
            }
            state.past.set(row.queue, line.slice(-MOST_POINTS));
        }
    }
    state.news = news;
    state.connected = true;
    tell();
}

export function connect() {
    clearTimeout(retry);
    source?.close();
    source = new EventSource("api/events");
    source.addEventListener("past", (event) => {
        state.past = new Map(Object.entries(JSON.parse(event.data)));
        // The server may have been restarted with other rights.
        get("api/about").then(
            (about) => {
                state.about = about;
                tell();
            },
            () => {},
        );
    });
    source.addEventListener("message", (event) => learn(JSON.parse(event.data)));
    source.addEventListener("error", () => {
        state.connected = false;
        tell();
        // A browser does not reconnect after an HTTP error, so reconnect here.
        if (source.readyState === EventSource.CLOSED) {
            retry = setTimeout(async () => {
                try {
                    state.about = await get("api/about");
                } catch (error) {
                    if (!(error instanceof Failure)) throw error;
                }
                tell();
                // A restarted server does not know the session: send the token again, or ask for it.
                if (state.about?.private && !state.about.reader) return location.reload();
                connect();
            }, 1000);
        }
    });
}

// A hidden page closes its stream: a browser has only a few connections for all pages of a
// server.
let leaving = null;
document.addEventListener("visibilitychange", () => {
    clearTimeout(leaving);
    if (document.hidden) {
        leaving = setTimeout(() => {
            clearTimeout(retry);
            source?.close();
            source = null;
        }, LEAVE);
    } else if (source?.readyState !== EventSource.OPEN) {
        connect();
    }
});
