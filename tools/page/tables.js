"use strict";

/** A table that is sorted by its headings and filtered by words; only the rows in view are in the document. */
class DataTable {
  static rowHeight = 27;
  static margin = 10; // rows beyond those in view
  static padding = 3; // characters beside the text of a cell
  static widest = 50; // characters of a column; longer texts are cut, and whole where one points at them
  static collator = new Intl.Collator("en", { numeric: true, sensitivity: "base" });

  constructor(part, { title, columns, rows }) {
    this.columns = columns.map((column, index) => ({ ...column, ...DataTable.measured(column, rows, index) }));
    this.rows = rows;
    this.shown = rows;
    this.order = null; // { column, descending }
    this.words = [];
    this.build(part, title);
    this.update();
  }

  /** What the cells of a column have in common. */
  static measured(column, rows, index) {
    let numeric = false;
    let largest = 0;
    let width = column.title.length + DataTable.padding;
    for (const row of rows) {
      const cell = row[index];
      if (typeof cell === "number") {
        numeric = true;
        largest = Math.max(largest, Math.abs(cell));
      }
      width = Math.max(width, DataTable.text(cell, column).length + DataTable.padding);
    }
    return { numeric, largest, width: Math.min(width, DataTable.widest) };
  }

  static text(cell, column) {
    if (cell == null) return "";
    if (typeof cell === "number") return units[column.unit](cell);
    return typeof cell === "string" ? cell : cell.text;
  }

  build(part, title) {
    this.count = element("span", { class: "count" });
    const search = element("input", { type: "search", placeholder: "Search", "aria-label": `Search ${title}`,
      oninput: (event) => this.filter(event.target.value) });
    this.headings = this.columns.map((column, index) => element("th",
      { class: column.numeric && "number", scope: "col" },
      element("button", { onclick: () => this.sort(index), title: column.title }, column.title)));
    this.body = element("tbody");
    const total = this.columns.reduce((sum, { width }) => sum + width, 0);
    const table = element("table", { style: `min-width: ${total}ch` },
      element("colgroup", {}, ...this.columns.map(({ width }) => element("col",
        { style: `width: ${100 * width / total}%` }))),
      element("thead", {}, element("tr", {}, ...this.headings)), this.body);
    this.scroll = element("div", { class: "scroll", tabindex: 0, onscroll: () => this.draw() }, table);
    part.append(element("div", { class: "tools" }, ...(title ? [element("h2", {}, title)] : []), this.count, search),
      this.scroll);
  }

  /** Sorts by a column: numbers from the largest, text from the first; then the other way; then not at all. */
  sort(column) {
    const first = this.columns[column].numeric;
    if (this.order?.column !== column) this.order = { column, descending: first };
    else if (this.order.descending === first) this.order = { column, descending: !first };
    else this.order = null;
    this.update();
  }

  filter(text) {
    this.words = text.toLowerCase().split(/\s+/).filter(Boolean);
    this.update();
  }

  update() {
    this.shown = this.words.length ? this.rows.filter((row) => this.matches(row)) : this.rows;
    if (this.order) this.shown = [...this.shown].sort(this.comparison());
    this.headings.forEach((heading, index) => heading.setAttribute("aria-sort",
      this.order?.column !== index ? "none" : this.order.descending ? "descending" : "ascending"));
    const all = decimals.format(this.rows.length);
    this.count.textContent = this.words.length ? `${decimals.format(this.shown.length)} of ${all}` : all;
    this.scroll.scrollTop = 0;
    this.draw();
  }

  matches(row) {
    const text = row.map((cell, index) => DataTable.text(cell, this.columns[index])).join("\n").toLowerCase();
    return this.words.every((word) => text.includes(word));
  }

  /** Cells without a value come last, whichever way. */
  comparison() {
    const { column, descending } = this.order;
    const sign = descending ? -1 : 1;
    const key = (row) => typeof row[column] === "object" ? row[column]?.text ?? null : row[column];
    return (one, other) => {
      const a = key(one);
      const b = key(other);
      if (a === null || b === null) return (a === null) - (b === null);
      if (typeof a === "number" && typeof b === "number") return sign * (a - b);
      return sign * DataTable.collator.compare(a, b);
    };
  }

  draw() {
    const height = DataTable.rowHeight;
    const view = Math.max(this.scroll.clientHeight, window.innerHeight); // it grows with its rows
    const first = Math.max(0, Math.floor(this.scroll.scrollTop / height) - DataTable.margin);
    const last = Math.min(this.shown.length, Math.ceil((this.scroll.scrollTop + view) / height) + DataTable.margin);
    const rows = this.shown.slice(first, last).map((row) => this.row(row));
    this.body.replaceChildren(this.space(first), ...rows, this.space(this.shown.length - last));
  }

  /** Stands for rows that are not in view. */
  space(rows) {
    return element("tr", { class: "space", hidden: rows === 0, "aria-hidden": "true" },
      element("td", { colspan: this.columns.length, style: `height: ${rows * DataTable.rowHeight}px` }));
  }

  row(row) {
    return element("tr", {}, ...row.map((cell, index) => this.cell(cell, this.columns[index])));
  }

  cell(cell, column) {
    const text = DataTable.text(cell, column);
    const attributes = { class: column.numeric && "number", title: text.length > 24 && text };
    if (column.bar && typeof cell === "number" && column.largest > 0) {
      const share = (100 * Math.abs(cell) / column.largest).toFixed(1);
      attributes.style = `background-image: linear-gradient(to left, var(--bar) ${share}%, transparent ${share}%)`;
    }
    if (typeof cell !== "object" || cell === null || !page.hasGraph) return element("td", attributes, text);
    return element("td", attributes, element("button", { class: "link", onclick: () => page.goTo(...cell.to) }, text));
  }
}

page.draws("table", (part, data) => {
  part.table = new DataTable(part, data);
});
