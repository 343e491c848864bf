"use strict";

/** How long the turns of loops took: a bar for each class of durations, on a logarithmic axis. */
class Histogram {
  static width = 380;
  static height = 120;
  static bottom = 18;

  static draw({ label, classes }) {
    const { width, height, bottom } = Histogram;
    const low = Math.log(classes[0][0]);
    const high = Math.log(classes[classes.length - 1][1]);
    const across = (time) => width * (Math.log(time) - low) / (high - low || 1);
    const most = Math.max(...classes.map(([, , count]) => count));
    const bars = classes.map(([from, to, count]) => {
      const tall = Math.max((height - bottom) * count / most, 1);
      const bar = drawn("rect", { class: "bar", x: across(from), width: Math.max(across(to) - across(from) - 1, 0.5),
        y: height - bottom - tall, height: tall });
      bar.append(drawn("title", {}, `${units.count(count)} turns of ${units.seconds(from)} to ${units.seconds(to)}`));
      return bar;
    });
    return element("figure", {}, element("figcaption", { title: label }, label),
      drawn("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": `Turns of ${label}` }, ...bars,
        drawn("text", { x: 0, y: height - 4 }, units.seconds(classes[0][0])),
        drawn("text", { x: width, y: height - 4, "text-anchor": "end" },
          units.seconds(classes[classes.length - 1][1]))));
  }
}

page.draws("histograms", (part, { title, loops }) => {
  part.append(element("h2", {}, title), element("div", { class: "grid" }, ...loops.map(Histogram.draw)));
});
