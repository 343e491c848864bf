"use strict";

/** Nodes of a call tree, those that run below each other; widths are times. A click makes a node as wide as the chart. */
class FlameChart {
  static rowHeight = 22;
  static least = 0.6; // pixels; narrower nodes are left out
  static legible = 26; // pixels; narrower nodes have no text
  static colours = { run: "var(--line)", subgraph: "var(--accent)", copies: "var(--warning)" };

  constructor(part, { title, root }) {
    this.root = FlameChart.linked(root, null, 0);
    this.zoomed = this.root;
    this.word = "";
    this.build(part, title);
    new ResizeObserver(() => this.draw()).observe(this.chart);
    this.describe(this.root);
  }

  /** A node that knows the one above it. */
  static linked(data, parent, depth) {
    const node = { ...data, parent, depth };
    node.children = data.children.map((child) => FlameChart.linked(child, node, depth + 1));
    return node;
  }

  build(part, title) {
    part.classList.add("flame");
    this.matched = element("span", { class: "count" });
    this.search = element("input", { type: "search", placeholder: "Find, e.g. FULLY_CONNECTED",
      "aria-label": "Find in the call tree", oninput: (event) => this.find(event.target.value) });
    this.reset = element("button", { onclick: () => this.zoom(this.root), disabled: true }, "Whole run");
    this.chart = element("div", { class: "chart", tabindex: 0, "aria-label": title,
      onkeydown: (event) => event.key === "Escape" && this.zoom(this.zoomed.parent ?? this.root),
      onmouseleave: () => this.describe(this.zoomed) });
    this.chart.style.height = `${(FlameChart.depth(this.root) + 1) * FlameChart.rowHeight}px`;
    this.facts = element("div", { class: "about", "aria-live": "polite" });
    part.append(element("div", { class: "tools" }, element("h2", {}, title), this.matched, this.search, this.reset),
      this.chart, this.facts);
  }

  static depth(node) {
    return Math.max(node.depth, ...node.children.map(FlameChart.depth));
  }

  zoom(node) {
    this.zoomed = node;
    this.reset.disabled = node === this.root;
    this.draw();
    this.describe(node);
  }

  /** Nodes whose label or names hold a text stand out; their time, of those not within each other, is shown. */
  find(text) {
    this.word = text.trim().toLowerCase();
    const total = this.word ? this.found(this.root) : 0;
    this.matched.textContent = this.word ? `${units.share(total / (this.root.total || 1))} of the time` : "";
    this.draw();
  }

  found(node) {
    return this.matches(node) ? node.total : node.children.reduce((sum, child) => sum + this.found(child), 0);
  }

  matches(node) {
    return this.word !== "" && `${node.label}\n${node.names}`.toLowerCase().includes(this.word);
  }

  draw() {
    const made = [];
    const width = this.chart.clientWidth;
    for (let above = this.zoomed.parent; above; above = above.parent) made.push(this.box(above, 0, width, "above"));
    this.place(this.zoomed, 0, width, made);
    this.chart.replaceChildren(...made);
  }

  /** A node, and those below it in the order of their time. */
  place(node, left, width, made) {
    if (width < FlameChart.least) return;
    made.push(this.box(node, left, width, ""));
    for (const child of node.children) {
      const share = node.total > 0 ? child.total / node.total : 0;
      this.place(child, left, width * share, made);
      left += width * share;
    }
  }

  box(node, left, width, kind) {
    const faded = this.word && !this.matches(node) ? "faded" : "";
    const colour = FlameChart.colours[node.kind] ?? `var(--${node.group})`;
    const gap = width > 3 ? 1 : 0;
    return element("button", { class: `node ${kind} ${faded}`.trim(), tabindex: -1,
      style: `left: ${left}px; width: ${width - gap}px; top: ${node.depth * FlameChart.rowHeight}px; `
        + `--colour: ${colour}`,
      onclick: () => this.zoom(node), onmouseenter: () => this.describe(node) },
      width >= FlameChart.legible ? node.label : "");
  }

  describe(node) {
    const share = (part, whole) => units.share(whole.total > 0 ? part.total / whole.total : 0);
    const facts = [["time", `${units.seconds(node.total)}, ${share(node, this.root)} of the run`
        + (node.parent?.parent ? `, ${share(node, node.parent)} of ${node.parent.label}` : "")],
      ["own time", units.seconds(node.own)], ...node.facts];
    const link = node.to && page.hasGraph
      ? [element("button", { onclick: () => page.goTo(...node.to) }, "Show in the graph")] : [];
    this.facts.replaceChildren(element("h3", {}, node.path), ...link,
      element("dl", {}, ...facts.flatMap(([name, value]) => [element("dt", {}, name), element("dd", {}, value)])));
  }
}

page.draws("flame", (part, data) => {
  part.flame = new FlameChart(part, data);
});
