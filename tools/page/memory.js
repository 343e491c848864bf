"use strict";

/** The arena of a subgraph: a rectangle for each buffer, over the operators that it lives through. */
class MemoryChart {
  static width = 1200;
  static height = 320;
  static left = 70;
  static bottom = 26;

  constructor(part, { title, subgraphs }) {
    this.subgraphs = subgraphs;
    part.classList.add("memory");
    this.choice = element("select", { "aria-label": "Subgraph", onchange: (event) => this.draw(+event.target.value) },
      ...subgraphs.map(({ label }, index) => element("option", { value: index }, label)));
    this.facts = element("span", { class: "count" });
    this.view = element("div", { class: "arena" });
    this.about = element("p", { class: "about", "aria-live": "polite" });
    part.append(element("div", { class: "tools" }, element("h2", {}, title), this.choice, this.facts),
      this.view, this.about);
    this.draw(0);
  }

  draw(index) {
    const { arena, peak, operators, live, buffers } = this.subgraphs[index];
    this.facts.textContent = `arena ${units.bytes(arena)}, most in use at one time ${units.bytes(live[peak] ?? 0)}`;
    const { width, height, left, bottom } = MemoryChart;
    const across = (operator) => left + (width - left) * operator / Math.max(operators.length, 1);
    const up = (size) => (height - bottom) * (1 - size / Math.max(arena, 1));
    const rects = buffers.map(([names, offset, size, first, last]) => this.rect(names, size, operators, first, last, {
      x: across(first), y: up(offset + size), width: Math.max(across(last + 1) - across(first) - 1, 1),
      height: Math.max(up(offset) - up(offset + size) - 1, 1) }));
    const steps = live.map((size, operator) => `L${across(operator)},${up(size)}L${across(operator + 1)},${up(size)}`);
    const svg = drawn("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": "Arena" },
      ...[0, 0.5, 1].map((part) => drawn("text", { x: left - 8, y: up(arena * part) + (part === 1 ? 12 : 4),
        "text-anchor": "end" }, units.bytes(Math.round(arena * part)))),
      ...rects,
      drawn("path", { class: "live", d: steps.join("").replace("L", "M") }),
      drawn("line", { class: "peak", x1: (across(peak) + across(peak + 1)) / 2, x2: (across(peak) + across(peak + 1)) / 2,
        y1: 0, y2: height - bottom }),
      drawn("text", { class: "peak", x: Math.min(Math.max(across(peak + 0.5), left + 140), width - 140),
        y: height - 8, "text-anchor": "middle" }, operators.length ? `most at ${operators[peak]}` : ""));
    this.view.replaceChildren(svg);
    this.about.textContent = buffers.length ? "Point at a buffer to see what it holds." : "No buffers.";
  }

  rect(names, size, operators, first, last, place) {
    const text = `${names}: ${units.bytes(size)}, from ${operators[first]} to ${operators[last] ?? "the end"}`;
    const made = drawn("rect", { ...place, class: "buffer", onmouseenter: () => { this.about.textContent = text; } });
    made.append(drawn("title", {}, text));
    return made;
  }
}

page.draws("memory", (part, data) => {
  part.memory = new MemoryChart(part, data);
});
