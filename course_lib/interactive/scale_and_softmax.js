function build(panel, { names, scores, scale, largest }) {
  const size = slider("scale", { min: 0, max: largest, step: 0.1, value: scale, show: (s) => `× ${number(s, 1)}` },
    draw);
  const charts = row();
  const says = sentence();
  panel.append(controls(size.node), charts, says);

  function draw() {
    const scaled = scores.map((score) => size.value * score);
    const weights = softmax(scaled);
    const spread = entropy(weights);
    charts.replaceChildren(
      bars({ title: "scale × scores", names, values: scaled, digits: 2,
        low: largest * Math.min(0, ...scores), high: largest * Math.max(0.1, ...scores),
        colour: "var(--cf-vermilion)", mark: "cf-score" }),
      bars({ title: "weights: their softmax", names, values: weights, mark: "cf-weight" }));
    says.replaceChildren(
      "Entropy ", html("b", { class: "cf-entropy" }, nats(spread)),
      ` (even weights: ${number(Math.log(scores.length))} nats). `,
      `Steepest slope w(1 − w): ${number(Math.max(...weights.map((w) => w * (1 - w))))}. `,
      `A scale of ${number(size.value, 1)} is √d_k for d_k = ${number(size.value ** 2, 1)}.`);
  }
  draw();
}
