function build(panel, { maps }) {
  const kind = menu("attention", maps.map((map) => map.kind), change);
  const layer = menu("layer", [], change);
  const head = menu("head", [], change);
  const lines = html("div", {});
  const table = html("div", {});
  const says = sentence();
  panel.append(controls(kind.node, layer.node, head.node), row(lines, table), says);
  kind.select.selectedIndex = maps.length - 1;
  let map, weights, cell, pitch, top;
  let chosen = 0;

  const gap = 110;

  function change() {
    map = maps[kind.value];
    const before = layer.select.options.length;
    layer.offer(map.weights.map((_, i) => String(i + 1)));
    if (!before) layer.select.selectedIndex = map.weights.length - 1;
    const heads = map.weights[layer.value];
    head.offer(["mean of all", ...heads.map((_, i) => String(i + 1))]);
    weights = head.value ? heads[head.value - 1]
      : map.queries.map((_, i) => map.keys.map((_, j) => sum(heads.map((each) => each[i][j])) / heads.length));
    chosen = Math.min(chosen, map.queries.length - 1);
    cell = Math.max(12, Math.min(28, Math.floor(250 / map.keys.length)));
    [pitch, top] = [Math.max(22, cell), 22 + slantedHeight(map.keys)]; // in line with the rows of the table
    lay();
    draw();
  }

  let words, names, strokes, shades, numbers;

  /** The words and lines of this map, once; what changes with the chosen word is set by `draw`. */
  function lay() {
    const [left, right] = [nameWidth(map.queries) + 14, nameWidth(map.keys) + 14];
    const y = (i) => top + pitch * (i + 0.5);
    words = map.queries.map((word, i) => svg("g", {
      class: "cf-word", role: "button", "aria-label": `${word}, word ${i + 1}`,
      mouseenter: () => choose(i), click: () => choose(i), focus: () => choose(i),
        keydown: (event) => onKey(event, i) },
      svg("rect", { x: 0, y: y(i) - 11, width: left, height: 22, rx: 4, fill: "transparent" }),
      text(left - 7, y(i), shortened(word, left - 6), { "text-anchor": "end" })));
    strokes = map.keys.map((_, j) => svg("line", { x1: left + 3, x2: left + gap - 3, y2: y(j),
      stroke: "var(--cf-blue)", "stroke-linecap": "round" }));
    shades = map.keys.map((_, j) => svg("rect", { x: left + gap, y: y(j) - 11, width: right, height: 22, rx: 4,
      fill: "var(--cf-blue)" }));
    numbers = map.keys.map((_, j) => text(left + gap + right + 8, y(j), "", { class: "cf-weight" }));
    names = map.keys.map((word, j) => text(left + gap + 7, y(j), shortened(word, right)));
    const many = Math.max(map.queries.length, map.keys.length);
    const drawing = picture(left + gap + right + 52, top + 4 + pitch * many, "the chosen word and what it looks at",
      text(0, 10, "query", { class: "cf-title" }), text(left + gap, 10, "key", { class: "cf-title" }),
      ...strokes, ...shades, ...words, ...names, ...numbers);
    drawing.setAttribute("role", "group");
    lines.replaceChildren(drawing);
  }

  function choose(i) {
    if (i === chosen) return;
    chosen = i;
    draw();
  }

  function onKey(event, i) {
    const to = { ArrowUp: i - 1, ArrowDown: i + 1, Home: 0, End: words.length - 1 }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    words[Math.max(0, Math.min(words.length - 1, to))].focus();
  }

  function draw() {
    const mine = weights[chosen];
    words.forEach((word, i) => {
      word.setAttribute("tabindex", i === chosen ? 0 : -1);
      word.setAttribute("aria-pressed", i === chosen);
      word.firstChild.setAttribute("stroke", i === chosen ? "var(--cf-vermilion)" : "none");
      word.firstChild.setAttribute("stroke-width", 2);
    });
    mine.forEach((weight, j) => {
      strokes[j].setAttribute("y1", top + pitch * (chosen + 0.5));
      strokes[j].setAttribute("stroke-width", 9 * weight);
      strokes[j].setAttribute("stroke-opacity", 0.25 + 0.75 * weight);
      shades[j].setAttribute("fill-opacity", weight);
      names[j].style.fill = weight > 0.55 ? "white" : "";
      numbers[j].textContent = number(weight);
    });
    table.replaceChildren(heatMap({ title: "all words", rows: map.queries, columns: map.keys, values: weights, cell,
      outlined: chosen }));
    const most = mine.indexOf(Math.max(...mine));
    says.replaceChildren("“", html("b", {}, map.queries[chosen]), "” looks most at “",
      html("b", { class: "cf-most" }, map.keys[most]),
      `”, with weight ${number(mine[most])}. Entropy ${nats(entropy(mine))}.`);
  }
  change();
}
