// A sparkline of the last hour, without axes.

import { svg } from "./dom.js";

const WINDOW = 3600;
const SHORTEST = 10;
const WIDTH = 120;

/** Points [time, value] as the coordinates of a line; null is a gap. */
function trace(points, x, top, height) {
    const y = (value) => (height - 1.5 - ((height - 3) * value) / top).toFixed(1);
    let path = "";
    let pen = "M";
    for (const [at, value] of points) {
        if (value === null || value === undefined) {
            pen = "M";
            continue;
        }
        path += `${pen}${x(at)} ${y(value)}`;
        pen = "L";
    }
    return path;
}

export function spark({ height = 26, lines = ["a"], area = true, label }) {
    const paths = lines.map((name) => svg("path", { class: `line ${name}` }));
    const fill = area ? svg("path", { class: "area" }) : null;
    const element = svg(
        "svg",
        {
            class: "spark",
            viewBox: `0 0 ${WIDTH} ${height}`,
            preserveAspectRatio: "none",
            role: "img",
        },
        fill,
        paths,
    );
    return {
        element,
        /** Each series is a list of [time, value]. */
        update(series, end, words) {
            // Some values have no recorded past: their line begins with the first sample.
            const known = series[0].find(([at, value]) => at >= end - WINDOW && value !== null);
            const from = known?.[0] ?? end - WINDOW;
            const recent = series.map((points) => points.filter(([at]) => at >= from));
            const values = recent.flat().map(([, value]) => value ?? 0);
            const top = Math.max(...values, 1e-9);
            // An hour, or less if there are fewer points.
            const length = Math.min(Math.max(end - (recent[0][0]?.[0] ?? end), SHORTEST), WINDOW);
            const x = (at) => (WIDTH * (1 - (end - at) / length)).toFixed(1);
            recent.forEach((points, index) => {
                paths[index].setAttribute("d", trace(points, x, top, height));
            });
            const first = recent[0].find(([, value]) => value !== null);
            const last = recent[0].findLast(([, value]) => value !== null);
            if (fill) {
                const line = first
                    ? trace(
                          recent[0].map(([at, value]) => [at, value ?? 0]),
                          x,
                          top,
                          height,
                      )
                    : "";
                fill.setAttribute(
                    "d",
                    line &&
                        `${line}L${x(recent[0].at(-1)[0])} ${height}L${x(recent[0][0][0])} ${height}Z`,
                );
            }
            const told = first
                ? `${label}, last hour: from ${words(first[1])} to ${words(last[1])}`
                : label;
            element.setAttribute("aria-label", told);
        },
    };
}
