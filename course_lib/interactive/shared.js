// Tools that the figures share. Each figure's output holds this text once, inside a function: nothing here is global.

/** Put the figure in place of its still picture. If anything fails, the still picture stays. */
function start(key, build, data) {
  const here = document.currentScript && document.currentScript.closest(".course-figure");
  // Where a page runs scripts without saying which: the first figure of these data that is not running yet.
  const root = here || document.querySelector(`.course-figure[data-figure="${key}"]:not([data-running])`);
  if (!root) return;
  root.querySelectorAll(".cf-panel").forEach((old) => old.remove());
  // JupyterLab would take arrow keys for its cells, unless the very element that has the focus says so.
  const keepKeys = (event) => event.target.setAttribute("data-lm-suppress-shortcuts", "true");
  const panel = html("div", { class: "cf-panel", focusin: keepKeys });
  root.prepend(panel); // before the script: a page that is saved now and opened again has it when the script runs
  try {
    build(panel, data);
  } catch (error) {
    panel.remove();
    throw error;
  }
  root.setAttribute("data-running", "");
  root.querySelector(".course-still").hidden = true;
}

// --- elements -------------------------------------------------------------------------------------------

function html(tag, attributes, ...children) {
  return filled(document.createElement(tag), attributes, children);
}

function svg(tag, attributes, ...children) {
  return filled(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);
}

/** Attributes that are null or undefined are left out, functions listen. Texts stay texts and are never HTML. */
function filled(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes || {})) {
    if (typeof value === "function") node.addEventListener(name, value);
    else if (value !== null && value !== undefined) node.setAttribute(name, value);
  }
  node.append(...children);
  return node;
}

function picture(width, height, label, ...children) {
  return svg("svg", { viewBox: `0 0 ${width} ${height}`, width, height, role: "img", "aria-label": label },
    ...children);
}

function text(x, y, words, attributes) {
  return svg("text", { x, y, "dominant-baseline": "central", ...attributes }, words);
}

function row(...children) {
  return html("div", { class: "cf-row" }, ...children);
}

function controls(...children) {
  return html("div", { class: "cf-row cf-controls" }, ...children);
}

/** One line in words, read aloud by screen readers when it changes. */
function sentence() {
  return html("p", { class: "cf-says", role: "status" });
}

function slider(label, { min, max, step, value, show = String }, changed) {
  const input = html("input", { type: "range", min, max, step, value, "aria-label": label });
  const shown = html("output", {});
  const refresh = () => {
    shown.textContent = show(input.valueAsNumber);
    input.setAttribute("aria-valuetext", shown.textContent);
  };
  input.addEventListener("input", () => { refresh(); changed(); });
  refresh();
  return { node: html("label", {}, label, input, shown), input, refresh, get value() { return input.valueAsNumber; } };
}

/** A menu. `options` are texts; `.value` is the number of the one that is chosen. */
function menu(label, options, changed) {
  const select = html("select", { "aria-label": label, change: changed });
  const offer = (texts) => {
    const kept = Math.max(0, Math.min(select.selectedIndex, texts.length - 1));
    select.replaceChildren(...texts.map((words) => html("option", {}, words)));
    select.selectedIndex = kept;
  };
  offer(options);
  return { node: html("label", {}, label, select), select, offer, get value() { return select.selectedIndex; } };
}

function checkbox(label, changed) {
  const input = html("input", { type: "checkbox", change: changed });
  return { node: html("label", {}, input, label), get value() { return input.checked; } };
}

function button(words, pressed, attributes) {
  return html("button", { type: "button", click: pressed, ...attributes }, words);
}

// --- numbers --------------------------------------------------------------------------------------------

function number(value, digits = 3) {
  const written = value.toFixed(digits);
  return (Number(written) === 0 ? written.replace("-", "") : written).replace("-", "\u2212");
}

/** -Infinity gets weight 0, and so does everything if all are -Infinity. */
function softmax(scores) {
  const largest = Math.max(...scores);
  if (largest === -Infinity) return scores.map(() => 0);
  const powers = scores.map((score) => Math.exp(score - largest));
  const total = sum(powers);
  return powers.map((power) => power / total);
}

