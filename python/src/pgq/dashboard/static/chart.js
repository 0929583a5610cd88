// A chart with a time axis. The pointer or the arrow keys show the values of a minute.

import { h, put, svg } from "./dom.js";

const HEIGHT = 100;
const WIDTH = 600;
const STEPS = { 1: 15, 3: 30, 12: 120 }; // hours -> minutes between the marks of the axis
const clock = new Intl.DateTimeFormat(undefined, { timeStyle: "short", hourCycle: "h23" });
const time = (at) => clock.format(new Date(at * 1000));

function trace(points, x, y) {
    let path = "";
    for (const [at, value] of points) {
        if (value !== null && value !== undefined)
            path += `${path ? "L" : "M"}${x(at).toFixed(1)} ${y(value).toFixed(1)}`;
    }
    return path;
}

/** Lines are [{name, kind}]; update() gets a list of points [at, value] for each. */
export function chart({ label, lines, format }) {
    const value = h("b", {});
    const paths = lines.map(({ kind }) => svg("path", { class: `line ${kind}` }));
    const picture = svg(
        "svg",
        { class: "spark", viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none" },
        paths,
    );
    const top = h("span", { class: "top" });
    const cursor = h("i", { class: "cursor", hidden: true });
    const tip = h("div", { class: "tip", role: "status", hidden: true });
    const plot = h("div", { class: "plot", tabindex: "0", role: "img" }, picture, top, cursor, tip);
    const axis = h("div", { class: "axis", "aria-hidden": "true" });
    const element = h(
        "figure",
        { class: "chart" },
        h("figcaption", {}, h("span", {}, label), value),
        plot,
        axis,
        lines.length > 1 &&
            h(
                "p",
                { class: "legend" },
                lines.map(({ name, kind }) => h("span", { class: kind }, name)),
            ),
    );
    let shown = { series: [], from: 0, to: 1, hours: null };
    let at = null;

    function show() {
        const { series, from, to } = shown;
        cursor.hidden = tip.hidden = at === null;
        if (at === null) return;
        const part = (at - from) / (to - from);
        cursor.style.insetInlineStart = `${(100 * part).toFixed(2)}%`;
        tip.classList.toggle("left", part > 0.5);
        tip.style.insetInlineStart = `${(100 * part).toFixed(2)}%`;
        const near = series.map((points) => {
            let best = null;
            for (const point of points) {
                if (point[1] === null || point[1] === undefined) continue;
                if (best === null || Math.abs(point[0] - at) < Math.abs(best[0] - at)) best = point;
            }
            return best;
        });
        put(
            tip,
            [
                time(at),
                ...lines.map(({ name }, index) => {
                    const found = near[index];
                    const there = found && Math.abs(found[0] - at) < Math.max(180, (to - from) / 60);
                    return `${name} ${there ? format(found[1]) : "–"}`;
                }),
            ].join("\n"),
        );
    }
    const point = (event) => {
        const box = plot.getBoundingClientRect();
        const part = Math.min(Math.max((event.clientX - box.left) / box.width, 0), 1);
        at = shown.from + part * (shown.to - shown.from);
        show();
    };
    const leave = () => {
        at = null;
        show();
    };
    plot.addEventListener("pointermove", point);
    plot.addEventListener("pointerdown", point);
    plot.addEventListener("pointerleave", leave);
    plot.addEventListener("blur", leave);
    plot.addEventListener("keydown", (event) => {
        const step = { ArrowLeft: -60, ArrowRight: 60 }[event.key];
        if (!step) return;
        event.preventDefault();
        at = Math.min(Math.max((at ?? shown.to) + step, shown.from), shown.to);
        show();
    });

    return {
        element,
        update(series, to, hours, text) {
            const from = to - hours * 3600;
            series = series.map((points) => points.filter(([moment]) => moment >= from));
            const values = series.flat().map(([, number]) => number ?? 0);
            const most = Math.max(...values, 1e-9);
            const x = (moment) => (WIDTH * (moment - from)) / (to - from);
            const y = (number) => HEIGHT - 1 - ((HEIGHT - 4) * number) / most;
            series.forEach((points, index) => paths[index].setAttribute("d", trace(points, x, y)));
            put(top, most > 1e-9 ? format(most) : "");
            put(value, text);
            plot.setAttribute("aria-label", `${label}, last ${hours} h: now ${text}`);
            const step = STEPS[hours] * 60;
            const first = Math.ceil(from / step) * step;
            if (axis.shown !== `${first} ${hours}`) {
                axis.shown = `${first} ${hours}`;
                axis.replaceChildren();
                for (let mark = first; mark < to; mark += step) axis.append(h("span", {}, time(mark)));
            }
            [...axis.children].forEach((mark, index) => {
                const part = (first + index * step - from) / (to - from);
                mark.style.insetInlineStart = `${(100 * part).toFixed(2)}%`;
                mark.hidden = part < 0.03 || part > 0.97;
            });
            shown = { series, from, to, hours };
            show();
        },
    };
}
