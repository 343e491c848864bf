"use strict";

/** Makes an element: attributes by name, those that begin with "on" as listeners, and children. */
function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (value === true) made.setAttribute(name, "");
    else if (value !== false && value != null) made.setAttribute(name, value);
  }
  made.append(...children);
  return made;
}

const decimals = new Intl.NumberFormat("en-US", { maximumFractionDigits: 6 });

/** Writes numbers as people read them. */
const units = {
  bytes: (number) => scaled(number, 1024, ["bytes", "KiB", "MiB", "GiB", "TiB"]),
  count: (number) => scaled(number, 1000, ["", "k", "M", "G", "T", "P"]),
  share: (number) => `${(100 * number).toFixed(1)} %`,
  seconds: (number) => number >= 1 || number === 0 ? `${digits(number)} s`
    : number >= 1e-3 ? `${digits(1e3 * number)} ms`
    : number >= 1e-6 ? `${digits(1e6 * number)} µs` : `${digits(1e9 * number)} ns`,
  "": (number) => decimals.format(number),
};

function digits(number) {
  return Math.abs(number) >= 100 ? decimals.format(Math.round(number)) : String(+number.toPrecision(3));
}

function scaled(number, base, names) {
  let step = 0;
  while (Math.abs(number) >= base && step < names.length - 1) {
    number /= base;
    step += 1;
  }
  return `${step ? digits(number) : decimals.format(number)} ${names[step]}`.trim();
}

/** The document: tabs of parts, each drawn by the function that its script has named. */
const page = {
  kinds: new Map(),
  graph: null, // the last graph drawn, to which links lead

  draws(kind, draw) {
    this.kinds.set(kind, draw);
  },

  start() {
    const { tabs } = JSON.parse(document.getElementById("data").textContent);
    this.tabs = tabs.map((tab, index) => this.addTab(tab, index));
    document.querySelector("nav").hidden = tabs.length < 2;
    this.show(0);
  },

  addTab({ title, parts }, index) {
    const button = element("button", { role: "tab", onclick: () => this.show(index) }, title);
    const section = element("section", { role: "tabpanel", "aria-label": title });
    document.querySelector("nav").append(button);
    document.querySelector("main").append(section);
    return { button, section, parts, drawn: false };
  },

  /** Parts are drawn when they are first seen, as sizes are known then. */
  show(index) {
    this.tabs.forEach(({ button, section }, each) => {
      button.setAttribute("aria-selected", each === index);
      section.hidden = each !== index;
    });
    const tab = this.tabs[index];
    if (!tab.drawn) {
      tab.drawn = true;
      for (const { kind, data } of tab.parts) {
        const part = element("div", { class: `part ${kind}` });
        tab.section.append(part);
        this.kinds.get(kind)(part, data);
      }
    }
  },

  /** Shows an operator in the graph, or a subgraph alone. */
  goTo(subgraph, operator) {
    const index = this.tabs.findIndex(({ parts }) => parts.some(({ kind }) => kind === "graph"));
    if (index < 0) return;
    this.show(index);
    this.graph.goTo(subgraph, operator);
  },

  get hasGraph() {
    return this.tabs.some(({ parts }) => parts.some(({ kind }) => kind === "graph"));
  },
};

page.draws("facts", (part, facts) => {
  const entries = facts.flatMap(([name, value]) => [element("dt", {}, name), element("dd", {}, value)]);
  part.append(element("dl", {}, ...entries));
});

page.draws("text", (part, { title, paragraphs }) => {
  if (title) part.append(element("h2", {}, title));
  part.append(...paragraphs.map((each) => element("p", {}, each)));
});

page.draws("list", (part, { title, items }) => {
  if (title) part.append(element("h2", {}, title));
  part.append(...items.map(({ head, to, paragraphs }) => element("div", { class: "item" },
    element("h3", {}, to && page.hasGraph ? element("button", { class: "link", onclick: () => page.goTo(...to) }, head)
      : head),
    ...paragraphs.map((each) => element("p", {}, each)))));
});

page.draws("code", (part, { title, text }) => {
  if (title) part.append(element("h2", {}, title));
  part.append(element("pre", {}, text));
});
