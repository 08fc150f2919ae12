function build(panel, { words, scores, padded, radius }) {
  const n = words.length;
  const every = (rule) => words.map((_, i) => words.map((_, j) => rule(i, j)));
  const presets = {
    none: () => true,
    causal: (i, j) => j <= i,
    padding: (i, j) => j < n - padded,
    "causal + padding": (i, j) => j <= i && j < n - padded,
    window: (i, j) => Math.abs(i - j) <= radius,
  };
  let mask = every(presets.causal);
  let brush = null; // what a pointer that is held down paints

  const layers = menu("layers", ["1", "2", "3"], draw);
  const residual = checkbox("with the residual path", draw);
  const choices = Object.entries(presets).map(([name, rule]) =>
    button(name, () => { mask = every(rule); draw(); }, { "data-preset": name }));
  const cell = 30;
  const cells = every((i, j) => html("button", {
    type: "button", role: "checkbox", style: `width: ${cell}px; height: ${cell}px`,
    "aria-label": `may ${words[i]} (${i}) look at ${words[j]} (${j})?`,
    pointerdown: (event) => {
      event.preventDefault();
      event.target.releasePointerCapture(event.pointerId); // a finger too may paint several cells
      reach(i, j);
      brush = !mask[i][j];
      paint(i, j, brush);
    },
    pointerenter: () => { if (brush !== null) paint(i, j, brush); },
    keydown: (event) => onKey(event, i, j),
  }));
  const grid = html("div", { class: "cf-cells", role: "group", "aria-label": "the mask: arrow keys move, space paints",
    style: `grid-template-columns: 56px repeat(${n}, ${cell}px)` },
    html("span", { style: `height: ${slantedHeight(words)}px` }),
    ...words.map((word) => html("span", { class: "cf-column" }, html("span", {}, shortened(word, 70)))),
    ...cells.flatMap((line, i) => [html("span", { class: "cf-line" }, shortened(words[i], 50)), ...line]));
  panel.addEventListener("pointerup", () => { brush = null; });
  panel.addEventListener("pointerleave", () => { brush = null; });
  const maps = html("div", { class: "cf-row", style: "margin: 0" });
  const says = sentence();
  panel.append(controls("mask: ", ...choices), controls(layers.node, residual.node),
    row(html("div", {}, html("div", { class: "cf-title", style: "height: 22px; line-height: 20px" },
      "mask: row may look at column"), grid), maps), says);

  function paint(i, j, allowed) {
    mask[i][j] = allowed;
    draw();
  }

  /** One cell at a time can be reached by Tab; from it, arrow keys go on. */
  function reach(i, j) {
    const next = cells[Math.max(0, Math.min(n - 1, i))][Math.max(0, Math.min(n - 1, j))];
    cells.flat().forEach((each) => each.setAttribute("tabindex", -1));
    next.setAttribute("tabindex", 0);
    next.focus({ preventScroll: true });
  }

  function onKey(event, i, j) {
    const to = { ArrowLeft: [i, j - 1], ArrowRight: [i, j + 1], ArrowUp: [i - 1, j], ArrowDown: [i + 1, j] }[event.key];
    if (to) reach(...to);
    else if (event.key === " " || event.key === "Enter") paint(i, j, !mask[i][j]);
    else return;
    event.preventDefault();
  }

  function draw() {
    const step = every((i, j) => mask[i][j] || (residual.value && i === j));
    let seen = step;
    for (let layer = 0; layer < layers.value; layer++) {
      const before = seen;
      seen = every((i, j) => words.some((_, middle) => step[i][middle] && before[middle][j]));
    }
    const weights = every((i, j) => (mask[i][j] ? scores[i][j] : -Infinity)).map(softmax);
    cells.forEach((line, i) => line.forEach((each, j) => {
      each.setAttribute("aria-checked", mask[i][j]);
      each.textContent = mask[i][j] ? "✓" : "";
    }));
    choices.forEach((choice) => {
      const same = cells.every((line, i) => line.every((_, j) => presets[choice.dataset.preset](i, j) === mask[i][j]));
      choice.setAttribute("aria-pressed", same);
    });
    const future = (i, j) => j > i && seen[i][j];
    maps.replaceChildren(
      heatMap({ title: `who reaches whom, ${layers.value + 1} layer${layers.value ? "s" : ""}`, columns: words, cell,
        values: every((i, j) => (seen[i][j] ? 0.9 : 0)), mark: "cf-reach",
        signs: every((i, j) => (future(i, j) ? "▲" : seen[i][j] ? "✓" : "")),
        colours: every((i, j) => (future(i, j) ? "var(--cf-vermilion)" : "var(--cf-blue)")) }),
      heatMap({ title: "weights, one layer", columns: words, cell, values: weights, mark: "cf-weight" }));
    const leaks = sum(every((i, j) => (future(i, j) ? 1 : 0)).flat());
    const empty = words.map((word, i) => `${word} (${i})`).filter((_, i) => !mask[i].includes(true));
    says.textContent = `Leaks from the future (▲): ${leaks}.`
      + (empty.length ? ` A row that may look at nothing has weights 0: ${empty.join(", ")}.` : "");
  }
  cells.flat().forEach((each, place) => each.setAttribute("tabindex", place ? -1 : 0));
  draw();
}
