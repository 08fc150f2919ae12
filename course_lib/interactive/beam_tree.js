function build(panel, { steps, alpha }) {
  const show = slider("step", { min: 0, max: steps.length, step: 1, value: 0, show: (t) => `${t} of ${steps.length}` },
    draw);
  const to = (step) => { show.input.value = step; show.refresh(); draw(); };
  const back = button("◀ back", () => to(show.value - 1));
  const on = button("next ▶", () => to(show.value + 1));
  const tree = html("div", { class: "cf-scroll", tabindex: 0, role: "group", "aria-label": "the tree" });
  const says = sentence();
  panel.append(controls(back, on, button("all", () => to(steps.length)), show.node), tree, says);

  const [boxWidth, boxHeight, across, down, top] = [88, 34, 122, 44, 26];
  const most = Math.max(...steps.map((step) => step.length));
  const x = (step) => 4 + across * step;
  const y = (rank) => top + down * rank;
  const styles = {
    kept: { colour: "var(--cf-blue)", dash: null, sign: "" },
    finished: { colour: "var(--cf-green)", dash: null, sign: "■ " },
    pruned: { colour: "var(--cf-line)", dash: "4 3", sign: "✕ " },
  };
  const rankOf = (step, tokens) => steps[step].findIndex((each) => same(each.tokens, tokens));
  const finished = steps.flat().filter((each) => each.state === "finished");
  const best = finished.reduce((winner, each) => (winner && winner.score >= each.score ? winner : each), null);

  function same(a, b) {
    return a.length === b.length && a.every((token, i) => token === b[i]);
  }

  function box(step, rank, { tokens, logProbability, state }) {
    const { colour, dash, sign } = styles[state];
    const last = show.value === steps.length;
    const winner = last && best && state === "finished" && same(tokens, best.tokens);
    return svg("g", { class: "cf-node", "data-state": state },
      svg("title", {}, `${tokens.join(" ")}: ${number(logProbability)}`),
      svg("rect", { x: x(step + 1), y: y(rank), width: boxWidth, height: boxHeight, rx: state === "finished" ? 0 : 8,
        fill: winner ? colour : "transparent", "fill-opacity": 0.25, stroke: colour, "stroke-width": winner ? 4 : 2,
          "stroke-dasharray": dash }),
      text(x(step + 1) + boxWidth / 2, y(rank) + 11, shortened(sign + tokens[tokens.length - 1], boxWidth - 4),
        { "text-anchor": "middle", class: state === "pruned" ? "cf-quiet" : winner ? "cf-title" : "" }),
      text(x(step + 1) + boxWidth / 2, y(rank) + 25, number(logProbability),
        { "text-anchor": "middle", class: "cf-small cf-total" }));
  }

  function branch(step, rank, { tokens, state }) {
    const parent = step ? rankOf(step - 1, tokens.slice(0, -1)) : 0;
    const { colour, dash } = styles[state];
    return svg("line", { x1: x(step) + boxWidth, y1: y(parent) + boxHeight / 2, x2: x(step + 1),
      y2: y(rank) + boxHeight / 2,
      stroke: colour, "stroke-width": 2, "stroke-dasharray": dash });
  }

  function draw() {
    const seen = steps.slice(0, show.value);
    const nodes = seen.flatMap((step, t) => step.map((each, rank) => [t, rank, each]));
    tree.replaceChildren(svg("svg", { width: x(steps.length) + boxWidth + 6, height: y(most) + 2, role: "img",
      style: "max-width: none",
      "aria-label": "prefixes as a tree, one column per step" },
      ...steps.map((_, t) => text(x(t + 1) + boxWidth / 2, 10, `step ${t + 1}`,
        { "text-anchor": "middle", class: "cf-small cf-quiet" })),
      svg("rect", { x: x(0), y: y(0), width: boxWidth, height: boxHeight, rx: 8, fill: "transparent",
        stroke: "var(--cf-blue)", "stroke-width": 2 }),
      text(x(0) + boxWidth / 2, y(0) + boxHeight / 2, "start", { "text-anchor": "middle" }),
      ...nodes.map((node) => branch(...node)), ...nodes.map((node) => box(...node))));
    tree.scrollLeft = x(show.value + 1) + boxWidth + 10 - tree.clientWidth;
    back.disabled = show.value === 0;
    on.disabled = show.value === steps.length;
    const now = seen.length ? seen[seen.length - 1] : [];
    const count = (state) => now.filter((each) => each.state === state).length;
    const step = seen.length ? `In this step ${count("kept")} go on, ${count("finished")} end. ` : "";
    const done = show.value === steps.length && best ? [
      "Best score, log-probability / length", html("sup", {}, number(alpha, 1)), ": ",
      html("b", { class: "cf-best" }, number(best.score, 4)), ", “", html("b", {}, best.tokens.join(" ")), "”."] : [];
    says.replaceChildren(
      "Numbers: log-probability of the whole prefix. Blue: goes on. ■ finished. ✕ pruned. ", step, ...done);
  }
  to(1);
}
