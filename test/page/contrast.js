(() => {
    const canvas = new OffscreenCanvas(1, 1).getContext("2d", { willReadFrequently: true });
    const rgba = (color) => {
        canvas.clearRect(0, 0, 1, 1);
        canvas.fillStyle = color;
        canvas.fillRect(0, 0, 1, 1);
        const [r, g, b, a] = canvas.getImageData(0, 0, 1, 1).data;
        return [r, g, b, a / 255];
    };
    const over = (top, below) =>
        [0, 1, 2].map((i) => top[i] * top[3] + below[i] * (1 - top[3])).concat(1);
    const behind = (element) => {
        const layers = [];
        for (let e = element; e; e = e.parentElement) {
            const color = rgba(getComputedStyle(e).backgroundColor);
            layers.push(color);
            if (color[3] === 1) break;
        }
        return layers.reverse().reduce((below, top) => over(top, below));
    };
    const light = ([r, g, b]) => {
        const [x, y, z] = [r, g, b].map((v) =>
            v / 255 <= 0.04045 ? v / 255 / 12.92 : ((v / 255 + 0.055) / 1.055) ** 2.4,
        );
        return 0.2126 * x + 0.7152 * y + 0.0722 * z;
    };
    const found = [];
    const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    while (walker.nextNode()) {
        const element = walker.currentNode.parentElement;
        if (!walker.currentNode.data.trim() || !element.checkVisibility({ opacityProperty: true }))
            continue;
        // What cannot be used may be pale; marks are seen through the text above them.
        if (element.closest(":disabled, .skip, .marks, option, [aria-hidden]")) continue;
        const ground = behind(element);
        const text = over(rgba(getComputedStyle(element).color), ground);
        const [a, b] = [light(text), light(ground)].sort((x, y) => y - x);
        const ratio = (a + 0.05) / (b + 0.05);
        if (ratio < 4.5)
            found.push(
                `${ratio.toFixed(2)} ${element.tagName}.${element.className}: ${walker.currentNode.data.slice(0, 40)}`,
            );
    }
    return found;
})();
