// Draws the counts that stand in a page, with uPlot. Without it the page has them as a table.
(() => {
  "use strict";
  const dashes = [[], [6, 3], [2, 3]];
  const drawn = [];
  // A value between two gaps has no line: it is drawn as a point.
  const alone = (all) => all.flatMap((v, i) => (v != null && all[i - 1] == null && all[i + 1] == null ? [i] : []));
  // The clock of the reader, in 24 hours; the day where it changes.
  const clock = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", hourCycle: "h23" });
  const day = new Intl.DateTimeFormat(undefined, { weekday: "short", day: "numeric" });
  const short = new Intl.NumberFormat(undefined, { maximumSignificantDigits: 3, notation: "compact" });
  const seconds = (v) => (v > 0 && v < 1 ? short.format(v * 1000) + " ms" : short.format(v) + " s");
  const hours = (_, at) => at.map((s, i) => {
    const date = new Date(s * 1000), before = new Date((at[i - 1] ?? s) * 1000);
    return clock.format(date) + (i > 0 && date.getDate() !== before.getDate() ? "\n" + day.format(date) : "");
  });
  // The legend has the values at the cursor; without one, those of the last step that has any.
  const lastSeen = (plot) => {
    const last = plot.data[0].length - 1;
    const seen = Math.max(...plot.data.slice(1).map((all) => all.findLastIndex((v) => v != null)));
    return seen < 0 ? last : seen;
  };
  const valueAt = (plot, series, i) => plot.data[series][i ?? lastSeen(plot)];
  const legend = (plot) => plot.setLegend({}, false);
  // Averages of milliseconds would be a flat line below a scale for counts.
  const whole = (values) => values.flat().every((v) => Number.isInteger(v ?? 0));
  // The use of a limit that is far away would be a flat line below it: then the limit is in the legend only.
  const top = (data, limited, most) => {
    const used = Math.max(0, ...data.slice(1, -1).flat());
    return limited && used * 10 < most ? used : most;
  };
  const draw = (element) => {
    const { series, unit, limited, at, values } = JSON.parse(document.getElementById("plot-" + element.dataset.plot).textContent);
    if (!at || at.length === 0) return;
    const style = getComputedStyle(document.documentElement);
    const colour = (name) => style.getPropertyValue(name).trim();
    const amount = unit === "s" ? seconds : (v) => short.format(v), text = (v) => (v == null ? "—" : unit === "s" ? seconds(v) : String(v));
    const hue = (i) => colour("--chart-" + (i % 3));
    const axis = { stroke: colour("--quiet"), grid: { stroke: colour("--line"), width: 1 }, ticks: { stroke: colour("--line"), width: 1 }, font: "12px system-ui" };
    element.replaceChildren();
    const plot = new uPlot({
      width: element.clientWidth, height: 200,
      cursor: { y: false }, legend: { live: true },
      scales: { y: { range: (u, _, most) => [0, Math.max(top(u.data, limited, most) * 1.1, whole(u.data.slice(1)) ? 4 : 0.01)] } },
      axes: [{ ...axis, values: hours }, { ...axis, size: unit === "s" ? 68 : 54, values: (_, at) => at.map(amount) }],
      series: [{ label: "At", value: (u, _, s, i) => clock.format(new Date(valueAt(u, s, i) * 1000)) }, ...series.map((label, i) => ({ label, value: (u, _, s, n) => text(valueAt(u, s, n)), stroke: hue(i), width: 2, dash: dashes[(i + Math.floor(i / 3)) % 3], points: { show: true, size: 6, fill: hue(i), filter: (u, s) => alone(u.data[s]) } }))],
    }, [at, ...values], element);
    legend(plot);
    drawn.push({ plot, element });
  };
  const all = () => {
    while (drawn.length) drawn.pop().plot.destroy();
    document.querySelectorAll("[data-plot]").forEach(draw);
  };
  // What is newer, while the page is seen. The table has what the page came with.
  const renew = async () => {
    const source = document.querySelector("[data-charts]")?.dataset.charts;
    if (!source || document.hidden) return;
    const answer = await fetch(source, { headers: { "HX-Request": "true" } });
    if (answer.status !== 200) return;
    const newer = await answer.json();
    let others = false; // a series that came or went has a legend of its own
    for (const { plot, element } of drawn) {
      const one = newer[element.dataset.plot];
      if (!one) continue;
      document.getElementById("plot-" + element.dataset.plot).textContent = JSON.stringify(one);
      others ||= one.series.join() !== plot.series.slice(1).map((s) => s.label).join();
      if (others) continue;
      plot.setData([one.at, ...one.values]);
      legend(plot);
    }
    if (others) all();
  };
  setInterval(() => renew().catch(() => {}), 15000); // the page's own updates say when nothing answers
  document.addEventListener("DOMContentLoaded", all);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", all);
  addEventListener("resize", () => drawn.forEach(({ plot, element }) => plot.setSize({ width: element.clientWidth, height: 200 })));
})();