function sum(values) {
  return values.reduce((total, value) => total + value, 0);
}

function dot(a, b) {
  return sum(a.map((value, i) => value * b[i]));
}

/** In nats. */
function entropy(probabilities) {
  return -sum(probabilities.map((p) => (p > 0 ? p * Math.log(p) : 0)));
}

function nats(value) {
  return `${number(value)} nats = ${number(value / Math.LN2)} bits`;
}

// --- charts ---------------------------------------------------------------------------------------------

/** As much of the words as fits into `width` pixels. */
function shortened(words, width) {
  const letters = Math.max(2, Math.floor(width / 7));
  return words.length > letters ? `${words.slice(0, letters - 1)}…` : words;
}

/** Horizontal bars, each with its name on the left and its number on the right. Numbers have the class `mark`. */
function bars({ title, names, values, low = 0, high = 1, digits = 3, colour = "var(--cf-blue)", mark, width = 350 }) {
  const [left, right, step, top] = [78, 62, 24, 26];
  const length = (value) => ((value - low) / (high - low)) * (width - left - right);
  const zero = left + length(0);
  const height = top + step * names.length + 4;
  const lines = names.map((name, i) => {
    const [y, end] = [top + step * (i + 0.5), left + length(values[i])];
    return svg("g", {},
      text(left - 8, y, shortened(name, left - 8), { "text-anchor": "end" }),
      svg("rect", { x: Math.min(zero, end), y: y - 8, width: Math.abs(end - zero), height: 16, fill: colour }),
      text(Math.max(zero, end) + 6, y, number(values[i], digits), { class: mark }));
  });
  return picture(width, height, title,
    text(left, 10, title, { class: "cf-title" }),
    svg("line", { x1: zero, x2: zero, y1: top, y2: height - 4, stroke: "var(--cf-line)" }),
    ...lines);
}

/** How wide the longest name is, about. */
function nameWidth(names) {
  return 7 * Math.min(20, Math.max(...names.map((name) => name.length)));
}

/** How high names are that stand at 45 degrees above their columns. */
function slantedHeight(names) {
  return 16 + 5 * Math.min(10, Math.max(...names.map((name) => name.length)));
}

/** A matrix of numbers between 0 and 1 as squares; 0 is the page's own colour. Cells have the class `mark`. */
function heatMap({ title, rows, columns, values, cell, mark, colours, signs, outlined }) {
  const [left, top] = [rows ? 8 + nameWidth(rows) : 4, 22 + slantedHeight(columns)];
  const [width, height] = [left + cell * values[0].length + 4, top + cell * values.length + 4];
  const squares = values.flatMap((line, i) => line.map((value, j) => {
    const [x, y] = [left + cell * j, top + cell * i];
    const words = signs ? signs[i][j] : cell < 26 ? "" : value === 0 ? "0" : number(value, 2).replace(/^0/, "");
    return svg("g", {},
      svg("rect", { x, y, width: cell, height: cell, fill: colours ? colours[i][j] : "var(--cf-blue)",
        "fill-opacity": value, stroke: "var(--cf-faint)" }),
      text(x + cell / 2, y + cell / 2, words,
        { "text-anchor": "middle", class: `cf-small ${mark || ""}`, style: value > 0.55 ? "fill: white" : null }));
  }));
  const names = [
    ...(rows || []).map((name, i) =>
      text(left - 6, top + cell * (i + 0.5), shortened(name, left - 6), { "text-anchor": "end" })),
    ...columns.map((name, j) => svg("g", { transform: `translate(${left + cell * (j + 0.5)} ${top - 8}) rotate(-45)` },
      text(0, 0, shortened(name, 70)))),
  ];
  const frame = outlined === undefined ? [] : [svg("rect", { x: left, y: top + cell * outlined,
    width: cell * values[0].length, height: cell, fill: "none", stroke: "var(--cf-vermilion)", "stroke-width": 2 })];
  return picture(width, height, title, text(left, 10, title, { class: "cf-title" }), ...names, ...squares, ...frame);
}
