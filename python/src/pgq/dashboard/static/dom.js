// Elements are made of texts and other elements. Content of messages never becomes markup.

const SVG = "http://www.w3.org/2000/svg";

function build(element, properties, children) {
    for (const [name, value] of Object.entries(properties ?? {})) {
        if (value === null || value === undefined || value === false) continue;
        if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
        else element.setAttribute(name, value === true ? "" : String(value));
    }
    element.append(
        ...children
            .flat(Infinity)
            .filter((child) => child !== null && child !== undefined && child !== false),
    );
    return element;
}

export const h = (tag, properties, ...children) =>
    build(document.createElement(tag), properties, children);

export const svg = (tag, properties, ...children) =>
    build(document.createElementNS(SVG, tag), properties, children);

/** Set a text only if it changes, so that selections and screen readers are not disturbed. */
export function put(element, text) {
    if (element.textContent !== text) element.textContent = text;
    return element;
}

export function toggle(element, name, on) {
    element.classList.toggle(name, Boolean(on));
}

// Invisible characters, and characters that change the direction of the following text.
const UNSEEN =
    /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]/g;

/** A text in which invisible and direction-changing characters are written as escapes. */
export function seen(text) {
    return String(text).replace(
        UNSEEN,
        (char) => "\\u" + char.charCodeAt(0).toString(16).padStart(4, "0"),
    );
}

/** A text from outside, such as the content of a message. */
export const foreign = (text, properties) => h("bdi", properties, seen(text ?? ""));

/** Replace the children of an element by a list; existing elements are kept. */
export function keep(parent, list, key, make) {
    const known = (parent.kept ??= new Map());
    const used = new Set();
    let place = parent.firstElementChild;
    for (const item of list) {
        const name = key(item);
        used.add(name);
        let part = known.get(name);
        if (!part) known.set(name, (part = make(item)));
        part.update(item);
        if (part.element === place) place = place.nextElementSibling;
        else parent.insertBefore(part.element, place);
    }
    for (const [name, part] of known) {
        if (!used.has(name)) {
            part.element.remove();
            known.delete(name);
        }
    }
}
