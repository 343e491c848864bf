"use strict";

/** What is beside a GraphView: all that is known of the selected box, or of the subgraph. */
class GraphDetails {
  constructor(aside, graph) {
    this.aside = aside;
    this.graph = graph;
  }

  show() {
    const { selected, subgraph } = this.graph;
    if (selected === null || selected < 0) {
      this.aside.replaceChildren(...this.ofSubgraph());
      return;
    }
    const [kind, index] = subgraph.boxes[selected];
    this.aside.replaceChildren(...(kind === "operator" ? this.ofOperator(index) : this.ofTensor(kind, index)));
  }

  ofSubgraph() {
    const { index, subgraph } = this.graph;
    const boxes = (kind) => subgraph.boxes.filter((box) => box[0] === kind);
    return [
      element("h2", {}, `@${index} ${subgraph.name}`),
      element("p", { class: "muted" }, `Operators: ${decimals.format(subgraph.operators.length)}. Click on one for its `
        + "details; double-click on one that invokes a subgraph (▸) to step into it."),
      ...this.section("Inputs", boxes("input").map((box) => this.tensor(box[1]))),
      ...this.section("Outputs", boxes("output").map((box) => this.tensor(box[1]))),
      ...this.section("Called by", this.callers(index)),
    ];
  }

  callers(index) {
    return this.graph.data.subgraphs.flatMap(({ operators }, subgraph) => operators.flatMap((each, operator) =>
      each.calls.filter((call) => call[1] === index).map(([role]) => element("div", {},
        this.link(`@${subgraph}[${operator}] ${each.name} ${role}`, () => this.graph.goTo(subgraph, operator))))));
  }

  ofTensor(kind, index) {
    return [element("h2", {}, `${kind === "input" ? "Input" : "Output"} of @${this.graph.index}`),
      ...this.section("Tensor", [this.tensor(index, kind === "output")]),
      ...(kind === "input" ? this.section("Read by", this.readers(index)) : [])];
  }

  ofOperator(index) {
    const { subgraph, data } = this.graph;
    const operator = subgraph.operators[index];
    const callees = operator.calls.map(([role, callee], number) => element("button",
      { onclick: () => this.graph.stepInto(this.graph.selected, number) },
      `${role}: @${callee} ${data.subgraphs[callee]?.name ?? "(none)"} ▸`));
    return [
      element("h2", {}, `[${index}] ${operator.name}${operator.version === 1 ? "" : ` v${operator.version}`}`),
      ...(operator.warning ? [element("p", { class: "warning" }, operator.warning)] : []),
      ...this.section("Invokes", callees.length ? [element("div", { class: "callees" }, ...callees)] : []),
      ...this.section("Measures", this.facts(operator.rows ?? [])),
      ...this.section("Options", this.facts(Object.entries(operator.options))),
      ...this.section("Merged of", (operator.parts ?? []).flatMap(([name, options]) => [
        element("div", {}, name), ...this.facts(Object.entries(options))])),
      ...this.section("Inputs", operator.inputs.map((each) => this.tensor(each, true))),
      ...this.section("Outputs", operator.outputs.map((each) => this.tensor(each))),
      ...this.section("Read by", operator.outputs.flatMap((each) => this.readers(each))),
    ];
  }

  section(title, children) {
    return children.length ? [element("h3", {}, title), ...children] : [];
  }

  facts(pairs) {
    const entries = pairs.flatMap(([name, value]) => [element("dt", {}, name), element("dd", {}, value)]);
    return entries.length ? [element("dl", {}, ...entries)] : [];
  }

  link(text, go) {
    return element("button", { class: "link", onclick: go }, text);
  }

  /** A tensor's name, type, size and where it comes from. */
  tensor(index, withSource = false) {
    const found = this.graph.subgraph.tensors[index];
    if (!found) return element("div", { class: "tensor muted" }, index === -1 ? "absent" : `%${index}: undeclared`);
    const [name, type, kind, bytes, preview] = found;
    const size = bytes == null ? "" : `, ${units.bytes(bytes)}`;
    const lines = [element("div", {}, element("span", { class: "muted" }, `%${index} `), name || "(no name)"),
      element("code", {}, type)];
    if (kind !== "value") lines.push(element("div", { class: "muted" }, `${kind}${size} in @${this.graph.index}`));
    if (preview) lines.push(element("div", {}, element("code", {}, preview)));
    if (withSource && kind === "value") lines.push(...this.source(index));
    return element("div", { class: "tensor" }, ...lines);
  }

  source(index) {
    const { subgraph } = this.graph;
    const box = this.graph.boxOf("input", index);
    if (box >= 0) return [element("div", {}, this.link("input of the subgraph", () => this.go(box)))];
    const operator = subgraph.operators.findIndex(({ outputs }) => outputs.includes(index));
    if (operator < 0) return [element("div", { class: "warning" }, "nothing writes it")];
    return [element("div", {}, this.link(`from [${operator}] ${subgraph.operators[operator].name}`,
      () => this.go(this.graph.boxOf("operator", operator))))];
  }

  readers(index) {
    const { subgraph } = this.graph;
    const found = subgraph.operators.flatMap(({ inputs, name }, operator) => inputs.includes(index)
      ? [element("div", {}, this.link(`[${operator}] ${name}`,
        () => this.go(this.graph.boxOf("operator", operator))))] : []);
    const box = this.graph.boxOf("output", index);
    if (box >= 0) found.push(element("div", {}, this.link("output of the subgraph", () => this.go(box))));
    return found;
  }

  go(box) {
    this.graph.select(box);
    this.graph.centre(box);
  }
}
