// Requests to the server. The token is kept for this tab only, and sent only with actions.

const KEY = "pgq-token";

export class Failure extends Error {
    constructor(status, answer) {
        super(answer.message);
        this.status = status;
        this.answer = answer;
    }
}

export const token = {
    get: () => sessionStorage.getItem(KEY),
    set: (value) => sessionStorage.setItem(KEY, value),
    forget: () => sessionStorage.removeItem(KEY),
};

/** Take the token from the fragment of the address, and remove it there to keep it hidden. */
export function takeToken() {
    const found = /^#token=([\w.~+/=-]+)$/.exec(location.hash);
    if (!found) return false;
    token.set(found[1]);
    history.replaceState(null, "", location.pathname + "#/");
    return true;
}

async function ask(path, options) {
    try {
        const answer = await fetch(path, { cache: "no-store", redirect: "error", ...options });
        if (answer.ok) return await answer.json();
        const value = await answer.json().catch(() => ({}));
        throw new Failure(answer.status, value.error ?? { message: `Answer ${answer.status}` });
    } catch (error) {
        if (error instanceof Failure || error.name === "AbortError") throw error;
        throw new Failure(0, {
            message: "The server of this page does not answer.",
            hint: "Is pgq dashboard still running?",
        });
    }
}

export function get(path, parameters = {}, signal = undefined) {
    const given = Object.entries(parameters).filter(
        ([, value]) => value !== null && value !== undefined,
    );
    return ask(given.length ? `${path}?${new URLSearchParams(given)}` : path, { signal });
}

export function post(path, value, { signal, secret } = {}) {
    const headers = { "Content-Type": "application/json" };
    if (secret) headers.Authorization = `Bearer ${secret}`;
    return ask(path, { method: "POST", headers, body: JSON.stringify(value), signal });
}
