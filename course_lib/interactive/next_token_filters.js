function build(panel, { tokens, logits, shown, mostK }) {
  const scores = logits.map((value) => (value === null ? -Infinity : value));
  const order = scores.map((_, i) => i).sort((a, b) => scores[b] - scores[a] || a - b); // the likeliest first
  const visible = order.slice(0, shown);
  const original = softmax(scores);
  const visibly = (word) => (/^\S+$/.test(word) ? word : JSON.stringify(word)); // a blank too is something to see
  const named = (token) => visibly(tokens[token]);

  const temperature = slider("temperature", { min: 0, max: 2, step: 0.05, value: 1, show: (t) => number(t, 2) },
    restart);
  const topK = slider("top-k", { min: 1, max: mostK + 1, step: 1, value: mostK + 1,
    show: (k) => (k > mostK ? "all" : String(k)) }, restart);
  const topP = slider("top-p", { min: 0.05, max: 1, step: 0.01, value: 1,
    show: (p) => (p >= 1 ? "all" : number(p, 2)) }, restart);
  const chart = html("div", {});
  const says = sentence();
  const drawn = html("p", { class: "cf-says", role: "status", style: "margin: 0; min-height: 1.4em" });
  let counts, random, last;
  panel.append(controls(temperature.node, topK.node, topP.node), chart, says,
    controls(button("draw a token", () => lots(1)), button("draw 100", () => lots(100)), button("forget", restart)),
      drawn);

  /** Temperature, then top-k, then top-p. Tokens that are out have -Infinity. */
  function filtered() {
    if (temperature.value === 0) return scores.map((_, i) => (i === order[0] ? 0 : -Infinity));
    let result = scores.map((score) => score / temperature.value);
    if (topK.value <= mostK) {
      const smallest = result[order[Math.min(topK.value, order.length) - 1]];
      result = result.map((score) => (score < smallest ? -Infinity : score));
    }
    if (topP.value < 1) {
      const p = softmax(result);
      let before = 0;
      for (const i of order) {
        if (before >= topP.value) result[i] = -Infinity;
        before += p[i];
      }
    }
    return result;
  }

  /** Numbers between 0 and 1 that look random and are the same for everybody (mulberry32). */
  function generator(state) {
    return () => {
      state = (state + 0x6d2b79f5) | 0;
      let t = Math.imul(state ^ (state >>> 15), 1 | state);
      t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
      return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
    };
  }

  /** Probabilities end to end, token 0 first: the token on whose piece u falls. */
  function lots(times) {
    const p = softmax(filtered());
    for (let time = 0; time < times; time++) {
      const u = random();
      let end = 0;
      let token = p.findIndex((share) => (end += share) > u);
      if (token < 0) token = p.findLastIndex((share) => share > 0); // rounding, at the very end of the line
      counts[token] += 1;
      last = { u, token };
    }
    draw();
  }

  function restart() {
    counts = scores.map(() => 0);
    random = generator(1);
    last = null;
    draw();
  }

  function draw() {
    const p = softmax(filtered());
    const [left, right, pitch, width, top] = [110, 150, 22, 740, 26];
    const length = (share) => share * (width - left - right);
    const total = sum(counts);
    chart.replaceChildren(picture(width, top + pitch * visible.length + 6, "probabilities of the likeliest tokens",
      text(left, 10, "probability: frame before, blue after", { class: "cf-title" }),
      ...(total ? [text(width, 10, `of ${total} drawn`, { "text-anchor": "end", class: "cf-title" })] : []),
      ...visible.map((token, line) => {
        const y = top + pitch * (line + 0.5);
        const kept = p[token] > 0;
        return svg("g", { class: "cf-token" },
          text(left - 8, y, shortened(named(token), left - 8), { "text-anchor": "end", class: kept ? "" : "cf-gone" }),
          svg("rect", { x: left, y: y - 7, width: length(p[token]), height: 14, fill: "var(--cf-blue)" }),
          svg("rect", { x: left, y: y - 7, width: length(original[token]), height: 14, fill: "none",
            stroke: "currentColor", "stroke-opacity": 0.6 }),
          text(left + length(Math.max(p[token], original[token])) + 6, y, kept ? number(p[token]) : "✕ out",
            { class: "cf-probability" }),
          text(width, y, counts[token] ? String(counts[token]) : "", { "text-anchor": "end", class: "cf-count" }));
      })));
    const kept = p.filter((share) => share > 0).length;
    const rest = order.slice(shown).map((token) => p[token]);
    says.replaceChildren(
      html("b", { class: "cf-kept" }, String(kept)), ` of ${tokens.length} tokens ${kept === 1 ? "is" : "are"} left`,
      rest.length ? ` (the ${rest.length} that are not drawn here have ${number(sum(rest))} together)` : "",
      ". Entropy ", html("b", { class: "cf-entropy" }, nats(entropy(p))),
        `, before ${number(entropy(original))} nats.`);
    drawn.replaceChildren(...(last ? [`u = ${last.u.toFixed(6)} draws “`,
      html("b", { class: "cf-drawn" }, named(last.token)), "”."] : []));
  }
  restart();
}
