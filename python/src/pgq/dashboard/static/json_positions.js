// Positions of values in the text of a JSON document, for errors that name values by path.

const SPACE = /[ \t\n\r]*/y;
const NUMBER = /-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?/y;
const STRING = /"(?:[^"\\\u0000-\u001f]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*"/y;
const WORD = /true|false|null/y;
const DEEPEST = 200;

class Wrong extends Error {
    constructor(at, message) {
        super(message);
        this.at = at;
    }
}

/** Return {positions: path -> [from, to]} or, if the text is not JSON, {at, message}. */
export function positions(text) {
    const found = new Map();
    let at = 0;

    const match = (pattern) => {
        pattern.lastIndex = at;
        const hit = pattern.exec(text);
        if (hit) at = pattern.lastIndex;
        return hit?.[0];
    };
    const space = () => match(SPACE);
    const fail = (message) => {
        throw new Wrong(at, at >= text.length ? `${message}, but the document ends` : message);
    };
    const expect = (char, message) => {
        space();
        if (text[at] !== char) fail(message);
        at += 1;
    };

    function value(path, depth) {
        space();
        const from = at;
        if (depth > DEEPEST) fail("too deeply nested");
        if (text[at] === "{") object(path, depth);
        else if (text[at] === "[") list(path, depth);
        else if (text[at] === '"') {
            if (!match(STRING))
                fail("a string that does not end, or with a character that needs \\");
        } else if (!match(NUMBER) && !match(WORD)) fail("a value is expected here");
        found.set(path, [from, at]);
    }

    function object(path, depth) {
        at += 1;
        space();
        if (text[at] === "}") return void (at += 1);
        for (;;) {
            space();
            const from = at;
            const raw = match(STRING);
            if (raw === undefined) fail('a key in " is expected here');
            const to = at;
            expect(":", "a : is expected after the key");
            // The database writes the first 64 characters of a key.
            const inner = `${path}.${[...JSON.parse(raw)].slice(0, 64).join("")}`;
            value(inner, depth + 1);
            found.set(inner, [from, Math.max(to, found.get(inner)[1])]);
            space();
            if (text[at] !== ",") break;
            at += 1;
        }
        expect("}", "a , or } is expected here");
    }

    function list(path, depth) {
        at += 1;
        space();
        if (text[at] === "]") return void (at += 1);
        for (let index = 0; ; index += 1) {
            value(`${path}[${index}]`, depth + 1);
            space();
            if (text[at] !== ",") break;
            at += 1;
        }
        expect("]", "a , or ] is expected here");
    }

    try {
        value("$", 0);
        space();
        if (at < text.length) fail("there is something after the document");
        return { positions: found };
    } catch (error) {
        if (!(error instanceof Wrong)) throw error;
        return { at: error.at, message: error.message };
    }
}

/** Return [from, to] of the value that DETAIL names, or of the nearest enclosing value. */
export function locate(text, detail) {
    const path = /^At (.*)\.$/s.exec(detail ?? "")?.[1];
    const { positions: found } = positions(text);
    if (path === undefined || !found) return null;
    let best = null;
    for (const [name, range] of found) {
        const inside = path === name || (path.startsWith(name) && ".[".includes(path[name.length]));
        if (inside && (best === null || name.length > best[0].length)) best = [name, range];
    }
    return best?.[1] ?? null;
}

export function lineAndColumn(text, at) {
    const before = text.slice(0, at).split("\n");
    return { line: before.length, column: before.at(-1).length + 1 };
}
