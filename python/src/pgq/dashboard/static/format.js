// Numbers, durations and times in a short form.

const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const short = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });

/** A count; estimates are marked. Counts up to this many rows are exact. */
const EXACT = 500;

export function count(number, exact = true) {
    if (!exact && number > EXACT) return "~" + short.format(number);
    return number < 1e6 ? whole.format(number) : short.format(number);
}

export function rate(number) {
    if (number === null || number === undefined) return "–";
    if (!number) return "0";
    if (number < 0.1) return "<0.1";
    return number < 10 ? number.toFixed(1) : count(number);
}

const UNITS = [
    [86400, "d"],
    [3600, "h"],
    [60, "min"],
];

export function span(seconds) {
    if (seconds === null || seconds === undefined) return "–";
    const size = Math.abs(seconds);
    for (const [length, unit] of UNITS) {
        if (size >= length * 1.5) {
            const number = seconds / length;
            return `${Math.abs(number) < 10 ? number.toFixed(1).replace(/\.0$/, "") : Math.round(number)} ${unit}`;
        }
    }
    if (size >= 10 || size === 0) return `${Math.round(seconds)} s`;
    return size >= 1
        ? `${seconds.toFixed(1).replace(/\.0$/, "")} s`
        : `${Math.round(seconds * 1000)} ms`;
}

const today = new Intl.DateTimeFormat(undefined, { timeStyle: "medium", hourCycle: "h23" });
const other = new Intl.DateTimeFormat(undefined, {
    dateStyle: "medium",
    timeStyle: "medium",
    hourCycle: "h23",
});

export const ago = (seconds) => (seconds < 1 ? "just now" : `${span(seconds)} ago`);

export function moment(epoch) {
    const date = new Date(epoch * 1000);
    const near = date.toDateString() === new Date().toDateString();
    return (near ? today : other).format(date);
}

export const precise = (epoch) => new Date(epoch * 1000).toISOString();

export function bytes(number) {
    if (number < 1024) return `${number} B`;
    return number < 1 << 20
        ? `${(number / 1024).toFixed(1)} kB`
        : `${(number / (1 << 20)).toFixed(1)} MB`;
}

export const plural = (number, one, many = one + "s") =>
    `${count(number)} ${number === 1 ? one : many}`;
