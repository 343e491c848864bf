"use strict";

/** Paints what is in view of a GraphView's subgraph. */
class GraphPainter {
  constructor(graph) {
    this.graph = graph;
    this.subgraph = graph.subgraph;
    this.canvas = graph.canvas;
    this.context = graph.canvas.getContext("2d");
    this.half = graph.data.boxHeight / 2;
    this.scale = graph.view.scale;
    this.legible = this.scale >= GraphView.readable;
    const style = getComputedStyle(document.documentElement);
    this.colour = (name) => style.getPropertyValue(`--${name}`).trim();
    this.font = this.colour("text");
  }

  paint() {
    const { canvas, context, scale } = this;
    const { x, y } = this.graph.view;
    this.left = x;
    this.top = y;
    this.right = x + canvas.clientWidth / scale;
    this.bottom = y + canvas.clientHeight / scale;
    context.setTransform(1, 0, 0, 1, 0, 0);
    context.clearRect(0, 0, canvas.width, canvas.height);
    const zoom = scale * devicePixelRatio;
    context.setTransform(zoom, 0, 0, zoom, -x * zoom, -y * zoom);
    this.paintLines();
    this.paintBoxes();
  }

  // Lines.

  paintLines() {
    const { context, scale } = this;
    this.graph.lines ??= this.subgraph.lines.map((line) => this.course(line));
    const selected = this.graph.selected;
    const plain = new Path2D();
    const marked = new Path2D();
    for (const line of this.graph.lines) {
      if (line.top > this.bottom || line.bottom < this.top || line.left > this.right || line.right < this.left) continue;
      const touched = selected !== null && (line.source === selected || line.target === selected);
      this.trace(touched ? marked : plain, line.points);
    }
    context.lineWidth = Math.max(1.2, 0.6 / scale);
    context.strokeStyle = this.colour("muted");
    context.globalAlpha = 0.55;
    context.stroke(plain);
    context.globalAlpha = 1;
    context.lineWidth = Math.max(2, 1 / scale);
    context.strokeStyle = this.colour("accent");
    context.stroke(marked);
  }

  /** The points of a line from box to box, and what it spans. */
  course([source, target, , bends]) {
    const [, , , , x, y] = this.subgraph.boxes[source];
    const [, , , , endX, endY] = this.subgraph.boxes[target];
    const points = [[x, y + this.half], ...bends, [endX, endY - this.half]];
    const xs = points.map((point) => point[0]);
    return { source, target, points, top: points[0][1], bottom: points[points.length - 1][1],
      left: Math.min(...xs), right: Math.max(...xs) };
  }

  trace(path, points) {
    path.moveTo(...points[0]);
    for (let k = 1; k < points.length; k += 1) {
      const [x0, y0] = points[k - 1];
      const [x1, y1] = points[k];
      if (y1 < this.top || y0 > this.bottom) path.moveTo(x1, y1);
      else if (x0 === x1 || !this.legible) path.lineTo(x1, y1);
      else path.bezierCurveTo(x0, (y0 + y1) / 2, x1, (y0 + y1) / 2, x1, y1);
    }
  }

  // Boxes.

  paintBoxes() {
    this.subgraph.boxes.forEach((box, index) => {
      const [, , , , x, y, width] = box;
      if (x + width / 2 < this.left || x - width / 2 > this.right) return;
      if (y + this.half < this.top || y - this.half > this.bottom) return;
      if (this.legible) this.paintBox(box, index);
      else this.paintBlock(box, index);
    });
  }

  /** A box from afar. */
  paintBlock([kind, , , , x, y, width], index) {
    const { context } = this;
    const operator = this.graph.operatorOf(index);
    context.fillStyle = index === this.graph.selected ? this.colour("accent")
      : operator ? this.fill(operator) ?? this.colour(operator.group) : this.colour("line");
    context.fillRect(x - width / 2, y - this.half, width, 2 * this.half);
    if (kind === "operator" && operator.warning) this.mark(x + width / 2, y - this.half);
  }

  paintBox([kind, , title, subtitle, x, y, width], index) {
    const { context, half } = this;
    const operator = this.graph.operatorOf(index);
    const left = x - width / 2;
    context.beginPath();
    context.roundRect(left, y - half, width, 2 * half, kind === "operator" ? 6 : half);
    context.fillStyle = this.colour(operator ? "panel" : "paper");
    context.fill();
    const heat = operator && this.fill(operator);
    if (heat) {
      context.fillStyle = heat;
      context.fill();
    }
    const selected = index === this.graph.selected;
    context.lineWidth = selected ? 2.5 : 1;
    context.strokeStyle = this.colour(selected ? "accent" : operator?.calls.length ? "flow" : "line");
    context.stroke();
    if (operator) this.paintStripe(operator, left, y);
    this.paintTexts(operator, title, subtitle, x, y, width);
    if (operator?.warning) this.mark(x + width / 2, y - half);
  }

  paintStripe(operator, left, y) {
    const { context, half } = this;
    context.beginPath();
    context.roundRect(left, y - half, 5, 2 * half, [6, 0, 0, 6]);
    context.fillStyle = this.colour(operator.group);
    context.fill();
  }

  paintTexts(operator, title, subtitle, x, y, width) {
    const { context } = this;
    context.textBaseline = "middle";
    const left = x - width / 2 + 12;
    const room = width - 20;
    context.fillStyle = this.colour("ink");
    context.font = `600 12px ${this.font}`;
    const more = operator?.label || (operator?.calls.length ? "▸" : "");
    const end = more ? context.measureText(more).width + 6 : 0;
    context.fillText(operator ? this.fitted(title, room - end) : this.ending(title, room), left, y - 8);
    context.textAlign = "right";
    context.fillText(more, left + room, y - 8);
    context.textAlign = "left";
    context.fillStyle = this.colour(operator?.heat > 0.2 ? "ink" : "muted");
    context.font = `11px ${this.font}`;
    context.fillText(this.fitted(subtitle, room), left, y + 10);
  }

  /** The colour of an operator's heat; null where it has none. */
  fill(operator) {
    if (operator.heat == null) return null;
    return `rgba(${this.colour("hot")}, ${(0.06 + 0.84 * operator.heat).toFixed(3)})`;
  }

  /** A dot in a corner says that something is wrong. */
  mark(x, y) {
    this.context.beginPath();
    this.context.arc(x - 2, y + 2, 6, 0, 2 * Math.PI);
    this.context.fillStyle = this.colour("warning");
    this.context.fill();
  }

  /** As much of the end of a name as there is room for, which tells more than its scopes. */
  ending(text, room) {
    if (this.context.measureText(text).width <= room) return text;
    let first = 1;
    while (first < text.length - 1 && this.context.measureText(`…${text.slice(first)}`).width > room) first += 1;
    return `…${text.slice(first)}`;
  }

  /** As much of a text as there is room for. */
  fitted(text, room) {
    if (this.context.measureText(text).width <= room) return text;
    let length = text.length;
    while (length > 1 && this.context.measureText(`${text.slice(0, length)}…`).width > room) length -= 1;
    return `${text.slice(0, length)}…`;
  }
}
