function build(panel, { n, width, widest, position }) {
  const base = slider("base", { min: 1, max: 5, step: 0.1, value: 4, show: (x) => number(10 ** x, 0) }, draw);
  const size = slider("d_model", { min: 2, max: widest, step: 2, value: width }, draw);
  const chosen = slider("position", { min: 0, max: n - 1, step: 1, value: position }, draw);
  const maps = html("div", {});
  const says = sentence();
  panel.append(controls(base.node, size.node, chosen.node), maps, says);

  const [across, left, right, top] = [740, 62, 14, 26];
  const step = (across - left - right) / n;
  const middle = (p) => left + step * (p + 0.5);

  /** Row p is the vector of position p: sine and cosine of one frequency side by side. */
  function encoding() {
    const [b, d] = [10 ** base.value, size.value];
    return Array.from({ length: n }, (_, p) => Array.from({ length: d }, (_, column) => {
      const angle = p * b ** ((-2 * Math.floor(column / 2)) / d);
      return column % 2 ? Math.cos(angle) : Math.sin(angle);
    }));
  }

  /** A picture with a pixel for each number: blue above 0, vermilion below, the page's own colour at 0. */
  function pixels(table) {
    const canvas = html("canvas", { width: n, height: table[0].length });
    const context = canvas.getContext("2d");
    const image = context.createImageData(canvas.width, canvas.height);
    table.forEach((vector, p) => vector.forEach((value, column) => {
      const colour = value > 0 ? [0, 114, 178] : [213, 94, 0];
      image.data.set([...colour, Math.round(255 * Math.abs(value))], 4 * (column * n + p));
    }));
    context.putImageData(image, 0, 0);
    return canvas.toDataURL();
  }

  function axis(y, high) {
    const ticks = Array.from({ length: Math.ceil(n / 8) }, (_, i) => 8 * i);
    return [
      svg("line", { x1: middle(chosen.value), x2: middle(chosen.value), y1: top, y2: y, stroke: "currentColor",
        "stroke-dasharray": "4 3" }),
      ...ticks.map((p) => text(middle(p), y + 12, String(p), { "text-anchor": "middle", class: "cf-small" })),
      text(across - right, high - 8, "position", { "text-anchor": "end", class: "cf-small cf-quiet" }),
    ];
  }

  function table(values) {
    const [tall, columns] = [190, values[0].length];
    return picture(across, top + tall + 34, "the table of position vectors",
      text(left, 10, "position vectors: one column per position (blue above 0, orange below)", { class: "cf-title" }),
      svg("image", { x: left, y: top, width: step * n, height: tall, preserveAspectRatio: "none", href: pixels(values),
        style: "image-rendering: pixelated" }),
      svg("rect", { x: left, y: top, width: step * n, height: tall, fill: "none", stroke: "var(--cf-line)" }),
      text(left - 6, top + 8, "0", { "text-anchor": "end", class: "cf-small" }),
      text(left - 6, top + tall / 2, "feature", { "text-anchor": "end", class: "cf-small cf-quiet" }),
      text(left - 6, top + tall - 8, String(columns - 1), { "text-anchor": "end", class: "cf-small" }),
      ...axis(top + tall, top + tall + 34));
  }

  function products(values) {
    const tall = 130;
    const half = size.value / 2;
    const y = (value) => top + tall * (0.5 - value / half / 2);
    const points = values.map((value, p) => `${middle(p)},${y(value)}`);
    return picture(across, top + tall + 34, `dot products with position ${chosen.value}`,
      text(left, 10, `dot product with position ${chosen.value}`, { class: "cf-title" }),
      ...[half, 0, -half].flatMap((value) => [
        svg("line", { x1: left, x2: across - right, y1: y(value), y2: y(value), stroke: "var(--cf-faint)" }),
        text(left - 6, y(value), number(value, 0), { "text-anchor": "end", class: "cf-small" })]),
      svg("polyline", { points: points.join(" "), fill: "none", stroke: "var(--cf-blue)", "stroke-width": 2 }),
      ...values.map((value, p) => svg("circle", { cx: middle(p), cy: y(value), r: 2.5, fill: "var(--cf-blue)" },
        svg("title", {}, `position ${p}: ${number(value)}`))),
      ...axis(top + tall, top + tall + 34));
  }

  function draw() {
    const values = encoding();
    const mine = values[chosen.value];
    const similar = values.map((vector) => dot(vector, mine));
    maps.replaceChildren(table(values), products(similar));
    const next = Math.min(n - 1, chosen.value + 1);
    const slowest = (2 * Math.PI) / (10 ** base.value) ** (-(size.value - 2) / size.value);
    says.replaceChildren(
      `PE(${chosen.value}) = (`, html("b", { class: "cf-vector" },
        mine.slice(0, 4).map((value) => number(value)).join(", ")),
      `${size.value > 4 ? ", …" : ""}). Its product with itself is `,
        html("b", { class: "cf-itself" }, number(similar[chosen.value], 2)),
      ` = d_model / 2, with position ${next} it is `, html("b", { class: "cf-next" }, number(similar[next], 2)),
      `. The slowest pair needs ${number(slowest, 0)} steps for a turn.`);
  }
  draw();
}
