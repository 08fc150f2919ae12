function build(panel, { names, keys, values, query, scaled, reach, valuesAreKeys }) {
  const side = 340;
  const place = ([x, y]) => [side / 2 + (x / reach) * (side / 2), side / 2 - (y / reach) * (side / 2)];
  const inside = (value) => Math.max(-reach, Math.min(reach, Math.round(value * 20) / 20));
  const divisor = scaled ? Math.SQRT2 : 1;
  const farthest = (reach * Math.max(...keys.map(([x, y]) => Math.abs(x) + Math.abs(y)))) / divisor; // of all scores
  let q = query.slice();

  const drawing = svg("g", {});
  const handle = svg("circle", { r: 9, fill: "var(--cf-vermilion)", tabindex: 0, role: "slider", style: "cursor: grab",
    "aria-valuemin": -reach, "aria-valuemax": reach,
    "aria-label": "query: move it with the arrow keys, or drag it", keydown: steer });
  const plane = picture(side, side, "keys, query and output in the plane", drawing, handle);
  plane.setAttribute("role", "group");
  plane.style.touchAction = "none";
  plane.addEventListener("pointerdown", (event) => {
    event.preventDefault();
    handle.focus({ preventScroll: true });
    plane.setPointerCapture(event.pointerId);
    follow(event);
  });
  plane.addEventListener("pointermove", (event) => { if (plane.hasPointerCapture(event.pointerId)) follow(event); });
  const charts = html("div", {});
  const says = sentence();
  panel.append(row(plane, charts), says);

  function follow(event) {
    const box = plane.getBoundingClientRect();
    const [right, down] = [(event.clientX - box.left) / box.width, (event.clientY - box.top) / box.height]; // 0 to 1
    move([(2 * right - 1) * reach, (1 - 2 * down) * reach]);
  }

  function steer(event) {
    const step = event.shiftKey ? 0.5 : 0.1;
    const steps = { ArrowLeft: [-step, 0], ArrowRight: [step, 0], ArrowUp: [0, step],
      ArrowDown: [0, -step] }[event.key];
    if (!steps) return;
    event.preventDefault();
    move([q[0] + steps[0], q[1] + steps[1]]);
  }

  function move([x, y]) {
    q = [inside(x), inside(y)];
    draw();
  }

  function arrow(tip, colour, width) {
    const [[x0, y0], [x1, y1]] = [place([0, 0]), place(tip)];
    const angle = (Math.atan2(y1 - y0, x1 - x0) * 180) / Math.PI;
    return svg("g", {},
      svg("line", { x1: x0, y1: y0, x2: x1, y2: y1, stroke: colour, "stroke-width": width }),
      svg("polygon", { points: "0,0 -11,4.5 -11,-4.5", fill: colour,
        transform: `translate(${x1} ${y1}) rotate(${angle})` }));
  }

  function label(tip, words) {
    const [x, y] = place(tip);
    const [dx, dy] = Math.hypot(...tip) < 0.2 ? [0, 1] : [tip[0] / Math.hypot(...tip), -tip[1] / Math.hypot(...tip)];
    return text(x + 17 * dx, y + 13 * dy, words, {
      "text-anchor": dx > 0.4 ? "start" : dx < -0.4 ? "end" : "middle" });
  }

  function draw() {
    const scores = keys.map((key) => dot(q, key) / divisor);
    const weights = softmax(scores);
    const output = [0, 1].map((axis) => dot(weights, values.map((value) => value[axis])));
    const [[x0, y0], [xq, yq]] = [place([0, 0]), place(q)];
    drawing.replaceChildren(
      svg("rect", { x: 0, y: 0, width: side, height: side, fill: "transparent", stroke: "var(--cf-faint)" }),
      svg("line", { x1: 0, x2: side, y1: y0, y2: y0, stroke: "var(--cf-faint)" }),
      svg("line", { x1: x0, x2: x0, y1: 0, y2: side, stroke: "var(--cf-faint)" }),
      ...keys.map((key, i) => svg("line", { x1: xq, y1: yq, x2: place(key)[0], y2: place(key)[1],
        stroke: "currentColor",
        "stroke-opacity": 0.45, "stroke-width": 10 * weights[i], "stroke-linecap": "round" })),
      ...keys.map((key) => arrow(key, "var(--cf-blue)", 2)),
      ...(valuesAreKeys ? [] : values.map((value) => svg("rect", { x: place(value)[0] - 4, y: place(value)[1] - 4,
        width: 8, height: 8, fill: "none", stroke: "var(--cf-green)", "stroke-width": 2 }))),
      arrow(q, "var(--cf-vermilion)", 2.5),
      arrow(output, "var(--cf-green)", 4),
      ...keys.map((key, i) => label(key, names[i])),
      ...(valuesAreKeys ? [] : values.map((value, i) => label(value, `v ${names[i]}`))));
    handle.setAttribute("cx", xq);
    handle.setAttribute("cy", yq);
    handle.setAttribute("aria-valuenow", q[0]);
    handle.setAttribute("aria-valuetext", `${number(q[0], 2)}, ${number(q[1], 2)}`);
    charts.replaceChildren(
      bars({ title: scaled ? "scores: q · k / √2" : "scores: q · k", names, values: scores, low: -farthest,
        high: farthest,
        digits: 2, colour: "var(--cf-blue)", mark: "cf-score" }),
      bars({ title: "weights: their softmax", names, values: weights, mark: "cf-weight", colour: "var(--cf-line)" }));
    const point = ([x, y], name) => html("b", { class: name }, `(${number(x, 2)}, ${number(y, 2)})`);
    says.replaceChildren(
      html("span", { style: "color: var(--cf-vermilion)" }, "● "), "query ", point(q, "cf-query"),
      html("span", { style: "color: var(--cf-blue)" }, "   ➤ "),
        valuesAreKeys ? "keys, which are the values too" : "keys",
      ...(valuesAreKeys ? [] : [html("span", { style: "color: var(--cf-green)" }, "   ▢ "), "values"]),
      html("span", { style: "color: var(--cf-green)" }, "   ➤ "), "output: the weighted mean of the values ",
        point(output, "cf-output"));
  }
  draw();
}
