"use strict";

/** A drawing of one subgraph at a time, on a canvas: dragged, zoomed, stepped into; what is out of view is skipped. */
class GraphView {
  static readable = 0.4; // the scale below which there is no text
  static margin = 24;
  static legend = 28; // its height
  static groups = { product: "products", element: "elementwise", reduce: "reductions", move: "moves",
    flow: "control flow" };

  constructor(part, data) {
    this.data = data;
    this.path = []; // subgraphs from an entry to the one in view, each with the operator that invokes the next
    this.selected = null; // index of a box
    this.views = new Map(); // what was in view of each subgraph
    this.build(part);
    this.details = new GraphDetails(this.aside, this);
    this.listen();
    this.open([{ subgraph: data.entries[0] ?? 0 }]);
  }

  build(part) {
    part.classList.add("graph");
    this.crumbs = element("div", { class: "crumbs", "aria-label": "Subgraphs" });
    this.search = element("input", { type: "search", placeholder: "Find an operator or tensor",
      onkeydown: (event) => event.key === "Enter" && this.find(event.target.value) });
    const choice = element("select", { "aria-label": "Subgraph", onchange: (event) => this.goTo(+event.target.value) },
      ...this.data.subgraphs.map(({ name }, index) => element("option", { value: index }, `@${index} ${name}`)));
    this.choice = choice;
    this.canvas = element("canvas", { tabindex: 0, "aria-label": "Operators of the subgraph" });
    this.aside = element("aside");
    part.append(
      element("div", { class: "tools" }, choice, this.crumbs, this.search,
        element("button", { onclick: () => this.zoom(1.4), title: "Zoom in" }, "+"),
        element("button", { onclick: () => this.zoom(1 / 1.4), title: "Zoom out" }, "−"),
        element("button", { onclick: () => this.fit(), title: "Show all" }, "Fit")),
      element("div", { class: "body" },
        element("div", { class: "view" }, this.canvas, this.legend()), this.aside));
  }

  legend() {
    const entry = (colour, text) => element("span", {}, element("i", { style: `background: ${colour}` }), text);
    if (this.data.heat) {
      return element("div", { class: "legend" },
        entry("linear-gradient(to right, rgba(var(--hot), .06), rgba(var(--hot), .9))", this.data.heat));
    }
    return element("div", { class: "legend" },
      ...Object.entries(GraphView.groups).map(([name, text]) => entry(`var(--${name})`, text)));
  }

  listen() {
    const canvas = this.canvas;
    new ResizeObserver(() => this.resized()).observe(canvas);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.redraw());
    canvas.addEventListener("wheel", (event) => {
      event.preventDefault();
      if (event.ctrlKey || event.metaKey) this.zoom(Math.exp(-event.deltaY / 150), event.offsetX, event.offsetY);
      else this.pan(-event.deltaX, -event.deltaY);
    }, { passive: false });
    canvas.addEventListener("pointerdown", (event) => {
      this.drag = { x: event.clientX, y: event.clientY, moved: false };
      canvas.setPointerCapture(event.pointerId);
    });
    canvas.addEventListener("pointermove", (event) => this.dragged(event));
    canvas.addEventListener("pointerup", (event) => {
      if (this.drag && !this.drag.moved) this.select(this.boxAt(event.offsetX, event.offsetY));
      this.drag = null;
    });
    canvas.addEventListener("dblclick", (event) => this.stepInto(this.boxAt(event.offsetX, event.offsetY)));
    canvas.addEventListener("keydown", (event) => this.pressed(event));
  }

  dragged(event) {
    if (!this.drag) return;
    const x = event.clientX - this.drag.x;
    const y = event.clientY - this.drag.y;
    if (!this.drag.moved && Math.hypot(x, y) < 4) return;
    this.pan(x, y);
    this.drag = { x: event.clientX, y: event.clientY, moved: true };
  }

  pressed(event) {
    const steps = { ArrowLeft: [60, 0], ArrowRight: [-60, 0], ArrowUp: [0, 60], ArrowDown: [0, -60] };
    if (steps[event.key]) this.pan(...steps[event.key]);
    else if (event.key === "+" || event.key === "=") this.zoom(1.4);
    else if (event.key === "-") this.zoom(1 / 1.4);
    else if (event.key === "0") this.fit();
    else if (event.key === "Enter" && this.selected !== null) this.stepInto(this.selected);
    else if (event.key === "Escape" && this.path.length > 1) this.open(this.path.slice(0, -1));
    else return;
    event.preventDefault();
  }

  get index() {
    return this.path[this.path.length - 1].subgraph;
  }

  get subgraph() {
    return this.data.subgraphs[this.index];
  }

  /** Shows the subgraph at the end of a path. */
  open(path) {
    if (this.path.length) this.views.set(this.index, this.view);
    this.path = path;
    this.selected = null;
    this.lines = null;
    this.view = this.views.get(this.index);
    this.choice.value = this.index;
    this.showCrumbs();
    if (!this.view) this.begin();
    this.details.show();
    this.redraw();
  }

  showCrumbs() {
    const links = this.path.slice(0, -1).map(({ subgraph, operator }, depth) => element("button",
      { class: "link", onclick: () => this.open(this.path.slice(0, depth + 1)) },
      `@${subgraph}[${operator}] ${this.data.subgraphs[subgraph].operators[operator].name}`));
    const parts = [...links, `@${this.index} ${this.subgraph.name}`];
    this.crumbs.replaceChildren(...(links.length ? parts : []).flatMap((each, index) =>
      index ? [element("span", {}, "›"), each] : [each]));
  }

  stepInto(box, callee = null) {
    const operator = box === null ? null : this.operatorOf(box);
    const call = operator?.calls[callee ?? operator.calls.findIndex(([role]) => role === "body")]
      ?? operator?.calls[0];
    if (!call) return;
    const here = { subgraph: this.index, operator: this.subgraph.boxes[box][1] };
    this.open([...this.path.slice(0, -1), here, { subgraph: call[1] }]);
  }

  /** Shows a subgraph, and an operator in the middle. */
  goTo(subgraph, operator = null) {
    if (this.index !== subgraph) this.open([{ subgraph }]);
    if (operator === null) return;
    const box = this.boxOf("operator", operator);
    this.select(box);
    this.centre(box);
  }

  boxOf(kind, index) {
    return this.subgraph.boxes.findIndex((box) => box[0] === kind && box[1] === index);
  }

  operatorOf(box) {
    const [kind, index] = this.subgraph.boxes[box];
    return kind === "operator" ? this.subgraph.operators[index] : null;
  }

  /** Goes to the next box after the selected one that has the words, by its texts or by its results' names. */
  find(text) {
    const words = text.toLowerCase().split(/\s+/).filter(Boolean);
    const { boxes, operators, tensors } = this.subgraph;
    const count = boxes.length;
    const first = this.selected === null ? 0 : this.selected + 1;
    for (let step = 0; step < count && words.length; step += 1) {
      const box = (first + step) % count;
      const [kind, index, title, subtitle] = boxes[box];
      const names = kind === "operator" ? operators[index].outputs.map((each) => tensors[each]?.[0]) : [];
      const found = [kind === "operator" ? `[${index}]` : "", title, subtitle, ...names].join(" ").toLowerCase();
      if (words.every((word) => found.includes(word))) {
        this.select(box);
        this.centre(box);
        return;
      }
    }
  }

  select(box) {
    this.selected = box;
    this.details.show();
    this.redraw();
  }

  // What is in view: `view` is { scale, x, y }, with the drawing's (x, y) in the upper left corner.

  resized() {
    const { clientWidth, clientHeight } = this.canvas;
    if (!clientWidth) return;
    this.canvas.width = clientWidth * devicePixelRatio;
    this.canvas.height = clientHeight * devicePixelRatio;
    if (!this.view) this.begin();
    this.redraw();
  }

  /** The whole subgraph if it can be read so, or else its first operators. */
  begin() {
    this.fit();
    if (!this.view || this.view.scale >= GraphView.readable) return;
    const scale = 0.8;
    const [, , , , x] = this.subgraph.boxes[0];
    this.view = { scale, x: x - this.canvas.clientWidth / scale / 2, y: -GraphView.margin / scale };
    this.redraw();
  }

  fit() {
    const { clientWidth, clientHeight } = this.canvas;
    if (!clientWidth) return;
    const { width, height } = this.subgraph;
    const room = { x: clientWidth - 2 * GraphView.margin, y: clientHeight - 2 * GraphView.margin - GraphView.legend };
    const scale = Math.min(1, room.x / Math.max(width, 1), room.y / Math.max(height, 1));
    this.view = { scale, x: (width - clientWidth / scale) / 2, y: -GraphView.margin / scale };
    this.redraw();
  }

  centre(box) {
    if (!this.view || box < 0) return;
    const [, , , , x, y] = this.subgraph.boxes[box];
    const scale = Math.max(this.view.scale, 0.8);
    this.view = { scale, x: x - this.canvas.clientWidth / scale / 2, y: y - this.canvas.clientHeight / scale / 2 };
    this.redraw();
  }

  pan(x, y) {
    const view = this.view;
    this.view = { ...view, x: view.x - x / view.scale, y: view.y - y / view.scale };
    this.redraw();
  }

  /** Zooms about a point of the canvas, which stays where it is. */
  zoom(factor, x = this.canvas.clientWidth / 2, y = this.canvas.clientHeight / 2) {
    const view = this.view;
    const scale = Math.min(4, Math.max(0.0005, view.scale * factor));
    this.view = { scale, x: view.x + x / view.scale - x / scale, y: view.y + y / view.scale - y / scale };
    this.redraw();
  }

  boxAt(x, y) {
    const view = this.view;
    const px = x / view.scale + view.x;
    const py = y / view.scale + view.y;
    const half = this.data.boxHeight / 2;
    const found = this.subgraph.boxes.findIndex(([, , , , bx, by, width]) =>
      Math.abs(px - bx) <= width / 2 && Math.abs(py - by) <= half);
    return found < 0 ? null : found;
  }

  redraw() {
    if (this.frame || !this.canvas.width) return;
    this.frame = requestAnimationFrame(() => {
      this.frame = null;
      if (this.view) new GraphPainter(this).paint();
    });
  }
}

page.draws("graph", (part, data) => {
  page.graph = new GraphView(part, data);
});
